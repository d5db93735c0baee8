//! Runs an fio job on a virtual card, from the library's profile to the figures.

use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_fio::cmdline::Invocation;
use flashlab_fio::job::Direction;
use flashlab_fio::loader::NoFiles;
use flashlab_fio::stats::Settings;
use flashlab_lab::bench::Bench;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let library = Library::built_in()?;
    let device = Device::open("sd/kingston:flash.t_prog=250us", &library)?;
    let words = ["--name=log", "--filename=card", "--rw=write", "--bs=16k", "--size=64m", "--direct=1"];
    let jobs = Invocation::parse(&words, &NoFiles)?.jobs;
    let statistics = Bench::new(device.build(1)).run(&jobs, &Settings::default())?;
    let writes = statistics.job(0).direction(Direction::Write);
    println!("{}: {:.0} writes a second", device.argument, writes.requests_per_second());
    for (mechanism, ns) in writes.mechanisms_ns().filter(|(_, ns)| *ns > 0) {
        println!("  {:18} {:6.1} us a write", mechanism.name(), ns as f64 / 1e3 / writes.total_ios() as f64);
    }
    Ok(())
}
