//! The results as JSON, indented: the form that other programs keep.

use flashlab_lab::results::Results;

/// All of `results`, ending in a line feed. A figure that is not finite is `null`.
pub fn results(results: &Results) -> String {
    let mut text =
        serde_json::to_string_pretty(results).expect("results have string keys and serialise to memory");
    text.push('\n');
    text
}

/// A bring-up as JSON: its steps with stable keys.
pub fn trace(trace: &flashlab_lab::trace::Trace) -> String {
    let mut text =
        serde_json::to_string_pretty(trace).expect("it has nothing but strings, numbers and lists");
    text.push('\n');
    text
}
