//! Prints the numbers of a device with their sources: `cargo run -p flashlab-catalogue --example numbers_of_a_device`.

use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let library = Library::built_in()?;
    let device = Device::open("sd/kingston:flash.t_prog=250us", &library)?;
    println!("{}: {} bytes", device.title, device.capacity());
    for number in device.numbers() {
        println!("{} = {} ({})", number.path, number.value, number.source);
    }
    Ok(())
}
