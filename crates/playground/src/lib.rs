//! The playground: a web page in which a reader changes the parameters of two small devices and sees how
//! their curves change. The models of `flashlab-flash` run in the page as WebAssembly.
//!
//! - [`Amplification`]: the write amplification of a new device under random writes, drive write by drive write.
//! - [`Loaded`]: the latency of random writes to a used device as a function of the offered load.
//!
//! `cargo xtask playground` builds the module and the page. [`export`] is the interface to the page. The
//! devices are small, so that a curve takes a fraction of a second in a browser. Their ratios are those of
//! larger devices.
//!
//! ```
//! use flashlab_playground::{Amplification, Writes};
//! let mut device = Amplification::new(28.0, 64, "greedy", Writes::Uniform).expect("the policy exists");
//! let steady = (0..64).map(|_| device.advance()).last().expect("64 values");
//! assert!((steady / device.closed_form().expect("of greedy") - 1.0).abs() < 0.1);
//! ```

mod amplification;
pub mod export;
mod loaded;

pub use amplification::{Amplification, STEPS_PER_DRIVE_WRITE, Writes};
pub use loaded::{Latencies, Loaded};
