//! The live page: in a headless browser, and over plain sockets.

mod arguments;
mod browser;
mod charts;
mod format;
mod page;
#[cfg(feature = "serve")]
mod served;
mod server;
