//! Results as indented JSON, for other programs.

use flashlab_lab::results::Results;
use serde_json::{Value, to_string_pretty, to_value};

const PLAIN: &str = "documents have string keys and serialise to memory";

/// Returns `results` and their summary, ending in a line feed. A figure that is not finite is `null`.
pub fn results(results: &Results) -> String {
    let mut document = to_value(results).expect(PLAIN);
    if let Value::Object(members) = &mut document {
        members.insert("summary".into(), to_value(results.summary()).expect(PLAIN));
    }
    document_text(to_string_pretty(&document))
}

/// Returns the text of a document, ending in a line feed.
pub(crate) fn document_text(text: serde_json::Result<String>) -> String {
    text.expect(PLAIN) + "\n"
}

/// Returns the trace of a card initialisation: its steps, with stable keys.
pub fn trace(trace: &flashlab_lab::trace::Trace) -> String {
    document_text(to_string_pretty(trace))
}
