//! Compares docs/fio-options.md with the text generated from the option table.

use flashlab_fio::explain::support_list;
use std::path::Path;

#[test]
fn the_documentation_matches_the_option_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/fio-options.md");
    let expected = support_list();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &expected).expect("docs/fio-options.md can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = found.lines().zip(expected.lines()).position(|(found, expected)| found != expected);
    assert!(
        found == expected,
        "docs/fio-options.md is not what the table of options gives (first difference in line {:?}); \
         regenerate it: UPDATE_DOCS=1 cargo test -p flashlab-fio --test all parse_docs",
        differs.map(|line| line + 1)
    );
}
