//! Deliberate faults, which prove that the tests of power loss fail if a device loses durable data.
//!
//! A fault is one line of a device's code, at the place where a real mistake of that kind would be. Without
//! the feature `faults`, [`fault`] always returns false, and the compiler removes the line. With the feature,
//! the environment variable `FLASHLAB_FAULT` names the one fault that is active in the process. Test builds
//! have this feature; packages do not. `cargo xtask faults` collects the names from the sources, and runs the
//! tests of power loss under each fault.

/// Returns true if the fault `name` is active in this process.
#[cfg(not(feature = "faults"))]
#[inline(always)]
pub const fn fault(_name: &str) -> bool {
    false
}

/// Returns true if the fault `name` is active in this process.
#[cfg(feature = "faults")]
#[inline]
pub fn fault(name: &str) -> bool {
    extern crate std;
    static CHOSEN: std::sync::OnceLock<Option<std::string::String>> = std::sync::OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var("FLASHLAB_FAULT").ok()).as_deref() == Some(name)
}
