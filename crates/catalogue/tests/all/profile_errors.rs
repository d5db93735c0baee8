//! Error messages about invalid profiles.

use flashlab_catalogue::profile::Profile;
use insta::assert_snapshot;
use proptest::prelude::*;

/// A valid profile of a card.
const RIGHT: &str = include_str!("../profiles/right.toml");

fn wrong(change: &str, to: &str) -> String {
    assert!(RIGHT.contains(change), "{change} is not in the text");
    Profile::parse("profiles/sd/x.toml", RIGHT.replacen(change, to, 1).as_bytes()).unwrap_err().to_string()
}

#[test]
fn the_profile_that_the_tests_damage_is_valid() {
    Profile::parse("right.toml", RIGHT.as_bytes()).unwrap();
}

#[test]
fn an_unknown_key_is_named_with_what_was_meant() {
    assert_snapshot!(
        [
            wrong("t_prog = ", "t_porg = "),
            wrong("t_prog = \"581us\"", "t_prog = \"581us\"\nerase_count = 7"),
            wrong("[ftl]", "[flt]")
        ]
        .join("\n\n")
    );
}

#[test]
fn a_misspelt_key_at_the_top_is_not_missing_too() {
    assert_snapshot!(
        [wrong("name = ", "nmae = "), wrong("host = ", "hots = "), wrong("host = \"raspberry-pi-4\"\n", "")]
            .join("\n\n")
    );
}

#[test]
fn a_wrong_unit_says_which_units_there_are() {
    assert_snapshot!(
        [
            wrong("\"8KiB\"", "\"8KB\""),
            wrong("\"581us\"", "\"581MiB\""),
            wrong("\"581us\"", "\"581\""),
            wrong("\"581us\"", "\"0.5ns\"")
        ]
        .join("\n\n")
    );
}

#[test]
fn a_wrong_type_says_what_belongs_there() {
    assert_snapshot!(
        [
            wrong("\"581us\"", "581"),
            wrong("open_units = 8", "open_units = \"8\""),
            wrong("open_units = 8", "open_units = -8"),
            wrong("[\"default-speed\", \"ddr50\"]", "[\"default-speed\", 50]"),
            wrong("\"ddr50\"", "\"ddr51\""),
            wrong("\"ddr50\"", "\"default-speed\""),
            wrong("\"convert\"", "\"magic\"")
        ]
        .join("\n\n")
    );
}

#[test]
fn an_impossible_value_points_at_its_line() {
    assert_snapshot!(
        [
            wrong("\"581us\"", "\"0us\" # none"),
            wrong("page = \"8KiB\"", "page = \"5KiB\""),
            wrong("open_units = 8", "open_units = 0"),
            wrong("\"581us\"", "\"10001ms\""),
            wrong("\"30517MiB\"", "\"1KiB\"")
        ]
        .join("\n\n")
    );
}

#[test]
fn what_is_missing_or_twice_is_said() {
    assert_snapshot!(
        [
            wrong("t_prog = \"581us\"\n", ""),
            wrong("t_prog = \"581us\"", "t_prog = \"581us\"\nt_prog = \"581us\""),
            wrong("kind = \"card\"", ""),
            wrong("kind = \"card\"", "kind = \"disk\""),
            wrong("host = \"raspberry-pi-4\"\n", ""),
            wrong("name = \"A card\"", "name = \" \"")
        ]
        .join("\n\n")
    );
}

#[test]
fn every_number_has_one_source_and_every_source_a_number() {
    assert_snapshot!(
        [
            wrong("\"flash.t_prog\" = { fitted = [\"raw write 1M/x\"] }\n", ""),
            wrong("\"flash.t_prog\" =", "\"flash.t_porg\" ="),
            wrong("\"flash.t_prog\" =", "flash.t_prog ="),
            wrong("{ fitted = [\"raw write 1M/x\"] }", "{}"),
            wrong("{ fitted = [\"raw write 1M/x\"] }", "{ spec = \"a\", typical = \"b\" }"),
            wrong("{ fitted = [\"raw write 1M/x\"] }", "{ guessed = \"a\" }"),
            wrong("{ fitted = [\"raw write 1M/x\"] }", "{ fitted = [] }"),
            wrong("{ fitted = [\"raw write 1M/x\"] }", "\"fitted\""),
            wrong("[source]", "[sauce]")
        ]
        .join("\n\n")
    );
}

#[test]
fn an_invalid_optional_number_with_a_source_is_reported_once() {
    let with_source = RIGHT.to_owned() + "\"ftl.map_cache\" = { typical = \"a page\" }\n";
    let text = with_source.replacen("[source]", "map_cache = \"4KB\"\n\n[source]", 1);
    let error = Profile::parse("profiles/sd/x.toml", text.as_bytes()).unwrap_err();
    assert_eq!(error.mistakes.len(), 1, "{error}");
}

#[test]
fn text_that_is_not_toml_is_refused_with_its_place() {
    assert_snapshot!(
        [
            wrong("page = \"8KiB\"", "page = \"8KiB"),
            wrong("[flash]", "[flash"),
            Profile::parse("x.toml", b"kind = \"card\"\nname = \"\xff\"").unwrap_err().to_string(),
            Profile::parse("x.toml", &[b'\n'; 2 << 20]).unwrap_err().to_string(),
            Profile::parse("x.toml", b"").unwrap_err().to_string()
        ]
        .join("\n\n")
    );
}

#[test]
fn all_mistakes_are_listed_in_the_order_of_the_text() {
    let text = RIGHT.replace("581us", "581").replace("8KiB", "8KB").replace("t_bers =", "t_bear =");
    assert_snapshot!(Profile::parse("x.toml", text.as_bytes()).unwrap_err());
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = Profile::parse("x.toml", &bytes).map_err(|e| e.to_string());
    }

    #[test]
    fn no_text_panics(text in "(kind|name|host|flash|source|[a-z\"'{}\\[\\]=.,#\n0-9 -]){0,120}") {
        let text = format!("kind = \"card\"\n{text}");
        let _ = Profile::parse("x.toml", text.as_bytes()).map_err(|e| e.to_string());
    }

    /// A valid profile with one part replaced by arbitrary text.
    #[test]
    fn no_damage_panics(from: prop::sample::Index, length in 0_usize..60, put in ".{0,12}") {
        let from = from.index(RIGHT.len());
        let to = (from + length).min(RIGHT.len());
        let text = format!("{}{put}{}", &RIGHT[..from], &RIGHT[to..]);
        let _ = Profile::parse("x.toml", text.as_bytes()).map_err(|e| e.to_string());
    }

    /// A profile with arbitrary quantities either loads, which includes every check, or is rejected.
    #[test]
    fn any_quantities_are_accepted_or_rejected(
        page in any::<u64>(), unit in any::<u64>(), t_prog in any::<u64>(), rate in any::<u64>(), open in any::<u32>(),
    ) {
        let text = RIGHT
            .replace("\"8KiB\"", &format!("\"{page}B\""))
            .replace("\"128KiB\"", &format!("\"{unit}B\""))
            .replace("581us", &format!("{t_prog}ns"))
            .replace("60MiB/s", &format!("{rate}B/s"))
            .replace("open_units = 8", &format!("open_units = {open}"));
        let _ = Profile::parse("x.toml", text.as_bytes()).map_err(|e| e.to_string());
    }
}

#[test]
fn only_the_first_mistakes_of_a_profile_are_reported() {
    let keys: String = (0..50_000).map(|i| format!("k{i} = 1\n")).collect();
    let text = RIGHT.replace("[card]\n", &format!("[card]\n{keys}"));
    let error = Profile::parse("x.toml", text.as_bytes()).unwrap_err();
    assert_eq!(error.mistakes.len(), 100);
    assert_eq!(error.mistakes[0].place.to_string(), "x.toml:6:1");
    assert!(error.to_string().ends_with("and 90 more"));
}
