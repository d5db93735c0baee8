//! Looks up the profile that an argument names.

use super::DeviceError;
use super::argument::{ArgumentError, ArgumentProblem};
use crate::library::{Library, LibraryError, read_file};
use crate::profile::{Kind, Place, Profile};
use std::path::Path;

/// Returns the profile from the library, or from `folder` on disk if `name` ends in `.toml`. The kind of the
/// profile must be one of `kinds`. `place` is the position of the name, for errors.
pub(super) fn find(
    place: Place,
    (folder, name): (&Path, &str),
    kinds: &[Kind],
    library: &Library,
) -> Result<Profile, DeviceError> {
    let wrong = |problem| ArgumentError { place: place.clone(), problem: Box::new(problem) }.into();
    if name.ends_with(".toml") {
        let path = folder.join(name);
        let profile = Profile::parse(&path.display().to_string(), &read_file(&path)?);
        let profile = profile.map_err(LibraryError::Profile)?;
        if !kinds.contains(&profile.kind) {
            let expected = kinds.to_vec();
            let problem = ArgumentProblem::WrongKind { file: name.to_owned(), found: profile.kind, expected };
            return Err(wrong(problem));
        }
        return Ok(profile);
    }
    let found = match kinds {
        [kind] if !kind.is_device() => library.profile(*kind, name),
        _ => library.device(name),
    };
    let found = found.cloned();
    let other = Kind::all().find(|kind| library.profile(*kind, name).is_ok());
    if let (Err(_), Some(other)) = (&found, other) {
        let problem =
            ArgumentProblem::WrongKind { file: name.to_owned(), found: other, expected: kinds.to_vec() };
        return Err(wrong(problem));
    }
    found.map_err(|unknown| wrong(ArgumentProblem::Unknown(unknown)))
}

/// Returns true if `name` matches `pattern`, in which `*` stands for any characters and `?` for one.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    let mut retry = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                retry = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match retry {
                Some((star, from)) => {
                    retry = Some((star, from + 1));
                    (p, n) = (star + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, expected) in [
            ("sd/*", "sd/kingston", true),
            ("sd/*", "usb/x", false),
            ("*", "sd/kingston", true),
            ("sd/k?oxia", "sd/kioxia", true),
            ("sd/sandisk", "sd/sandisk-2gb", false),
            ("*sk*b", "sd/sandisk-2gb", true),
            ("sd/*x", "sd/kioxia", false),
            ("", "", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
