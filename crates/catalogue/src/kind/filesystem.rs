//! Filesystems. The registry of models in the crate `host` declares their parameters.

use super::{Definition, Parts, Role};
use crate::profile::parameter::{Field, Parameter};
use flashlab_host::FilesystemParameters;
use flashlab_host::fs::{MODELS, SECTIONS};
use std::sync::LazyLock;

/// A filesystem on a device.
pub(super) static KIND: Definition = Definition {
    name: "filesystem",
    noun: "a filesystem",
    subject: "filesystem",
    folder: "fs/",
    sections: &SECTIONS,
    tables,
    role: Role::Filesystem,
    blank: |parts| parts.insert(FilesystemParameters::default()),
    check: |parts: &Parts| parts.get::<FilesystemParameters>().check(),
};

/// Returns one table of parameters for each filesystem model.
fn tables() -> &'static [&'static [Parameter]] {
    static TABLES: LazyLock<Vec<&'static [Parameter]>> = LazyLock::new(|| {
        let parameter = |parameter: &'static flashlab_host::fs::Parameter| Parameter {
            kinds: Vec::new(),
            path: parameter.path,
            meaning: parameter.meaning,
            default_meaning: None,
            range: parameter.range,
            field: Field::OfFilesystem(parameter),
        };
        let table = |model: &'static flashlab_host::fs::FilesystemModel| {
            let table: Vec<Parameter> = model.parameters.iter().map(parameter).collect();
            &*table.leak()
        };
        MODELS.iter().map(table).collect()
    });
    &TABLES
}
