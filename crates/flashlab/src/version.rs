//! The text of `flashlab --version`.

/// The version, the commit and the cargo features of this build. `-V` prints the version alone.
pub(crate) const LONG: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\ncommit: ",
    env!("FLASHLAB_BUILD_COMMIT"),
    "\nfeatures: ",
    env!("FLASHLAB_BUILD_FEATURES")
);
