//! The functions that the page calls. They take and return only numbers, so page and module share no memory.
//!
//! WebAssembly has one thread, and the devices of the page are in its thread-local storage: four for the write
//! amplification, one per victim policy, and one under load. A function without its device returns NaN.

use crate::{Amplification, Latencies, Loaded, Writes};
use std::cell::RefCell;

/// Victim policies by the number that the page uses.
const POLICIES: [&str; 4] = ["greedy", "fifo", "random", "cost-benefit"];

#[derive(Default)]
struct Devices {
    amplification: [Option<Amplification>; POLICIES.len()],
    loaded: Option<Loaded>,
    latencies: Option<Latencies>,
}

thread_local! {
    static DEVICES: RefCell<Devices> = RefCell::default();
}

fn with<T>(use_them: impl FnOnce(&mut Devices) -> T) -> T {
    DEVICES.with(|devices| use_them(&mut devices.borrow_mut()))
}

/// Defines functions that WebAssembly exports by their names.
macro_rules! exports {
    ($($(#[doc = $doc:literal])* fn $name:ident($($argument:ident: $type:ty),*) -> f64 $body:block)*) => {
        $(
            $(#[doc = $doc])*
            #[allow(unsafe_code, reason = "the name is not mangled; only this module uses the prefix playground_")]
            #[unsafe(no_mangle)]
            pub extern "C" fn $name($($argument: $type),*) -> f64 $body
        )*
    };
}

exports! {
    /// Creates the device that shows the write amplification of a policy. The spare blocks of the device are
    /// `spare_percent` of its capacity, and its erase blocks have `pages` pages. Writes are skewed unless
    /// `skewed` is 0. Returns 0, or NaN for an unknown policy.
    fn playground_amplification(policy: u32, spare_percent: f64, pages: u32, skewed: u32) -> f64 {
        let writes = if skewed == 0 { Writes::Uniform } else { Writes::Skewed };
        let index = policy as usize;
        let device = POLICIES.get(index).and_then(|name| Amplification::new(spare_percent, pages, name, writes));
        let Some(device) = device else { return f64::NAN };
        with(|devices| devices.amplification[index] = Some(device));
        0.0
    }
    /// Writes an eighth of the device of a policy and returns the write amplification of these writes.
    fn playground_advance(policy: u32) -> f64 {
        with(|devices| match devices.amplification.get_mut(policy as usize) {
            Some(Some(device)) => device.advance(),
            _ => f64::NAN,
        })
    }
    /// Returns the closed form of the steady write amplification, or NaN if there is none.
    fn playground_closed_form(policy: u32) -> f64 {
        with(|devices| match devices.amplification.get(policy as usize) {
            Some(Some(device)) => device.closed_form().unwrap_or(f64::NAN),
            _ => f64::NAN,
        })
    }
    /// Creates the device under load. Returns its write amplification.
    fn playground_loaded(spare_percent: f64) -> f64 {
        let device = Loaded::new(spare_percent);
        let amplification = device.amplification();
        with(|devices| devices.loaded = Some(device));
        amplification
    }
    /// Returns the sustained writes per second at a program time in microseconds.
    fn playground_rate_sustained(t_prog_us: f64) -> f64 {
        with(|devices| devices.loaded.as_ref().map_or(f64::NAN, |device| device.rate_sustained(t_prog_us)))
    }
    /// Measures the device under load and returns the mean latency in microseconds.
    fn playground_mean_us(t_prog_us: f64, per_second: f64) -> f64 {
        with(|devices| {
            devices.latencies = devices.loaded.as_ref().map(|device| device.latencies(t_prog_us, per_second));
            devices.latencies.map_or(f64::NAN, |found| found.mean_us)
        })
    }
    /// Returns the 99th percentile of the last measurement in microseconds.
    fn playground_p99_us() -> f64 {
        with(|devices| devices.latencies.map_or(f64::NAN, |found| found.p99_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_without_a_device_and_with_unknown_policies_return_nan() {
        assert!(playground_advance(0).is_nan() && playground_closed_form(9).is_nan());
        assert!(playground_mean_us(500.0, 1000.0).is_nan() && playground_p99_us().is_nan());
        assert!(playground_amplification(9, 28.0, 64, 0).is_nan() && playground_rate_sustained(1.0).is_nan());
        assert_eq!(playground_amplification(3, 28.0, 64, 1), 0.0);
        assert!(playground_advance(3) >= 1.0 && playground_closed_form(3).is_nan());
    }
}
