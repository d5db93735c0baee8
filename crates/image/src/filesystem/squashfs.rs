//! Makes SquashFS images with mksquashfs, which sorts names and writes the same bytes with any number of
//! threads.

use super::Settings;
use crate::error::ImageError;
use crate::stage::Stage;
use crate::tool::MKSQUASHFS;
use std::path::Path;

pub(super) fn make(stage: &Stage, settings: &Settings, to: &Path) -> Result<(), ImageError> {
    let mut call = MKSQUASHFS.call()?.arg(stage.root()).arg(to);
    call = call.args([
        "-noappend",
        "-no-progress",
        "-quiet",
        "-exit-on-error",
        "-mkfs-time",
        &settings.time.to_string(),
    ]);
    if stage.tree().belongs_to_root() {
        call = call.arg("-all-root");
    }
    call.args(&settings.options).run(to).map(drop)
}
