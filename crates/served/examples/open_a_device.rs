//! Opens a device in memory with two layers: `cargo run -p flashlab-served --example open_a_device`.

use flashlab_catalogue::library::Library;
use flashlab_served::Served;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let library = Library::built_in()?;
    let served = Served::open("scratch=memory:size=1GiB+delay:read=1ms+readonly", 1, false, &library)?;
    println!("{}: {} has {} bytes", served.name, served.description, served.device.geometry().capacity);
    Ok(())
}
