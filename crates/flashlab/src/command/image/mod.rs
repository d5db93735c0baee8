//! `flashlab image`: composes disks from recipes.

mod compose;

use crate::failure::Failure;
use clap::{Args, Subcommand};
use flashlab_image::ImageError;
use std::process::ExitCode;

/// The command of the feature `image`.
#[derive(Subcommand)]
pub(crate) enum Image {
    /// Composes disks from recipes.
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
}

impl Image {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let Image::Image(options) = self;
        match &options.action {
            Action::Compose(options) => compose::run(options),
        }
    }
}

impl From<ImageError> for Failure {
    fn from(error: ImageError) -> Self {
        if error.is_usage() { Failure::usage(error) } else { Failure::failed(error) }
    }
}
