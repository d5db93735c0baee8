//! Totals of a server, logged and printed when it ends.

use flashlab_serve::{Count, Server};

/// Logs the server's totals.
pub(super) fn log_totals(server: &Server) {
    let counted = server.counters().read();
    tracing::info!(
        connections = counted.get(Count::Accepted),
        requests = counted.requests(),
        errors = counted.get(Count::Errors),
        batches = counted.get(Count::Batches),
        system_calls = counted.get(Count::Calls),
        "served"
    );
}

/// Formats the server's totals for people, with the lateness of replies.
pub(in crate::command) fn summary(server: &Server) -> String {
    let counted = server.counters().read();
    let late = server.counters().lateness();
    let mut text = format!(
        "{} requests, {} errors, {} connections; {} system calls in {} batches",
        counted.requests(),
        counted.get(Count::Errors),
        counted.get(Count::Accepted),
        counted.get(Count::Calls),
        counted.get(Count::Batches),
    );
    if late.moments().count() > 0 {
        let us = |ns: f64| ns / 1e3;
        text.push_str(&format!(
            "\n{} replies later than the device's model: mean {:.1} us, median {:.1}, 99% {:.1}, maximum {:.1}",
            late.moments().count(),
            us(late.moments().mean_ns()),
            us(late.percentile(50.0).as_ns() as f64),
            us(late.percentile(99.0).as_ns() as f64),
            us(late.moments().max_ns() as f64),
        ));
    }
    text
}
