//! The version and the commit of this build.

/// The version, the commit and the cargo features of this build. `-V` prints the version alone.
pub(crate) const LONG: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\ncommit: ",
    env!("FLASHLAB_BUILD_COMMIT"),
    "\nfeatures: ",
    env!("FLASHLAB_BUILD_FEATURES")
);

/// Returns the commit of this build, if it recorded one.
pub(crate) fn commit() -> Option<String> {
    Some(env!("FLASHLAB_BUILD_KNOWN_COMMIT")).filter(|commit| !commit.is_empty()).map(str::to_owned)
}
