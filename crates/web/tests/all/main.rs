//! Tests of the server over real sockets.

mod client;
mod hostile;
mod resources;
mod streams;
