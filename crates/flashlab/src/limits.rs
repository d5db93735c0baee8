//! Limits that the system sets: the size of a file, and memory.
//!
//! Without this module both end the process without a message of its own, and a file that is being written stays half-written.

use crate::failure::say;
use crate::file;
use flashlab_block::HugePages;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Makes a write beyond the limit of a file's size fail with EFBIG, and ends the process with a message when memory runs out.
pub(crate) fn report_what_they_stop() {
    // With a handler for SIGXFSZ the write fails. Unlike an ignored signal, a handler is not inherited by the programs that
    // `serve --run` starts. Where the handler cannot be set, the signal ends the process as before.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::new(AtomicBool::new(false)));
    HugePages::on_failure(out_of_memory);
}

/// Reports an allocation that failed, without allocating.
fn out_of_memory(bytes: usize) {
    static ENDING: AtomicBool = AtomicBool::new(false);
    if ENDING.swap(true, Ordering::Relaxed) {
        // Another allocation failed while the process ends.
        return;
    }
    say(format_args!(
        "out of memory: the system denied an allocation of {bytes} bytes; take a smaller device, or raise the limit (ulimit -v, cgroup)"
    ));
    file::exit_without_memory(1)
}
