//! Recipes as text, and the lines that their errors name.

use super::*;

fn parse(text: &str) -> Result<Recipe, ImageError> {
    Recipe::parse(Path::new("sticks/stick.toml"), text, DEFAULT_TIME)
}

/// Returns the line and the text of the error.
fn error(text: &str) -> (usize, String) {
    match parse(text).unwrap_err() {
        ImageError::Recipe { place, why } => (place.line, why),
        other => panic!("{other}"),
    }
}

const PARTITION: &str = "table = \"mbr\"\n[[partition]]\nformat = \"vfat\"\n";

#[test]
fn a_recipe_is_parsed_with_paths_relative_to_it() {
    let text = "table = \"gpt\"\nsize = \"1GiB\"\nseed = \"s\"\ntime = 2024-05-12T01:00:00+01:00\n\
                [[partition]]\nformat = \"ext4\"\nsize = \"rest\"\nstart = \"2MiB\"\nname = \"root\"\n\
                [[partition.file]]\nto = \"/etc/issue\"\nfrom = \"issue\"\nmode = \"4755\"\nowner = \"1:2\"\n\
                checksum = \"sha256\"\n[[partition.tree]]\nfrom = \"root\"\nowners = \"keep\"\n";
    let recipe = parse(text).unwrap();
    assert_eq!((recipe.table, recipe.size, recipe.time), (table::Kind::Gpt, Some(1 << 30), 1_715_472_000));
    let partition = &recipe.partitions[0];
    assert_eq!((partition.size, partition.first), (Some(table::Size::Rest), Some(4096)));
    let [tree, file] = &partition.items[..] else { panic!("{:?}", partition.items) };
    assert!(matches!(&tree.source, Source::Tree { keep_owners: true, keep_times: false, .. }));
    assert_eq!((file.to.to_str(), file.mode, file.owner), (Some("etc/issue"), Some(0o4755), (1, 2)));
    assert!(matches!(&file.source, Source::File(from, Some(_)) if from == Path::new("sticks/issue")));
}

#[test]
fn errors_name_the_line() {
    let cases = [
        ("table = \"mbr\"\nsise = 1\npartition = []\n", 2, "unknown field `sise`"),
        (&format!("{PARTITION}lable = \"A\"\n"), 4, "unknown field `lable`"),
        (&format!("{PARTITION}[[partition.file]]\nto = \"a\"\nform = \"a\"\n"), 6, "unknown field `form`"),
        (&format!("{PARTITION}label = \"lower\"\n"), 4, "capital letters"),
        (&format!("{PARTITION}size = \"12\u{b5}B\"\n"), 4, ""),
        (&format!("{PARTITION}size = \"1000\"\n"), 4, "multiple of 512"),
        (&format!("{PARTITION}name = \"x\"\n"), 4, "only a GPT has names"),
        (&format!("{PARTITION}type = \"x\"\n"), 4, "a byte such as"),
        (&format!("{PARTITION}[[partition.file]]\nto = \"a\"\n"), 5, "either from"),
        (&format!("{PARTITION}[[partition.file]]\nto = \"a\"\ntext = \"\"\nmode = \"9\"\n"), 7, "octal"),
        (
            &format!("{PARTITION}[[partition.file]]\nto = \"a\"\ntext = \"\"\nchecksum = \"crc\"\n"),
            7,
            "sha256",
        ),
        ("table = \"mbr\"\n[[partition]]\nformat = \"ext5\"\n", 3, "did you mean ext"),
        ("table = \"mbr\"\n[[partition]]\nformat = \"fat32\"\n", 3, "FAT32 is vfat"),
        ("table = \"apm\"\npartition = []\n", 1, "neither"),
        ("table = \"mbr\"\npartition = []\n", 1, "at least one"),
        ("table = \"mbr\"\ntime = 2024-05-12\npartition = []\n", 2, "an offset"),
        ("time = 2040-01-01T00:00:00Z\ntable = \"mbr\"\n[[partition]]\nformat = \"ext4\"\n", 1, "until 2038"),
        ("time = 1979-01-01T00:00:00Z\ntable = \"mbr\"\n[[partition]]\nformat = \"erofs\"\n", 1, "1980"),
        (
            &format!("{PARTITION}[[partition.file]]\nto = \"a\"\ntext = \"\"\noptions = [\"-b\"]\n"),
            7,
            "image",
        ),
        ("table = \"mbr\n", 1, ""),
    ];
    for (text, line, why) in cases {
        let (found, message) = error(text);
        assert!(found == line && message.contains(why), "{text}: line {found}: {message}");
    }
}

#[test]
fn a_tree_has_the_lines_of_its_keys_as_places() {
    let text = format!("{PARTITION}[[partition.tree]]\nfrom = \"a\"\nto = \"../b\"\n");
    let item = &parse(&text).unwrap().partitions[0].items[0];
    assert_eq!((item.place.line, item.source_place.line), (6, 5));
    let late = parse("time = 2040-01-01T00:00:00Z\ntable = \"mbr\"\n[[partition]]\nformat = \"erofs\"\n");
    assert!(late.is_ok());
}

#[test]
fn days_since_1970_follow_the_gregorian_calendar() {
    for (date, days) in
        [((1970, 1, 1), 0), ((1980, 1, 1), 3652), ((2000, 3, 1), 11_017), ((2024, 2, 29), 19_782)]
    {
        assert_eq!(days_since_1970(date.0, date.1, date.2), days, "{date:?}");
    }
}
