//! The base profiles of a fit: those that the user chose, or those of the kind of device that the host takes.

use super::{FitSettings, FittingError, Input, SPREAD, TYPICAL, TYPICAL_CARDS};
use flashlab_catalogue::device::Device;
use flashlab_catalogue::kind::{CardInHost, Kind};
use flashlab_catalogue::library::Library;
use flashlab_catalogue::profile::Parameter;

/// The typical eMMC device.
const TYPICAL_EMMC: &str = "emmc/typical-16gb";

/// Returns the base profiles of `settings`. If there are none, returns the profiles of the devices that
/// `host` takes: the typical cards, the typical eMMC device, or all sticks of the library.
///
/// If the user chose no base profile, a fit starts from the profile of the measured device only if no other
/// profile is available.
pub(super) fn bases(
    inputs: &[Input],
    settings: &FitSettings,
    host: &str,
    library: &Library,
) -> Result<Vec<String>, FittingError> {
    if !settings.bases.is_empty() {
        settings.bases.iter().try_for_each(|base| check(base, library))?;
        return Ok(settings.bases.clone());
    }
    // The check of the hosts rejects an unknown name later.
    let Ok(machine) = library.host(host) else { return Ok(vec![TYPICAL.to_owned()]) };
    let kinds = Kind::all().filter(|kind| kind.host() == Some(machine.kind) && is_fitted(*kind));
    let all: Vec<String> = match kinds.collect::<Vec<_>>()[..] {
        [] => return Err(FittingError::NoCardSlot { host: host.to_owned() }),
        [kind] => library.of_kind(kind).map(|(name, _)| name.to_owned()).collect(),
        _ => cards(host, library),
    };
    let is_other = |name: &&String| !inputs.iter().any(|input| input.is_refit(name));
    let others: Vec<String> = all.iter().filter(is_other).cloned().collect();
    Ok(if others.is_empty() { all } else { others })
}

/// Returns the typical devices of a host for SD cards or eMMC.
fn cards(host: &str, library: &Library) -> Vec<String> {
    let in_host = |name: &str| Device::open(&format!("{name}:host={host}"), library).ok();
    let typical = in_host(TYPICAL);
    let machine = typical.as_ref().and_then(|device| device.hardware::<CardInHost>());
    if machine.is_some_and(|found| found.host.modes.iter().any(|mode| mode.is_emmc())) {
        return vec![TYPICAL_EMMC.to_owned()];
    }
    // A host whose commands are simulated one by one does not take a card with an area for small writes.
    let cards = TYPICAL_CARDS.map(|(name, _)| name).into_iter();
    cards.filter(|name| in_host(name).is_some()).map(str::to_owned).collect()
}

/// Returns a sentence on a host that is a USB port, where the measured device may also be a card in a reader.
pub(super) fn of_stick(host: &str, library: &Library) -> Option<String> {
    let machine = library.host(host).ok()?;
    let port = Kind::named("stick").and_then(Kind::host);
    (port == Some(machine.kind)).then(|| {
        format!(
            "{host} is a USB port, so the fit takes the device for a USB stick; if the device is a card in a \
             reader, the host is the reader (docs/fit.md, \"A card in a USB reader\")"
        )
    })
}

/// Rejects a base profile of a kind that cannot be fitted.
fn check(base: &str, library: &Library) -> Result<(), FittingError> {
    let device = Device::open(base, library).map_err(|error| FittingError::Device(error.to_string()))?;
    if is_fitted(device.kind()) { Ok(()) } else { Err(FittingError::NotFitted { name: base.to_owned() }) }
}

/// Returns true if a fit knows the numbers of this kind of device.
fn is_fitted(kind: Kind) -> bool {
    Parameter::at(SPREAD).is_some_and(|spread| kind.has(spread))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fitting::{BUFFERED, with_typical};

    #[test]
    fn the_host_determines_the_base_profiles() {
        let library = with_typical(&Library::built_in().expect("the built-in library is valid"));
        let of = |host: &str| bases(&[], &FitSettings::default(), host, &library).map_err(|e| e.to_string());
        assert_eq!(of("raspberry-pi-4"), Ok(vec![BUFFERED.to_owned(), TYPICAL.to_owned()]));
        assert_eq!(of("at91rm9200"), Ok(vec![TYPICAL.to_owned()]));
        assert_eq!(of("emmc-hs200"), Ok(vec![TYPICAL_EMMC.to_owned()]));
        let sticks = of("raspberry-pi-4-usb").expect("sticks");
        assert!(sticks.len() > 1 && sticks.iter().all(|name| name.starts_with("usb/")), "{sticks:?}");
        let refused = of("linux-pc").expect_err("SSDs are not fitted");
        assert!(
            refused.starts_with("linux-pc has no card slot") && refused.contains("USB reader"),
            "{refused}"
        );
        let stick = of_stick("raspberry-pi-4-usb", &library).expect("a USB port");
        assert!(stick.contains("for a USB stick") && stick.contains("docs/fit.md"), "{stick}");
        assert_eq!(of_stick("raspberry-pi-4", &library), None);
    }
}
