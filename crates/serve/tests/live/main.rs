//! Servers in this process, and clients that behave well or badly.

mod answers;
mod certificates;
mod counts;
mod ending;
mod hostile;
mod house;
mod limits;
mod load;
mod paced;
mod record;
mod sockets;
mod survives;
mod tls;
mod usb;
