//! `flashlab image`: composes disks from recipes, builds root images, and lists the files that an overlay changed.

mod build;
mod compose;
mod diff;

use crate::failure::Failure;
use crate::progress;
use clap::{Args, Subcommand};
use flashlab_image::ImageError;
use std::process::ExitCode;

/// The command of the feature `image`.
#[derive(Subcommand)]
pub(crate) enum Image {
    /// Composes disks from recipes, builds root images, lists the files that an overlay changed.
    ///
    /// `docs/images.md` describes recipes, formats and what each of them keeps of a file.
    Image(Options),
}

#[derive(Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Makes a disk with partitions and files from a recipe, the same to the byte each time.
    Compose(compose::Options),
    /// Packs a directory or an archive, and reports size, ratio and CPU time.
    Build(build::BuildOptions),
    /// Packs a directory in the configurations of a published comparison, and reports size, ratio and CPU time of each.
    Compare(build::CompareOptions),
    /// Lists the files that an overlay added (A), removed (D) or changed (M).
    Diff(diff::Options),
}

impl Image {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let Image::Image(options) = self;
        progress::catch_interrupts();
        match &options.action {
            Action::Compose(options) => compose::run(options),
            Action::Build(options) => build::build(options),
            Action::Compare(options) => build::compare(options),
            Action::Diff(options) => diff::run(options),
        }
    }
}

impl From<ImageError> for Failure {
    fn from(error: ImageError) -> Self {
        if error.is_usage() { Failure::usage(error) } else { Failure::failed(error) }
    }
}
