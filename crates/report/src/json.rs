//! Results as indented JSON, for other programs.

use flashlab_lab::results::Results;
use serde_json::{Value, to_value};

/// Returns `results` and their summary, ending in a line feed. A figure that is not finite is `null`.
pub fn results(results: &Results) -> String {
    const PLAIN: &str = "results have string keys and serialise to memory";
    let mut document = to_value(results).expect(PLAIN);
    if let Value::Object(members) = &mut document {
        members.insert("summary".into(), to_value(results.summary()).expect(PLAIN));
    }
    let mut text = serde_json::to_string_pretty(&document).expect(PLAIN);
    text.push('\n');
    text
}

/// Returns the trace of a card initialization: its steps, with stable keys.
pub fn trace(trace: &flashlab_lab::trace::Trace) -> String {
    let mut text =
        serde_json::to_string_pretty(trace).expect("a trace contains only strings, numbers and lists");
    text.push('\n');
    text
}
