//! Checks that every device in the library obeys the contract of `Model` on its host, and a card also below
//! vfat.

use flashlab_catalogue::device::{Device, Filesystem};
use flashlab_catalogue::library::Library;
use flashlab_host::fs::Allocate;
use flashlab_sim::{
    Completion, Duration, FileId, Geometry, Instant, Model, Observer, PowerCut, Request, conformance,
};
use std::ops::Range;

#[test]
fn every_device_obeys_the_contract_of_a_model() {
    let library = Library::built_in().expect("the repository's own library");
    // Small drives need less memory and time and behave the same.
    let names = library.devices().map(|(name, _)| name).filter(|name| !name.starts_with("nvme/"));
    let devices: Vec<Device> =
        names.map(|name| Device::open(name, &library).unwrap_or_else(|error| panic!("{error}"))).collect();
    let drives =
        Device::open_all("nvme/*:capacity=80MiB,channels=2,dies=2,planes=1,blocks=24,pages=96", &library);
    let drives = drives.unwrap_or_else(|error| panic!("{error}"));
    assert!(devices.len() >= 8 && !drives.is_empty());
    // Capacities need not be multiples of map units or rewrite units.
    let odd = [
        "sd/kingston:capacity=65544KiB",
        "sd/transcend:capacity=65544KiB",
        "sd/sandisk-2gb:capacity=65552KiB",
    ];
    let odd = odd.map(|argument| Device::open(argument, &library).unwrap_or_else(|error| panic!("{error}")));
    for device in devices.iter().chain(&drives).chain(&odd) {
        for seed in 0..3 {
            conformance::check(&|| device.build(seed), seed);
        }
    }
}

#[test]
fn a_device_below_vfat_obeys_the_contract_of_a_model() {
    let library = Library::built_in().expect("the repository's own library");
    let vfat = Filesystem::open("vfat", &library).expect("it exists").parameters;
    // The card is small, so one file fills the volume and no file can grow.
    let device = Device::open("sd/kingston:capacity=64MiB", &library).expect("a card");
    for seed in 0..3 {
        let make = || -> Box<dyn Model> {
            let (mut volume, now) = vfat.format(device.build(1), Instant::ZERO).expect("room");
            let most =
                volume.create(now, FileId::DEVICE, u64::MAX, Allocate::Zeroed).expect_err("too large").most;
            let now =
                volume.create(now, FileId::DEVICE, most, Allocate::Zeroed).expect("exactly what is free");
            Box::new(FromZero { volume, began: now.since(Instant::ZERO) })
        };
        conformance::check(&make, seed);
    }
}

/// Shifts all times by the duration of the layout, because the check begins at instant zero.
#[derive(Clone)]
struct FromZero {
    volume: Box<dyn flashlab_host::Filesystem>,
    began: Duration,
}

impl Model for FromZero {
    fn geometry(&self) -> Geometry {
        self.volume.geometry()
    }
    fn hint(&self, file: FileId, offsets: &[u64]) {
        self.volume.hint(file, offsets);
    }
    fn submit(&mut self, now: Instant, request: Request) {
        self.volume.submit(now + self.began, request);
    }
    fn next_due(&self) -> Option<Instant> {
        self.volume.next_due().map(|at| Instant::ZERO + at.saturating_since(Instant::ZERO + self.began))
    }
    fn complete(&mut self, limit: Instant) -> Option<Completion> {
        let done = self.volume.complete(limit.saturating_add(self.began))?;
        Some(Completion { at: Instant::ZERO + done.at.since(Instant::ZERO + self.began), ..done })
    }
    fn power_cut(&mut self, now: Instant) -> PowerCut {
        self.volume.power_cut(now + self.began)
    }
    fn power_up(&mut self, now: Instant) -> Instant {
        Instant::ZERO + self.volume.power_up(now + self.began).since(Instant::ZERO + self.began)
    }
    fn is_durable(&self, range: &Range<u64>) -> bool {
        self.volume.is_durable(range)
    }
    fn observe(&self, to: &mut dyn Observer) {
        self.volume.observe(to);
    }
}
