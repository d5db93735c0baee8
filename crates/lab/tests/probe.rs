//! The probe against every shipped device, whose numbers are known.

use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_fit::probe::{Finding, Options, Probe, Target, drive};
use flashlab_lab::probe::VirtualTarget;

fn probe(device: &str, options: Options) -> Vec<Finding> {
    let device =
        Device::open(device, &Library::built_in().expect("built-in library")).expect("a shipped device");
    let mut target = VirtualTarget::new(device.build(1));
    let mut probe = Probe::new(target.geometry(), options, 1);
    drive(&mut probe, &mut target, |_, _| true).expect("a virtual device does not fail")
}

#[test]
fn dump() {
    let destroy = Options { destroy: true, whole_device: false };
    for name in std::env::var("PROBE").unwrap_or("sd/kingston".into()).split(' ') {
        let start = std::time::Instant::now();
        println!("== {name}");
        for f in probe(name, destroy) {
            println!(
                "{:28} {:?} {:?} {} MiB: {}",
                f.name.title(),
                f.value,
                f.confidence,
                f.written_bytes >> 20,
                f.reason
            );
        }
        println!("{:?}", start.elapsed());
    }
}
