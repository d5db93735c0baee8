//! Compares docs/parameters.md with the tables of parameters and mechanisms.

use flashlab_catalogue::reference::parameter_reference;
use std::path::Path;

#[test]
fn the_documentation_matches_the_table_of_parameters() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/parameters.md");
    let expected = parameter_reference();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &expected).expect("docs/parameters.md can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = found.lines().zip(expected.lines()).position(|(found, expected)| found != expected);
    assert!(
        found == expected,
        "docs/parameters.md is not what the table of parameters gives (first difference in line {:?}); \
         regenerate it: UPDATE_DOCS=1 cargo test -p flashlab-catalogue --test all reference",
        differs.map(|line| line + 1)
    );
}
