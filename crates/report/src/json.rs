//! The results as JSON, indented: the form that other programs keep.

use flashlab_lab::results::Results;

/// All of `results`, ending in a line feed. A figure that is not finite is `null`.
pub fn results(results: &Results) -> String {
    let mut text =
        serde_json::to_string_pretty(results).expect("results have string keys and serialise to memory");
    text.push('\n');
    text
}
