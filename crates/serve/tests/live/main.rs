//! Servers in this process, with well-behaved and misbehaving clients.

mod answers;
mod certificates;
mod counts;
mod ending;
mod hostile;
mod limits;
mod load;
mod paced;
mod record;
mod remote;
mod server;
mod sockets;
mod survives;
mod tls;
mod usb;
