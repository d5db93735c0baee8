//! Tests of the stick, command by command. The host recovers from stalls as Linux's `usb-storage` does.

use crate::common::stick::{BLOCK, Data, Finished, Host, OPERATION, Ram, ten, wrapper};
use flashlab_sim::Instant;
use flashlab_usb::{Device, DiskError, Outcome, Payload, Setup};
use proptest::prelude::*;

const READ: u8 = 0x28;
const WRITE: u8 = 0x2a;

#[test]
fn the_stick_describes_itself() {
    let mut host = Host::new(Ram::new(2048));
    let inquiry = host.fetch(&[0x12, 0, 0, 0, 36, 0], 36);
    assert_eq!(inquiry[..5], [0, 0x80, 6, 2, 31], "a removable disk");
    assert_eq!(&inquiry[8..], b"Test    Stick           1   ");
    assert_eq!(host.fetch(&[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0], 8), [0, 0, 7, 255, 0, 0, 2, 0]);
    let mut long = [0; 16];
    (long[0], long[1], long[13]) = (0x9e, 0x10, 32);
    let capacity = host.fetch(&long, 32);
    assert_eq!((&capacity[..12], capacity[14]), (&[0, 0, 0, 0, 0, 0, 7, 255, 0, 0, 2, 0][..], 0x80));
    assert_eq!(host.fetch(&[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0], 16)[..4], [0, 0, 0, 8]);
    assert_eq!(host.fetch(&[0x23, 0, 0, 0, 0, 0, 0, 0, 12, 0], 12), [0, 0, 0, 8, 0, 0, 8, 0, 2, 0, 2, 0]);
    assert_eq!(host.class_request(0xa1, 0xfe, 1), Some(vec![0]), "one logical unit");
}

#[test]
fn vital_product_data_has_serial_limits_and_provisioning() {
    let mut host = Host::new(Ram::new(8));
    let mut page = |page: u8, length: u8| host.fetch(&[0x12, 1, page, 0, length, 0], length.into());
    assert_eq!(page(0, 10), [0, 0, 0, 6, 0, 0x80, 0x83, 0xb0, 0xb1, 0xb2]);
    assert_eq!(page(0x80, 16)[4..], *b"0123456789AB");
    assert_eq!(page(0xb0, 64)[20..28], [0, 0x40, 0, 0, 0, 0, 0, 64]);
    assert_eq!(page(0xb1, 64)[4..6], [0, 1], "the medium does not rotate");
    assert_eq!(page(0xb2, 8)[5], 0x80);
    assert_eq!(host.sense(&[0x12, 1, 0x42, 0, 8, 0]), [5, 0x24, 0]);
}

#[test]
fn linux_finds_the_caching_page_and_the_write_protection() {
    let mut host = Host::new(Ram::new(8));
    // Linux requests all pages with an allocation length of 192, as Windows does.
    let answer = host.command(&[0x1a, 0, 0x3f, 0, 192, 0], Data::In(192));
    assert_eq!((answer.status, answer.residue, answer.stalled), (0, 168, true));
    assert_eq!(answer.bytes[..7], [23, 0, 0x10, 0, 8, 18, 4], "DPOFUA, a write cache");
    assert_eq!(host.fetch(&[0x5a, 0, 8, 0, 0, 0, 0, 0, 28, 0], 28)[..4], [0, 26, 0, 0x10]);
    let changeable = host.fetch(&[0x1a, 0, 0x48, 0, 24, 0], 24);
    assert_eq!(changeable[4..7], [8, 18, 0], "nothing is changeable");
    assert_eq!(host.sense(&[0x1a, 0, 0xc8, 0, 24, 0]), [5, 0x39, 0]);
    assert_eq!(host.sense(&[0x1a, 0, 0x1c, 0, 24, 0]), [5, 0x24, 0]);

    let mut host = Host::new(Ram { read_only: true, ..Ram::new(8) });
    assert_eq!(host.fetch(&[0x1a, 0, 8, 0, 24, 0], 24)[2], 0x90, "write protected");
    let refused = host.command(&ten(WRITE, 0, 1), Data::Out(&[1; BLOCK]));
    assert_eq!(refused, Finished { status: 1, residue: 512, bytes: vec![], stalled: true });
    assert_eq!(host.request_sense(), [7, 0x27, 0]);
}

#[test]
fn data_is_read_back_and_takes_the_time_of_the_disk() {
    for transfer_max in [usize::MAX, 512, 20 << 10] {
        let mut host = Host::new(Ram::new(4096));
        host.transfer_max = transfer_max;
        let noise: Vec<u8> = (0..120u32 << 10).map(|n| ((n * 7) >> 3) as u8).collect();
        let before = host.now;
        assert_eq!(host.command(&ten(WRITE, 3, 240), Data::Out(&noise)).status, 0);
        assert_eq!(host.now, before + OPERATION, "one operation, whatever the transfers");
        assert_eq!(host.fetch(&ten(READ, 3, 240), noise.len() as u32), noise);
        assert_eq!(host.stick.disk().bytes[3 * BLOCK..][..noise.len()], noise);
        let counters = host.stick.counters();
        assert_eq!((counters.read_bytes, counters.written_bytes), (120 << 10, 120 << 10));
    }
}

#[test]
fn commands_longer_than_the_disks_largest_request_are_executed_in_pieces() {
    let mut host = Host::new(Ram { request_max: 4096, ..Ram::new(8192) });
    let noise: Vec<u8> = (0..3u32 << 20).map(|n| ((n * 5) >> 4) as u8).collect();
    host.transfer_max = 100_000;
    assert_eq!(host.command(&ten(WRITE, 0, 6144), Data::Out(&noise)).status, 0);
    assert_eq!(host.fetch(&ten(READ, 0, 6144), 3 << 20), noise);
}

/// Section 6.7: each pair of the host's expectation and the device's intention.
#[test]
fn the_thirteen_cases_end_as_the_specification_says() {
    let (ready, one) = ([0; 6], [9; BLOCK]);
    let long = [9; 2 * BLOCK];
    let finish = |cdb: &[u8], data: Data<'_>| {
        let mut host = Host::new(Ram::new(8));
        let finished = host.command(cdb, data);
        // The transport is intact afterwards.
        assert_eq!(host.command(&ready, Data::None).status, 0);
        (finished.status, finished.residue, finished.stalled)
    };
    let (read, write) = (&ten(READ, 0, 1), &ten(WRITE, 0, 1));
    assert_eq!(finish(&ready, Data::None), (0, 0, false), "1: Hn = Dn");
    assert_eq!(finish(read, Data::None), (2, 0, false), "2: Hn < Di");
    assert_eq!(finish(write, Data::None), (2, 0, false), "3: Hn < Do");
    assert_eq!(finish(&ready, Data::In(512)), (0, 512, true), "4: Hi > Dn");
    assert_eq!(finish(read, Data::In(1024)), (0, 512, true), "5: Hi > Di");
    assert_eq!(finish(read, Data::In(512)), (0, 0, false), "6: Hi = Di");
    assert_eq!(finish(&ten(READ, 0, 2), Data::In(512)), (2, 512, true), "7: Hi < Di");
    assert_eq!(finish(write, Data::In(512)), (2, 512, true), "8: Hi <> Do");
    assert_eq!(finish(&ready, Data::Out(&one)), (0, 512, true), "9: Ho > Dn");
    assert_eq!(finish(read, Data::Out(&one)), (2, 512, true), "10: Ho <> Di");
    assert_eq!(finish(write, Data::Out(&long)), (0, 512, true), "11: Ho > Do");
    assert_eq!(finish(write, Data::Out(&one)), (0, 0, false), "12: Ho = Do");
    assert_eq!(finish(&ten(WRITE, 0, 2), Data::Out(&one)), (2, 512, true), "13: Ho < Do");
}

#[test]
fn after_an_invalid_wrapper_only_a_reset_recovery_helps() {
    let mut host = Host::new(Ram::new(8));
    let valid = wrapper(1, 0, 0, &[0; 6]);
    for (at, value) in [(0, b'X'), (12, 0x41), (13, 16), (14, 0), (14, 17)] {
        let mut invalid = valid.clone();
        invalid[at] = value;
        assert_eq!(host.transfer(2, Payload::Out(invalid)), Some(Outcome::Out(31)));
        for _ in 0..2 {
            assert_eq!(host.transfer(1, Payload::In(13)), Some(Outcome::Stalled));
            assert_eq!(host.transfer(2, Payload::Out(valid.clone())), Some(Outcome::Stalled));
            host.clear_halt(0x81);
            host.clear_halt(0x02);
        }
        host.reset_recovery();
        assert_eq!(host.command(&[0; 6], Data::None).status, 0);
    }
    host.transfer(2, Payload::Out(vec![0; 30]));
    assert!(host.stick.is_halted(0x81) && host.stick.is_halted(0x02));
}

#[test]
fn a_command_to_another_logical_unit_fails() {
    let mut host = Host::new(Ram::new(8));
    let mut other = wrapper(1, 0, 0, &[0; 6]);
    other[13] = 1;
    host.transfer(2, Payload::Out(other));
    let Some(Outcome::In(status)) = host.transfer(1, Payload::In(13)) else { panic!("no status") };
    assert_eq!(status[12], 1);
    assert_eq!(host.request_sense(), [5, 0x25, 0]);
}

#[test]
fn impossible_commands_fail_with_their_reason() {
    let mut host = Host::new(Ram::new(8));
    assert_eq!(host.sense(&[0xd8, 0, 0, 0, 0, 0]), [5, 0x20, 0]);
    assert_eq!(host.sense(&[0x28, 0, 0, 0, 0, 0]), [5, 0x24, 0], "six bytes of a command of ten");
    for (first, count) in [(8, 1), (7, 2), (u32::MAX, 1)] {
        assert_eq!(host.command(&ten(READ, first, count), Data::In(1024)).status, 1);
        assert_eq!(host.request_sense(), [5, 0x21, 0]);
    }
    let mut sixteen = [0xff; 16];
    (sixteen[0], sixteen[1]) = (0x8a, 0);
    assert_eq!(host.command(&sixteen, Data::Out(&[0; BLOCK])).status, 1);
    assert_eq!(host.request_sense(), [5, 0x21, 0]);
    assert_eq!(host.request_sense(), [0, 0, 0], "sense data is reported once");
}

#[test]
fn errors_of_the_disk_become_sense_data() {
    let mut host = Host::new(Ram::new(8));
    host.stick.disk_mut().fails = Some(DiskError::Medium);
    let failed = host.command(&ten(READ, 0, 2), Data::In(1024));
    assert_eq!((failed.status, failed.residue, failed.stalled), (1, 1024, true));
    assert_eq!(host.request_sense(), [3, 0x11, 0]);
    host.stick.disk_mut().fails = Some(DiskError::Medium);
    let failed = host.command(&ten(WRITE, 0, 2), Data::Out(&[1; 1024]));
    assert_eq!((failed.status, failed.residue, failed.stalled), (1, 1024, false), "all data was received");
    assert_eq!(host.request_sense(), [3, 0x0c, 0]);
    host.stick.disk_mut().fails = Some(DiskError::ReadOnly);
    assert_eq!(host.sense(&[0x35, 0, 0, 0, 0, 0, 0, 0, 0, 0]), [7, 0x27, 0]);
}

#[test]
fn flushes_discards_and_ejection_reach_the_disk() {
    let mut host = Host::new(Ram::new(64));
    host.command(&ten(WRITE, 0, 4), Data::Out(&[7; 2048]));
    assert_eq!(host.command(&[0x35, 0, 0, 0, 0, 0, 0, 0, 0, 0], Data::None).status, 0);
    assert_eq!(host.stick.disk().flushes, 1);
    let mut list = vec![0, 38, 0, 32, 0, 0, 0, 0];
    for (first, count) in [(1u64, 1u32), (3, 1)] {
        list.extend(first.to_be_bytes());
        list.extend(count.to_be_bytes());
        list.extend([0; 4]);
    }
    let unmap = [0x42, 0, 0, 0, 0, 0, 0, 0, 40, 0];
    assert_eq!(host.command(&unmap, Data::Out(&list)).status, 0);
    let firsts: Vec<u8> = host.stick.disk().bytes.chunks(BLOCK).take(4).map(|block| block[0]).collect();
    assert_eq!(firsts, [7, 0, 7, 0]);
    list[8 + 7] = 64;
    assert_eq!(host.command(&unmap, Data::Out(&list)).status, 1);
    assert_eq!(host.request_sense(), [5, 0x21, 0]);

    assert_eq!(host.command(&[0x1b, 0, 0, 0, 2, 0], Data::None).status, 0, "eject");
    assert_eq!(host.stick.disk().flushes, 2);
    assert_eq!(host.sense(&[0; 6]), [2, 0x3a, 0]);
    host.stick.attach(host.now, false);
    host.stick.attach(host.now, true);
    assert_eq!(host.sense(&[0; 6]), [6, 0x29, 0]);
    assert_eq!(host.command(&[0; 6], Data::None).status, 0);
}

#[test]
fn resets_abandon_a_command_and_wait_for_the_disk() {
    let mut host = Host::new(Ram::new(64));
    host.transfer(2, Payload::Out(wrapper(1, 512, 0, &ten(WRITE, 0, 1))));
    host.transfer(2, Payload::Out(vec![5; BLOCK]));
    let due = host.stick.next_due().expect("the write is in progress");
    host.reset_recovery();
    let ready = host.command(&[0; 6], Data::None);
    assert_eq!((ready.status, host.now), (0, due), "the command waits until the write has ended");

    host.transfer(2, Payload::Out(wrapper(1, 1024, 0x80, &ten(READ, 0, 2))));
    host.stick.reset(host.now);
    assert_eq!(host.sense(&[0; 6]), [6, 0x29, 0], "a reset of the port is announced");
    assert_eq!(host.fetch(&ten(READ, 0, 1), 512), [5; BLOCK]);
}

#[test]
fn a_unit_attention_does_not_hide_the_sense_data_of_a_failed_command() {
    let mut host = Host::new(Ram::new(8));
    host.stick.reset(host.now);
    assert_eq!(host.command(&[0x12, 1, 0x42, 0, 8, 0], Data::In(8)).status, 1);
    assert_eq!(host.request_sense(), [5, 0x24, 0]);
    assert_eq!(host.request_sense(), [6, 0x29, 0]);
    assert_eq!(host.request_sense(), [0, 0, 0]);
}

#[test]
fn a_halted_endpoint_stalls_until_the_host_clears_the_halt() {
    let mut host = Host::new(Ram::new(8));
    assert!(!host.stick.is_halted(0x81));
    host.stick.set_halted(host.now, 0x81, true);
    assert!(host.stick.is_halted(0x81) && !host.stick.is_halted(0x02));
    assert_eq!(host.transfer(1, Payload::In(13)), Some(Outcome::Stalled));
    host.clear_halt(0x81);
    assert_eq!(host.command(&[0; 6], Data::None).status, 0);
    let wrong = Setup { request_type: 0xa1, request: 0x33, value: 0, index: 0, length: 1 };
    assert!(host.stick.control(Instant::ZERO, wrong, &[]).is_err());
}

/// A random command with data of a random length, which need not fit the command.
#[derive(Clone, Debug)]
struct Any {
    cdb: Vec<u8>,
    length: u32,
    direction: u8,
}

fn any_command() -> impl Strategy<Value = Any> {
    let fitting = (prop::bool::ANY, 0..70u32, 0..9u16).prop_map(|(write, first, count)| Any {
        cdb: ten(if write { WRITE } else { READ }, first, count).to_vec(),
        length: u32::from(count) * BLOCK as u32,
        direction: if write { 0 } else { 0x80 },
    });
    let opcode = prop::sample::select(vec![
        0x00, 0x03, 0x08, 0x0a, 0x12, 0x1a, 0x1b, 0x1e, 0x23, 0x25, 0x28, 0x2a, 0x2f, 0x35, 0x42, 0x5a, 0x88,
        0x8a, 0x9e, 0xa0, 0xa8, 0xaa,
    ]);
    let wild = (opcode, prop::collection::vec(any::<u8>(), 0..16), 0..3000u32, prop::bool::ANY).prop_map(
        |(opcode, mut cdb, length, write)| {
            cdb.insert(0, opcode);
            Any { cdb, length, direction: if write { 0 } else { 0x80 } }
        },
    );
    prop_oneof![fitting, wild]
}

proptest! {
    /// Every command ends with a status. A READ(10) returns the bytes of the disk, and a WRITE(10) changes
    /// no others.
    #[test]
    fn random_commands_end_and_reads_return_what_was_written(
        commands in prop::collection::vec(any_command(), 1..40),
        transfer_max in prop::sample::select(vec![usize::MAX, 64, 512, 1000]),
        request_max in prop::sample::select(vec![512, 2048, 1 << 30]),
    ) {
        let mut host = Host::new(Ram { request_max, ..Ram::new(64) });
        host.transfer_max = transfer_max;
        for (n, Any { cdb, length, direction }) in commands.iter().enumerate() {
            let bytes = vec![n as u8 + 1; *length as usize];
            let before = host.stick.disk().bytes.clone();
            let data = match (length, direction) {
                (0, _) => Data::None,
                (_, 0) => Data::Out(&bytes),
                _ => Data::In(*length),
            };
            let finished = host.command(cdb, data);
            prop_assert!(finished.status <= 2 && finished.residue <= *length);
            let after = &host.stick.disk().bytes;
            if cdb.len() == 10 && matches!(cdb[0], READ | WRITE) && cdb[1] == 0 && finished.status == 0 {
                let at = usize::from(cdb[5]) * BLOCK;
                let count = usize::from(cdb[8]) * BLOCK;
                if cdb[0] == READ {
                    prop_assert_eq!(&finished.bytes[..], &before[at..at + count]);
                } else {
                    prop_assert_eq!(&after[at..at + count], &bytes[..count]);
                    prop_assert_eq!((&after[..at], &after[at + count..]), (&before[..at], &before[at + count..]));
                }
            } else if direction == &0x80 {
                prop_assert_eq!(after, &before, "a command that sends data changes nothing");
            }
        }
    }
}
