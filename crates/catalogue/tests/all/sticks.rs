//! USB sticks: profiles and ports.

use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_sim::{FileId, Instant, Op, Request, RequestId};

fn refused(argument: &str) -> String {
    let library = Library::built_in().expect("the library is valid");
    Device::open(argument, &library).expect_err("the device is impossible").to_string()
}

#[test]
fn errors_name_the_keys_of_a_stick() {
    let odd = refused("usb/usb3-1:stick.capacity=29592MiB,flash.page=3MiB");
    assert!(!odd.contains("card."), "{odd}");
    assert!(refused("usb/usb3-1:stick.cache=4KiB").contains("stick.cache"));
    assert!(refused("usb/usb3-1:port.super_speed_max=1000B").contains("port.super_speed_max"));
}

#[test]
fn a_stick_fits_into_no_card_slot() {
    assert!(refused("usb/usb3-1:host=raspberry-pi-4").contains("USB port"));
    assert!(refused("sd/kingston:host=raspberry-pi-4-usb").contains("raspberry-pi-4-usb"));
}

#[test]
fn a_used_stick_continues_from_its_state() {
    let library = Library::built_in().expect("the library is valid");
    let stick = Device::open("usb/usb2-1", &library).expect("it is shipped");
    let mut used = stick.build_without_host(1);
    let write =
        Request { id: RequestId(1), op: Op::Write, file: FileId::DEVICE, offset: 1 << 20, length: 1 << 20 };
    used.submit(Instant::ZERO, write);
    let done = used.complete(Instant::MAX).expect("the write is in flight");
    let mut restored = stick.build_without_host(1);
    restored.restore(&used.save().expect("a stick has a state")).expect("the state is of this stick");
    let read = |model: &mut Box<dyn flashlab_sim::Model>| {
        model.submit(done.at, Request { op: Op::Read, ..write });
        model.complete(Instant::MAX).expect("the read is in flight")
    };
    let (expected, found) = (read(&mut used), read(&mut restored));
    assert_eq!(found, expected);
    let fresh = read(&mut stick.build_without_host(1));
    assert!(fresh.at < expected.at, "a new stick has no data to read");
}
