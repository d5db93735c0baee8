//! Value parsers that the command lines of several commands share.

use flashlab_catalogue::units::Dimension;

/// Parses a size with a unit, and returns it in bytes.
pub(super) fn size(text: &str) -> Result<u64, String> {
    Dimension::Size.parse_argument(text).map_err(|error| error.to_string())
}
