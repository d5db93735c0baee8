//! Changes of a volume as text: the names and values of the options of `flashlab volume set`.

use flashlab_catalogue::units::Dimension;
use flashlab_volume::encode::Compressor;
use flashlab_volume::{Change, MemberState, Volume};

/// Finds a member by its number or label.
///
/// # Errors
/// Returns an error if no member has the number or the label.
pub fn member_number(volume: &Volume, member: &str) -> Result<u8, String> {
    volume.member(member).ok_or_else(|| format!("{member}: no member has this number or label"))
}

/// Adds an option to a change, for example `replicas` and `2`, or `state` and `ssd.a=ro`.
///
/// # Errors
/// Returns an error if there is no such option, or if its value is invalid or names no member.
pub fn read_setting(volume: &Volume, change: &mut Change, key: &str, value: &str) -> Result<(), String> {
    let wrong = |needed: &str| format!("{key}={value}: {needed} is needed");
    let compressor = || value.parse::<Compressor>().map_err(|error| format!("{key}={value}: {error}"));
    let of_member = || {
        let (member, value) = value.split_once('=').ok_or_else(|| wrong("MEMBER=VALUE"))?;
        let number = member_number(volume, member).map_err(|error| format!("{key}={error}"))?;
        Ok::<_, String>((number, value))
    };
    match key {
        "replicas" => {
            let replicas = value.parse().ok().filter(|n| (1..=4).contains(n));
            change.replicas = Some(replicas.ok_or_else(|| wrong("1 to 4"))?);
        }
        "compression" => change.compression = Some(compressor()?),
        "background-compression" => change.background_compression = Some(compressor()?),
        "foreground" => change.foreground = Some(value.to_owned()),
        "background" => change.background = Some(value.to_owned()),
        "promote" => change.promote = Some(value.to_owned()),
        "metadata" => change.metadata = Some(value.to_owned()),
        "size" => change.size = Some(read_size(value).map_err(|error| format!("{key}={value}: {error}"))?),
        "label" => {
            let (member, label) = of_member()?;
            change.labels.push((member, label.to_owned()));
        }
        "durability" => {
            let (member, text) = of_member()?;
            let durability = text.parse().ok().filter(|n| *n <= 4);
            change.durability.push((member, durability.ok_or_else(|| wrong("MEMBER=N with N from 0 to 4"))?));
        }
        "state" => {
            let (member, text) = of_member()?;
            let state = MemberState::ALL.into_iter().find(|state| state.name() == text);
            let state = state.filter(|state| *state != MemberState::Removed);
            let needed = "MEMBER=STATE with rw, ro, evacuating or spare";
            change.states.push((member, state.ok_or_else(|| wrong(needed))?));
        }
        _ => {
            return Err(format!(
                "{key:?} is not an option; the options are replicas, compression, background-compression, foreground, \
                 background, promote, metadata, size, label, durability and state"
            ));
        }
    }
    Ok(())
}

/// Parses the size of a volume; `max` stands for all space.
fn read_size(text: &str) -> Result<u64, String> {
    match text {
        "max" => Ok(0),
        text => match Dimension::Size.parse_argument(text) {
            Ok(0) => Err("a volume has at least one block; max stands for all space".to_owned()),
            size => size.map_err(|error| error.to_string()),
        },
    }
}
