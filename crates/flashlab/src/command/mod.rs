//! The commands of `flashlab`, one file per command, and the modules that they share.

mod absent;
pub(crate) mod age;
#[cfg(any(feature = "serve", feature = "volume"))]
mod argument;
pub(crate) mod bench;
pub(crate) mod compare;
#[cfg(feature = "serve")]
mod control;
#[cfg(feature = "serve")]
mod ctl;
#[cfg(feature = "fit")]
mod diff;
pub(crate) mod explain;
#[cfg(all(feature = "fit", feature = "serve"))]
mod export_target;
#[cfg(feature = "fit")]
mod fit;
#[cfg(feature = "image")]
mod image;
pub(crate) mod jobs;
pub(crate) mod list;
#[cfg(feature = "serve")]
mod load;
#[cfg(feature = "manual")]
mod manual;
#[cfg(feature = "fit")]
mod measure;
#[cfg(feature = "fit")]
mod measurement;
#[cfg(feature = "serve")]
mod metrics;
#[cfg(feature = "fit")]
mod probe;
#[cfg(feature = "record")]
mod record;
pub(crate) mod recording;
pub(crate) mod run;
#[cfg(feature = "serve")]
mod serve;
#[cfg(feature = "serve")]
mod server;
mod stored;
#[cfg(feature = "sweep")]
mod sweep;
#[cfg(feature = "fit")]
mod target;
#[cfg(feature = "serve")]
mod tls;
pub(crate) mod trace;
#[cfg(feature = "serve")]
mod usb;
#[cfg(feature = "volume")]
mod volume;
#[cfg(feature = "web")]
mod web;

#[cfg(not(feature = "image"))]
pub(crate) use absent::Image;
#[cfg(not(feature = "manual"))]
pub(crate) use absent::Manual;
#[cfg(not(feature = "fit"))]
pub(crate) use absent::Measurement;
#[cfg(not(feature = "record"))]
pub(crate) use absent::Record;
#[cfg(not(feature = "serve"))]
pub(crate) use absent::Server;
#[cfg(not(feature = "sweep"))]
pub(crate) use absent::Sweep;
#[cfg(not(feature = "volume"))]
pub(crate) use absent::Volume;
#[cfg(not(feature = "web"))]
pub(crate) use absent::Web;
#[cfg(feature = "image")]
pub(crate) use image::Image;
#[cfg(feature = "manual")]
pub(crate) use manual::Manual;
#[cfg(feature = "fit")]
pub(crate) use measurement::Measurement;
#[cfg(feature = "record")]
pub(crate) use record::Record;
#[cfg(feature = "serve")]
pub(crate) use server::Server;
#[cfg(feature = "sweep")]
pub(crate) use sweep::Sweep;
#[cfg(feature = "volume")]
pub(crate) use volume::Volume;
#[cfg(feature = "web")]
pub(crate) use web::Web;
