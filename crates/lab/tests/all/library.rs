//! The built-in library as a whole.

use flashlab_catalogue::device::{Device, Filesystem};
use flashlab_catalogue::library::Library;
use flashlab_catalogue::profile::Kind;
use flashlab_lab::experiment::{Experiment, Live};

fn library() -> Library {
    Library::built_in().unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn the_library_has_no_inconsistencies() {
    let findings: Vec<String> = library().inconsistencies().iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn every_device_filesystem_and_experiment_can_be_opened() {
    let library = library();
    for (name, _) in library.devices() {
        Device::open(name, &library).unwrap_or_else(|e| panic!("{e}"));
    }
    for (name, _) in library.of_kind(Kind::named("filesystem").expect("a registered kind")) {
        Filesystem::open(name, &library).unwrap_or_else(|e| panic!("{e}"));
    }
    for folder in library.experiments() {
        match Live::open(&folder.name, &library).unwrap_or_else(|e| panic!("{e}")) {
            Some(live) => assert!(Experiment::open(live.name(), &library).is_err()),
            None => drop(Experiment::open(&folder.name, &library).unwrap_or_else(|e| panic!("{e}"))),
        }
    }
}
