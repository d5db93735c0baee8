//! Error messages for two limits of the system: file size and memory.
//!
//! Without this module, exceeding either limit ends the process without a message from flashlab and leaves a
//! half-written file.

use crate::failure::say;
use crate::file;
use flashlab_block::HugePages;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Makes a write beyond the file size limit fail with EFBIG, and ends the process with a message when memory runs out.
pub(crate) fn install_limit_handlers() {
    // With a handler for SIGXFSZ, the write fails with an error. Unlike an ignored signal, a handler is not inherited
    // by the programs that `serve --run` starts. If the handler cannot be installed, the signal still ends the process.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::new(AtomicBool::new(false)));
    HugePages::on_failure(out_of_memory);
}

/// Reports a failed allocation without allocating, and ends the process.
fn out_of_memory(bytes: usize) {
    static ENDING: AtomicBool = AtomicBool::new(false);
    if ENDING.swap(true, Ordering::Relaxed) {
        // Another allocation failed while the process was ending.
        return;
    }
    say(format_args!(
        "out of memory: the system denied an allocation of {bytes} bytes; use a smaller device, or raise the limit (ulimit -v, cgroup)"
    ));
    file::exit_without_memory(1)
}
