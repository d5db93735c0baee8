//! A list of devices in one TOML file:
//!
//! ```toml
//! [[export]]
//! name = "card"                  # without it, the default export
//! device = "sd/kingston"
//! layers = ["error:rate=0.001", "log:to=card.log"]
//! read-only = false
//! ```

use crate::{Served, ServedError, Sources};
use flashlab_block::read_whole_text;
use serde::Deserialize;
use std::path::Path;

/// Maximum size in bytes of a list of exports.
const FILE_BYTES_MAX: u64 = 16 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    export: Vec<Export>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Export {
    #[serde(default)]
    name: String,
    device: String,
    #[serde(default)]
    layers: Vec<String>,
    #[serde(default)]
    read_only: bool,
}

impl Served {
    /// Opens the devices of a file. With `read_only`, no client will write to any of them.
    pub fn open_file<'a>(
        path: &Path,
        seed: u64,
        read_only: bool,
        sources: impl Into<Sources<'a>>,
    ) -> Result<Vec<Served>, ServedError> {
        let sources = sources.into();
        let wrong = |why: String| ServedError::Exports { path: path.to_owned(), why };
        let text = read_whole_text(path, FILE_BYTES_MAX).map_err(|error| wrong(error.to_string()))?;
        let file: File = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let open = |export: Export| {
            let argument = [&[export.device], &export.layers[..]].concat().join("+");
            let served = Served::open(&argument, seed, read_only || export.read_only, sources)?;
            Ok(Served { name: export.name, ..served })
        };
        file.export.into_iter().map(open).collect()
    }
}
