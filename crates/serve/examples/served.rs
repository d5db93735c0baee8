//! Serves a device in memory to this very process and puts a load on it.

use flashlab_serve::load::{Job, Mix, load};
use flashlab_serve::{Exports, Limits, Listener, PrivateSocket, Server, Stop, open};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let stop = Stop::new()?;
    let socket = PrivateSocket::new()?;
    let exports = Exports::new(vec![open("memory:size=64MiB", false)?])?;
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
