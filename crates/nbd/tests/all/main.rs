//! Tests of the NBD protocol, one module per subject.

mod client_handshake;
mod client_transmission;
mod pair;
mod raw_client;
mod server_handshake;
mod server_messages;
mod server_replies;
mod server_transmission;
mod session;
mod uri;
mod wire;
