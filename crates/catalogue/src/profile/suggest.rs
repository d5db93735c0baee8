//! Suggestions for misspelt names.

/// Former names of keys, with their present names.
const RENAMED: [(&str, &str); 2] = [("superblock", "rewrite_unit"), ("levelling", "leveling")];

/// Returns the candidate that is most similar to `name`; `None` if no candidate is similar enough, or if
/// `name` is empty or longer than 64 characters. A former name of a key is replaced by its present name
/// before the search.
///
/// The distance of a candidate is the number of edits between `name` and the whole candidate or its last part (after
/// `/` or `.`), whichever is less. If the candidate or its last part begins with `name`, and `name` has three letters
/// or more, the distance is at most one edit.
pub fn suggest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = name.chars().take(65).count();
    if length == 0 || length > 64 {
        return None;
    }
    let name = name.to_ascii_lowercase();
    let edits_allowed = (length / 3).max(1);
    let renamed = RENAMED.iter().find(|(former, _)| *former == last_part(&name));
    let name = renamed.map_or(name.clone(), |(_, present)| (*present).to_owned());
    candidates
        .into_iter()
        .map(|candidate| (edits(&name, candidate), candidate))
        .filter(|(edits, _)| *edits <= edits_allowed)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

fn last_part(name: &str) -> &str {
    name.rsplit(['/', '.']).next().unwrap_or(name)
}

fn edits(name: &str, candidate: &str) -> usize {
    let last = last_part(candidate);
    let whole = strsim::damerau_levenshtein(name, &candidate.to_ascii_lowercase());
    let begins = name.len() >= 3 && (candidate.starts_with(name) || last.starts_with(name));
    let edits = whole.min(strsim::damerau_levenshtein(name, &last.to_ascii_lowercase()));
    if begins { edits.min(1) } else { edits }
}

/// Returns the end of an error about the unknown key `key`: its present name if it was renamed, or a suggestion.
pub fn present_name(key: &str, suggestion: Option<&str>) -> String {
    match suggestion {
        Some(present) if RENAMED.iter().any(|(former, _)| *former == last_part(key)) => {
            format!("; it was renamed to {present}")
        }
        _ => did_you_mean(suggestion),
    }
}

/// Returns `; did you mean X?`, or an empty string.
pub fn did_you_mean(suggestion: Option<&str>) -> String {
    suggestion.map_or(String::new(), |s| format!("; did you mean {s}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_or_a_missing_folder_gives_a_suggestion_and_nonsense_does_not() {
        let names = ["sd/kingston", "sd/kioxia", "flash.t_prog"];
        assert_eq!(suggest("sd/kingstom", names), Some("sd/kingston"));
        assert_eq!(suggest("kingston", names), Some("sd/kingston"));
        assert_eq!(suggest("t_porg", names), Some("flash.t_prog"));
        assert_eq!(suggest("SD/Kioxia", names), Some("sd/kioxia"));
        assert_eq!(suggest("king", names), Some("sd/kingston"));
        assert_eq!(suggest("nvme/p32a80", names), None);
        assert_eq!(suggest("ftl.superblock", ["ftl.map_unit", "ftl.rewrite_unit"]), Some("ftl.rewrite_unit"));
        assert_eq!(
            present_name("ftl.superblock", Some("ftl.rewrite_unit")),
            "; it was renamed to ftl.rewrite_unit"
        );
        assert_eq!(
            present_name("ftl.rewrite_unti", Some("ftl.rewrite_unit")),
            "; did you mean ftl.rewrite_unit?"
        );
        assert_eq!(suggest("", names), None);
        assert_eq!(suggest(&"k".repeat(10_000_000), names), None);
    }
}
