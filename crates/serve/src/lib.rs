//! Serves block devices over NBD, and USB devices over usbredir and USB/IP. The crate contains the sockets,
//! the threads and the wall clock.
//!
//! - [`Server`] serves [`Exports`] to the clients of a [`Listener`], or over standard input and output.
//! - [`load`](mod@load) is a load generator: it sends many requests at a time to any NBD server, and counts and times
//!   them.
//! - [`Remote`] accesses an export of any NBD server with blocking calls, and [`RemoteDevice`] makes such an export a
//!   `BlockDevice`, for example for a volume.
//! - [`UsbPort`] offers a USB device to the clients of a listener; [`BlockDisk`] turns any device that stores
//!   bytes into the disk of a USB stick.
//! - [`Address`] is the address of a server; [`Speed`] sets how fast a device's time passes.
//!
//! `flashlab-nbd` and `flashlab-usb` implement the sessions, and `flashlab-block` the devices. This crate moves the
//! bytes: one thread owns a socket, receives the available bytes, executes all complete requests among them, and sends
//! all replies at once.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(feature = "tls"),
    allow(unreachable_code, unused_mut, unused_variables, reason = "without TLS, its types are empty")
)]

mod address;
mod alarm;
mod answer;
mod clock;
mod connection;
mod control;
mod counters;
mod device_time;
mod export;
mod exposition;
mod limits;
mod link;
mod listener;
pub mod load;
mod metrics;
mod outbox;
mod pace;
mod pending;
mod private;
mod rate;
mod realtime;
mod record;
mod remote;
mod remote_device;
mod run;
#[cfg(feature = "tls")]
mod secure;
mod server;
mod session;
mod stick;
mod stop;
mod task_queue;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;
mod usb;

pub use address::Address;
pub use clock::Clock;
pub use control::{Control, ControlReply, send_command};
pub use counters::{Count, CounterValues, Counters};
pub use device_time::DeviceTime;
pub use export::{Export, Exports, ExportsError};
pub use exposition::{Exposition, MetricType};
pub use flashlab_nbd::uri;
pub use limits::{Limits, SMALL};
pub use listener::Listener;
pub use pace::Speed;
pub use private::PrivateSocket;
pub use rate::LeastRate;
pub use record::Recorder;
pub use remote::Remote;
pub use remote_device::RemoteDevice;
pub use run::run;
pub use server::Server;
pub use stick::BlockDisk;
pub use stop::Stop;
pub use task_queue::TaskQueue;
pub use tls::{Tls, TlsError, TlsMode};
pub use usb::UsbPort;
