//! Sticks behind a USB link: closed forms of the link, the splitting into commands, and the guarantees of a model.

use crate::common;
use flashlab_host::{Stick, UsbHost, UsbSpeed};
use flashlab_sd::CardParameters;
use flashlab_sim::{
    Completion, Duration, FileId, Instant, Mechanism, Model, Op, Request, RequestId, conformance,
};

const MIB: u64 = 1 << 20;
const CAPACITY: u64 = 64 * MIB;
const T_COMMAND: Duration = Duration::from_us(100);

fn stick(speed: UsbSpeed) -> Stick {
    let flash = CardParameters { modes: Vec::new(), ..common::parameters(CAPACITY) };
    flash.check_flash().expect("flash without bus modes is valid");
    Stick { speed, flash }
}

fn port(speed: UsbSpeed) -> UsbHost {
    UsbHost {
        speed,
        high_speed_max: 120 << 10,
        super_speed_max: MIB,
        t_request: Duration::ZERO,
        t_command: T_COMMAND,
        merge: None,
    }
}

/// Executes one request for the first MiB of a new stick. Nothing is mapped, so a read takes the time of the link alone.
fn first(model: &mut Box<dyn Model>, op: Op, length: u64) -> Completion {
    model.submit(Instant::ZERO, Request { id: RequestId(1), op, file: FileId::DEVICE, offset: 0, length });
    model.complete(Instant::MAX).expect("the request is in flight")
}

#[test]
fn a_link_runs_at_the_lower_speed_of_stick_and_port() {
    use UsbSpeed::{High, Super};
    for (stick_speed, port_speed, link) in [(High, High, High), (High, Super, High), (Super, High, High)] {
        assert_eq!(port(port_speed).link_speed(&stick(stick_speed)), link);
    }
    assert_eq!(port(Super).link_speed(&stick(Super)), Super);
}

#[test]
fn reads_of_unmapped_data_have_the_bandwidth_of_the_link() {
    // High speed: 13 packets of 512 bytes in a microframe of 125 us.
    let done = first(&mut port(UsbSpeed::High).link(&stick(UsbSpeed::High), 1), Op::Read, MIB);
    let microframes = (MIB / 512).div_ceil(13);
    let expected = Duration::from_us(125 * microframes);
    let off = done.spent[Mechanism::Bus].as_ns().abs_diff(expected.as_ns());
    assert!(off < 125_000, "{} ns instead of {expected:?}", done.spent[Mechanism::Bus].as_ns());
    assert_eq!(done.spent.total(), done.spent[Mechanism::Bus]);

    // SuperSpeed: 1024 packets of 1072 bytes at 2 ns a byte, and the two wrappers.
    let done = first(&mut port(UsbSpeed::Super).link(&stick(UsbSpeed::Super), 1), Op::Read, MIB);
    let wrappers = 2 * (31 + 13 + 2 * 48);
    assert_eq!(done.spent[Mechanism::Bus].as_ns(), 1024 * 1072 * 2 + wrappers);
}

#[test]
fn usb_storage_splits_requests_by_the_speed_of_the_link() {
    // At high speed, 1 MiB takes nine commands of at most 120 KiB; at SuperSpeed it takes one.
    for (speed, commands) in [(UsbSpeed::High, 9), (UsbSpeed::Super, 1)] {
        let done = first(&mut port(speed).with_stick(&stick(speed), 1), Op::Read, MIB);
        assert_eq!(done.spent[Mechanism::Host], T_COMMAND * commands, "{speed:?}");
    }
}

#[test]
fn a_write_costs_the_same_programs_at_both_speeds() {
    let program = |speed| {
        let mut model = port(UsbSpeed::Super).link(&stick(speed), 1);
        first(&mut model, Op::Write, MIB).spent[Mechanism::Program]
    };
    assert_eq!(program(UsbSpeed::High), program(UsbSpeed::Super));
}

#[test]
fn a_port_without_whole_blocks_is_refused() {
    let odd = UsbHost { high_speed_max: 1000, ..port(UsbSpeed::High) };
    assert_eq!(odd.check().expect_err("no whole block").path, "port.high_speed_max");
    assert_eq!(port(UsbSpeed::High).check(), Ok(()));
}

#[test]
fn sticks_meet_the_guarantees_of_a_model() {
    for speed in [UsbSpeed::High, UsbSpeed::Super] {
        for seed in 0..4 {
            conformance::check(&move || port(speed).with_stick(&stick(speed), 1), seed);
        }
    }
}
