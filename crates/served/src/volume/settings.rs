//! Changes of a volume as text: the names and values of the options of `flashlab volume set`.

use flashlab_catalogue::units::Dimension;
use flashlab_volume::encode::Compressor;
use flashlab_volume::{Change, MemberState, Remedies, SmallerSize, Volume, VolumeError};

/// Finds a member by its number or label.
///
/// # Errors
/// Returns an error if no member has the number or the label.
pub fn member_number(volume: &Volume, member: &str) -> Result<u8, String> {
    volume.member(member).ok_or_else(|| format!("{member}: no member has this number or label"))
}

/// Describes how a volume gets the room that a refused change needs, beginning with a semicolon; empty for other errors.
/// `set` returns the command that sets an option to a value, for example `size` to `1048576`.
pub fn ways_to_room(error: &VolumeError, set: &dyn Fn(&str, u64) -> String) -> String {
    let VolumeError::NoRoom { remedies: Remedies { copies, size }, .. } = error else { return String::new() };
    let smaller = size.map(|SmallerSize { bytes, data_end }| {
        let set = set("size", bytes);
        match data_end > bytes {
            true => format!(
                "shrink the filesystem, discard everything after it (the volume has data in its first {data_end} bytes), \
                 and make the volume smaller ({set})"
            ),
            false => format!("make the volume smaller ({set}, after the filesystem on it)"),
        }
    });
    let fewer = copies.map(|copies| format!("keep fewer copies ({})", set("replicas", copies.into())));
    let ways: Vec<String> = smaller.into_iter().chain(["add members".to_owned()]).chain(fewer).collect();
    format!("; {}", ways.join(", or "))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ways_to_room_name_the_commands_of_the_program() {
        let ways = |copies, size| {
            let error = VolumeError::NoRoom { why: String::new(), remedies: Remedies { copies, size } };
            ways_to_room(&error, &|key, value| format!("`set {key}={value}`"))
        };
        assert_eq!(
            ways(Some(1), Some(SmallerSize { bytes: 4096, data_end: 8192 })),
            "; shrink the filesystem, discard everything after it (the volume has data in its first 8192 bytes), and make \
             the volume smaller (`set size=4096`), or add members, or keep fewer copies (`set replicas=1`)"
        );
        assert_eq!(
            ways(None, Some(SmallerSize { bytes: 4096, data_end: 4096 })),
            "; make the volume smaller (`set size=4096`, after the filesystem on it), or add members"
        );
        assert_eq!(ways(None, None), "; add members");
        assert_eq!(ways_to_room(&VolumeError::NoMember(String::new()), &|_, _| String::new()), "");
    }
}
