//! The README's picture equals the program's output: random writes of `run sd-cards` at seed 1. `UPDATE_GOLDEN=1` draws
//! the picture anew.

use flashlab_catalogue::library::Library;
use flashlab_lab::experiment::Experiment;
use flashlab_lab::progress::Progress;
use flashlab_report::figure::bars;
use std::path::Path;

#[test]
fn the_picture_of_the_readme_is_current() {
    let library = Library::built_in().expect("the repository's own library");
    let experiment = Experiment::open("sd-cards", &library).expect("it exists");
    let results = experiment.run(&library, 1, &Progress::default()).expect("it runs");
    let figures = bars::figures(&results);
    let picture =
        figures.iter().find(|figure| figure.title.contains("Random write")).expect("random writes are drawn");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sd-cards.svg");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, picture.to_svg()).expect("docs can be written");
    }
    let drawn = std::fs::read_to_string(&path).expect("docs/sd-cards.svg exists");
    assert!(
        drawn == picture.to_svg(),
        "docs/sd-cards.svg is not today's picture: cargo xtask golden draws it anew"
    );
}
