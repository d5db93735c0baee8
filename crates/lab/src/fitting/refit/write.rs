//! Writes the profiles with the numbers of a refit. All other lines stay, including the sources, which state
//! the cells of the fit.

use super::super::FittingError;
use super::problem::RefitProblem;
use flashlab_catalogue::library::Library;
use flashlab_catalogue::profile::Profile;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Returns the texts of the profiles with the numbers of the refit, by name.
pub(super) fn profiles(
    problem: &RefitProblem<'_>,
    values: &[f64],
    library: &Library,
) -> Result<BTreeMap<String, String>, FittingError> {
    let mut numbers: BTreeMap<&str, BTreeSet<(&str, String)>> = BTreeMap::new();
    for (number, value) in problem.numbers.iter().zip(values) {
        let own = number.profiles.iter().map(|profile| (profile, number.path));
        let followers = number.followers.iter().map(|follower| (&follower.profile, follower.path));
        for (profile, path) in own.chain(followers) {
            numbers.entry(profile).or_default().insert((path, number.print(*value)));
        }
    }
    let text = |(name, numbers): (&str, BTreeSet<(&str, String)>)| {
        let profile = library.profiles().find(|(known, _)| *known == name).map(|(_, profile)| profile);
        let profile = profile.ok_or_else(|| {
            FittingError::Device(format!(
                "{name} is not a profile of the library; add its folder with --library"
            ))
        })?;
        Ok((name.to_owned(), with_numbers(&profile.text.text, &numbers, name)?))
    };
    numbers.into_iter().map(text).collect()
}

/// Returns the text of a profile with the values of these numbers replaced.
fn with_numbers(
    profile: &str,
    numbers: &BTreeSet<(&str, String)>,
    name: &str,
) -> Result<String, FittingError> {
    let (mut text, mut section, mut replaced) = (String::new(), "", 0);
    for line in profile.lines() {
        if let Some(found) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = found;
        }
        let key = line.split_once(" = ").map_or("", |(key, _)| key);
        match numbers.iter().find(|(path, _)| path.split_once('.') == Some((section, key))) {
            Some((_, value)) => {
                replaced += 1;
                writeln!(text, "{key} = \"{value}\"").expect("a text takes everything");
            }
            None => writeln!(text, "{line}").expect("a text takes everything"),
        }
    }
    if replaced != numbers.len() {
        return Err(FittingError::Device(format!(
            "{name}: expected one line for each fitted number; write them as `key = \"value\"`"
        )));
    }
    Profile::parse(name, text.as_bytes()).map_err(|error| FittingError::Device(error.to_string()))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_lines_of_the_numbers_change() {
        let profile = include_str!("../../../../../profiles/sd/gigastone.toml");
        let numbers = [("flash.t_read", "700us".to_owned()), ("ftl.rewrite_unit", "1536KiB".to_owned())];
        let text = with_numbers(profile, &numbers.clone().into(), "sd/gigastone").expect("both have a line");
        let changed = profile.lines().zip(text.lines()).filter(|(before, after)| before != after);
        let changed: Vec<&str> = changed.map(|(_, after)| after).collect();
        assert_eq!(changed, ["t_read = \"700us\"", "rewrite_unit = \"1536KiB\""]);
        assert_eq!(profile.lines().count(), text.lines().count());

        let unknown = [("flash.t_copy", "1ms".to_owned())];
        let error = with_numbers(profile, &unknown.into(), "sd/gigastone").expect_err("it has no line");
        assert!(error.to_string().contains("sd/gigastone: expected one line"), "{error}");
    }
}
