//! A volume over several devices: `volume:a.img:b.img`, `volume:pool.toml`.

use super::{Bottom, Opening};
use crate::argument::Part;
use crate::error::{Problem, ServedError};
#[cfg(feature = "volume")]
use flashlab_catalogue::device::HostCodecs;

#[cfg(feature = "volume")]
pub(super) fn open(mut part: Part<'_>, opening: &Opening<'_>) -> Result<Bottom, ServedError> {
    use crate::volume::{Pool, PoolError, open_options};
    use flashlab_volume::keys::KeyError;
    use flashlab_volume::{OpenOptions, VolumeError};
    use std::sync::Arc;
    if opening.is_member {
        return Err(part.error(Problem::NestedVolume));
    }
    let missing = Problem::Missing { key: "the list of members", example: "volume:a.img:b.img" };
    let list = part.first().ok_or_else(|| part.error(missing))?;
    let keys: &[&str] = match opening.sources.is_simulated {
        true => &["passphrase-file", "passphrase-fd", "degraded", "host"],
        false => &["passphrase-file", "passphrase-fd", "degraded"],
    };
    part.read("volume", keys, "passphrase-file=secret")?;
    let host = host(&part, opening)?;
    let degraded = degraded(&part)?;
    let options =
        OpenOptions { passphrase: passphrase(&part)?, degraded, ..open_options(opening.read_only_bytes)? };
    let opened = Pool::parse(list)?.open_on(host, opening.seed, options, opening.sources);
    let volume = opened.map_err(|error| match error {
        ServedError::Volume(PoolError { error: VolumeError::Key(KeyError::NotAvailable), .. }) => {
            ServedError::Locked(list.to_owned())
        }
        error => error,
    })?;
    let closing = Arc::new(volume.clone());
    Ok(Bottom { bytes: Box::new(volume), simulated: None, made: None, closing: Some(closing) })
}

/// Returns the host that runs the codecs in simulated time, if the argument names one.
#[cfg(feature = "volume")]
fn host(part: &Part<'_>, opening: &Opening<'_>) -> Result<Option<HostCodecs>, ServedError> {
    let Some((name, _)) = part.value("host") else { return Ok(None) };
    let host = HostCodecs::named(name, opening.sources.library);
    host.map(Some).map_err(|unknown| part.error_at("host", Problem::Host(unknown)))
}

/// Returns the rule for opening the volume without some members.
#[cfg(feature = "volume")]
fn degraded(part: &Part<'_>) -> Result<flashlab_volume::Degraded, ServedError> {
    use flashlab_volume::Degraded;
    const RULES: &[&str] = &["refuse", "yes", "very"];
    Ok(match part.choice("degraded", RULES)? {
        Some(1) => Degraded::Yes,
        Some(2) => Degraded::Very,
        _ => Degraded::Refuse,
    })
}

/// Reads the passphrase of an encrypted volume.
#[cfg(feature = "volume")]
fn passphrase(part: &Part<'_>) -> Result<Option<flashlab_volume::keys::Passphrase>, ServedError> {
    use flashlab_volume::keys::Passphrase;
    let read = match (part.value("passphrase-file"), part.descriptor("passphrase-fd")?) {
        (Some(_), Some(_)) => return Err(part.error(Problem::Both(["passphrase-file", "passphrase-fd"]))),
        (Some((path, _)), None) => Passphrase::from_file(std::path::Path::new(path)),
        (None, Some(fd)) => Passphrase::from_fd(fd),
        (None, None) => return Ok(None),
    };
    read.map(Some).map_err(ServedError::Passphrase)
}

#[cfg(not(feature = "volume"))]
pub(super) fn open(part: Part<'_>, _: &Opening<'_>) -> Result<Bottom, ServedError> {
    Err(part.error(Problem::NotInBuild { word: "volume", feature: "volume" }))
}
