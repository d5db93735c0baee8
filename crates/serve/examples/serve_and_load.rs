//! Serves a device in memory, and runs a load on it from the same process.

use flashlab_block::{Memory, Pages};
use flashlab_serve::load::{Job, Mix, load};
use flashlab_serve::{Export, Exports, Limits, Listener, PrivateSocket, Server, Stop};
use std::sync::Arc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let stop = Stop::new()?;
    let socket = PrivateSocket::new()?;
    let (name, description) = (String::new(), "64 MiB of memory".to_owned());
    let device = Arc::new(Memory::new(64 << 20, Pages::Huge)?);
    let exports = Exports::new(vec![Export { name, description, device, read_only: false }])?;
    let listener = Listener::bind(&socket.address())?;
    let server = Server::new(exports, Limits::default(), stop.clone());
    let mix = Mix::parse("randrw", 70).expect("fio's word");
    let job = Job { mix, depth: 32, connections: 2, verify: true, ..Job::default() };
    std::thread::scope(|scope| {
        scope.spawn(|| server.serve(vec![listener]));
        let loaded = load(&socket.address().uri(""), &job, &Stop::new()?);
        stop.throw();
        print!("{}", loaded?.text());
        Ok(())
    })
}
