//! Tests of the adapter with a card in its slot. The tests use its pipes as the Linux driver does.

use flashlab_block::{Memory, Pages};
use flashlab_sd::opcode;
use flashlab_sd::quirk::{Planned, Quirk};
use flashlab_sd::{Card, CardParameters, Identity};
use flashlab_sim::{Duration, Fate, Instant};
use flashlab_usb::{Device, Outcome, Payload, Setup, Transfer, Vub300};
use proptest::prelude::*;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const CAPACITY: u64 = 16 * MIB;

fn card() -> Card {
    let parameters = CardParameters::example(CAPACITY);
    let mut identity = Identity::new(&parameters);
    // The SCR announces CMD20, CMD23, CMD48 and CMD49.
    identity.scr.set_commands(0b0111);
    let bytes = Memory::new(CAPACITY, Pages::Small).expect("a possible size");
    Card::new(parameters, identity, Some(Box::new(bytes)), 1)
}

fn packet(index: u8, kind: u8, argument: u32, write: bool, size: u32) -> Vec<u8> {
    let mut packet = vec![20, 0, 0, if write { 0x80 } else { 0 }, index];
    packet.extend(size.to_be_bytes());
    packet.push(kind);
    packet.extend(argument.to_be_bytes());
    packet.extend(((if size < 512 { 0 } else { size / 512 }) as u16).to_be_bytes());
    packet.extend(512u16.to_be_bytes());
    packet.resize(64, 0);
    packet
}

/// The driver: sends one request after the other, each as soon as the adapter allows.
struct Driver {
    adapter: Vub300,
    now: Instant,
    ids: u64,
}

impl Driver {
    fn new(quirks: &[Planned]) -> Driver {
        let mut card = card();
        quirks.iter().for_each(|quirk| card.quirks_mut().add(*quirk));
        let mut adapter = Vub300::new(Some(card));
        adapter.attach(Instant::ZERO, true);
        Driver { adapter, now: Instant::ZERO, ids: 0 }
    }

    fn vendor_request(&mut self, request: u8, value: u16, data: &[u8]) {
        let length = data.len() as u16;
        let setup = Setup { request_type: 0x40, request, value, index: 0, length };
        self.adapter.control(self.now, setup, data).expect("the request is known");
    }

    fn is_card_present(&mut self) -> bool {
        let setup = Setup { request_type: 0xc0, request: 0, value: 0, index: 0, length: 15 };
        let status = self.adapter.control(self.now, setup, &[]).expect("the request is known");
        assert_eq!(status.len(), 15);
        status[3] & 1 == 1
    }

    fn submit(&mut self, endpoint: u8, payload: Payload) -> u64 {
        self.ids += 1;
        self.adapter.submit(self.now, Transfer { id: self.ids, endpoint, payload });
        self.ids
    }

    /// Waits for a transfer. Returns `None` if the transfer never completes.
    fn wait(&mut self, id: u64) -> Option<Outcome> {
        loop {
            let due = self.adapter.next_due()?;
            let done = self.adapter.complete(due).expect("a transfer is due");
            assert!(done.at <= due);
            self.now = self.now.max(due);
            if done.id == id {
                return Some(done.outcome);
            }
        }
    }

    /// Sends a command as the driver packs it, with data to the card or `size` bytes of data from it. Returns the
    /// response and the data.
    fn command(
        &mut self,
        index: u8,
        kind: u8,
        argument: u32,
        out: Option<&[u8]>,
        size: u32,
    ) -> (Vec<u8>, Vec<u8>) {
        let size = out.map_or(size, |out| out.len() as u32);
        let packet = packet(index, kind, argument, out.is_some(), size);
        let response = self.submit(1, Payload::In(64));
        let data: Vec<u64> = match out {
            None if size > 0 => (0..size.div_ceil(4096))
                .map(|n| self.submit(3, Payload::In((size - n * 4096).min(4096))))
                .collect(),
            _ => Vec::new(),
        };
        let sent = self.submit(2, Payload::Out(packet));
        assert_eq!(self.wait(sent), Some(Outcome::Out(64)));
        for part in out.into_iter().flat_map(|out| out.chunks(4096)) {
            let id = self.submit(4, Payload::Out(part.to_vec()));
            self.wait(id);
        }
        // Collects the data and the response, which may arrive in either order.
        let (mut got, mut answer) = (Vec::new(), Vec::new());
        let mut left: Vec<u64> = data.into_iter().chain([response]).collect();
        while let Some(due) = self.adapter.next_due() {
            let done = self.adapter.complete(due).expect("a transfer is due");
            self.now = self.now.max(due);
            left.retain(|id| *id != done.id);
            match done.outcome {
                Outcome::In(bytes) if done.id == response => answer = bytes,
                Outcome::In(bytes) => got.extend(bytes),
                _ => {}
            }
        }
        left.into_iter().for_each(|id| assert!(self.adapter.cancel(id)));
        (answer, got)
    }

    fn command_without_data(&mut self, index: u8, kind: u8, argument: u32) -> Vec<u8> {
        self.command(index, kind, argument, None, 0).0
    }

    fn word(answer: &[u8]) -> u32 {
        u32::from_be_bytes([answer[6], answer[7], answer[8], answer[9]])
    }

    /// Brings the card up: turns on its power, initialises it, and selects it with four data lines at 48 MHz. Returns
    /// its address.
    fn bring_up(&mut self) -> u32 {
        self.vendor_request(4, 1, &[]);
        self.vendor_request(11, 0, &200u64.to_le_bytes());
        assert_eq!(self.command_without_data(0, 1, 0), [5, 0, 0, 0, 0]);
        assert_eq!(Driver::word(&self.command_without_data(8, 10, 0x1aa)), 0x1aa);
        // The driver asks for an SDIO card. An SD memory card does not answer.
        assert_eq!(self.command_without_data(5, 6, 0), [4, 2, 0, 1]);
        assert_eq!(self.command_without_data(52, 7, 0xc00), [4, 2, 0, 1]);
        loop {
            self.command_without_data(55, 2, 0);
            let ocr = Driver::word(&self.command_without_data(41, 5, 0x4030_0000));
            if ocr >> 31 == 1 {
                break;
            }
            self.now += Duration::from_ms(10);
        }
        let cid = self.command_without_data(2, 4, 0);
        assert_eq!((cid.len(), cid[0], cid[5]), (22, 22, 0x3f));
        let address = Driver::word(&self.command_without_data(3, 9, 0)) & 0xffff_0000;
        assert_eq!(self.command_without_data(9, 4, address).len(), 22);
        self.command_without_data(7, 3, address);
        self.command_without_data(55, 2, address);
        let (_, scr) = self.command(51, 2, 0, None, 8);
        assert_eq!(scr.len(), 8);
        let (_, functions) = self.command(opcode::SWITCH_FUNC, 2, 0x80ff_fff1, None, 64);
        assert_eq!(functions[16] & 0xf, 1);
        self.vendor_request(11, 0, &48_000u64.to_le_bytes());
        self.command_without_data(55, 2, address);
        assert_eq!(Driver::word(&self.command_without_data(6, 2, 2)), 0x920);
        address
    }
}

#[test]
fn a_card_is_initialised_written_and_read() {
    let mut driver = Driver::new(&[]);
    assert!(driver.is_card_present());
    let address = driver.bring_up();
    let data: Vec<u8> = (0..128 * 1024u32).map(|n| (n ^ n >> 9) as u8).collect();
    let before = driver.now;
    let (answer, _) = driver.command(opcode::WRITE_MULTIPLE_BLOCK, 2, 100 * 512, Some(&data), 0);
    assert_eq!(Driver::word(&answer) >> 9 & 0xf, 4);
    // 256 blocks on four lines at 48 MHz take 5.7 ms, and eight pages of 600 us at least 4.8 ms.
    let took = driver.now.since(before);
    assert!((Duration::from_ms(5)..Duration::from_ms(40)).contains(&took), "{took}");
    assert_eq!(Driver::word(&driver.command_without_data(13, 2, address)), 0x900);
    let (answer, read) = driver.command(18, 2, 100 * 512, None, 128 * 1024);
    assert_eq!(Driver::word(&answer), 0x900);
    assert_eq!(read, data);
    let (_, one) = driver.command(opcode::READ_SINGLE_BLOCK, 2, 101 * 512, None, 512);
    assert_eq!(one, data[512..1024]);
}

#[test]
fn the_adapter_clears_unsupported_commands_in_the_scr() {
    let scr = card().identity().scr;
    assert!(scr.has_extension_registers(), "the card knows CMD48: {scr:?}");
    let mut driver = Driver::new(&[]);
    let address = driver.bring_up();
    driver.command_without_data(55, 2, address);
    let (_, passed) = driver.command(51, 2, 0, None, 8);
    assert_eq!((&passed[..3], passed[3], &passed[4..]), (&scr.0[..3], scr.0[3] & 0xf3, &scr.0[4..]));
}

#[test]
fn deselecting_is_no_error_and_an_erase_gets_a_response() {
    let mut driver = Driver::new(&[]);
    driver.bring_up();
    for (index, argument) in [(32, 0), (33, 1023 * 512)] {
        assert_eq!(Driver::word(&driver.command_without_data(index, 2, argument)), 0x900);
    }
    assert_eq!(driver.command_without_data(38, 3, 0).len(), 11);
    assert_eq!(driver.command_without_data(7, 3, 0)[..2], [11, 0]);
}

#[test]
fn bus_faults_become_error_codes_of_the_adapter() {
    let code = |quirk: &str, after: fn(&mut Driver) -> Vec<u8>| {
        let mut driver = Driver::new(&[quirk.parse().unwrap()]);
        driver.bring_up();
        let answer = after(&mut driver);
        assert_eq!(answer[..3], [4, 2, 0], "{quirk}");
        answer[3]
    };
    assert_eq!(code("no-data@CMD17", |driver| driver.command(17, 2, 0, None, 512).0), 0x10);
    assert_eq!(code("read-crc=1@CMD17", |driver| driver.command(17, 2, 0, None, 512).0), 0x06);
    assert_eq!(code("write-crc=1@CMD24", |driver| driver.command(24, 2, 0, Some(&[1; 512]), 0).0), 0x06);
    assert_eq!(code("read-only", |driver| driver.command(24, 2, 0, Some(&[1; 512]), 0).0), 0x17);
    assert_eq!(code("silent@CMD13", |driver| driver.command_without_data(13, 2, 1 << 16)), 0x01);
    assert_eq!(code("response-crc=1@CMD13", |driver| driver.command_without_data(13, 2, 1 << 16)), 0x05);
}

#[test]
fn a_card_can_be_removed_and_inserted_again() {
    let mut driver = Driver::new(&[]);
    driver.bring_up();
    let out = driver.adapter.remove(driver.now).expect("the slot held a card");
    assert!(!driver.is_card_present());
    assert_eq!(driver.command_without_data(13, 2, 1 << 16), [4, 2, 0, 0x0d]);
    driver.adapter.insert(driver.now, out);
    assert!(driver.is_card_present());
    driver.bring_up();
}

#[test]
fn a_card_removed_without_commands_is_reported_as_absent() {
    let mut driver = Driver::new(&["remove@2s".parse().unwrap()]);
    driver.bring_up();
    assert!(driver.is_card_present());
    driver.now = Instant::ZERO + Duration::from_secs(3);
    assert!(!driver.is_card_present());
}

/// The adapter has received all bytes long before the card has written them, so a cut in between interrupts the card.
#[test]
fn a_power_cut_during_a_write_aborts_it_and_keeps_programmed_pages() {
    let (mut aborted_count, mut completed_count) = (0, 0);
    for n in 0..24 {
        let mut driver = Driver::new(&[]);
        driver.bring_up();
        let before = driver.adapter.counters();
        let response = driver.submit(1, Payload::In(64));
        driver.submit(2, Payload::Out(packet(25, 2, 0, true, 128 * KIB as u32)));
        for part in [0x22; 128 * KIB as usize].chunks(4096) {
            driver.submit(4, Payload::Out(part.to_vec()));
        }
        assert_eq!(driver.adapter.counters().written_bytes - before.written_bytes, 128 * KIB);
        let at = driver.now + Duration::from_us(500) * n;
        let cut = driver.adapter.fail_power(at).undecided;
        let answer = loop {
            let done = driver.adapter.complete(Instant::MAX).expect("it is answered");
            if done.id == response {
                break done;
            }
        };
        let Outcome::In(answer) = answer.outcome else { panic!("{answer:?}") };
        let aborted = answer == [4, 2, 0, 0x10];
        assert_eq!(aborted, !cut.is_empty(), "{at:?}: {answer:x?}, {cut:?}");
        *(if aborted { &mut aborted_count } else { &mut completed_count }) += 1;
        driver.now = at + Duration::from_secs(1);
        driver.vendor_request(4, 0, &[]);
        driver.bring_up();
        for page in (0..128 * KIB).step_by(16 << 10) {
            let fate = cut.iter().find(|(range, _)| range.contains(&page)).map(|(_, fate)| *fate);
            let (answer, found) = driver.command(opcode::READ_MULTIPLE_BLOCK, 2, page as u32, None, 16 << 10);
            match fate {
                Some(Fate::Old) => assert!(found.iter().all(|byte| *byte == 0), "{at:?}: page at {page}"),
                Some(Fate::New) => assert!(found.iter().all(|byte| *byte == 0x22), "{at:?}: page at {page}"),
                Some(Fate::Unreadable) => assert_eq!(answer, [4, 2, 0, 0x10], "{at:?}: page at {page}"),
                None => assert!(found.iter().all(|byte| *byte == found[0]), "{at:?}: page at {page}"),
            }
            if aborted && fate.is_none() {
                assert_eq!(found[0], 0, "{at:?}: pages that were not sent keep their contents");
            }
        }
    }
    assert!(aborted_count > 5 && completed_count > 5, "{aborted_count} {completed_count}");
}

/// Sends a write, calls `cut` when the time `after` has passed since the write's data was sent, and returns
/// the pages that the write has changed.
fn pages_written_before(after: Duration, cut: fn(&mut Driver, Instant)) -> Vec<u32> {
    let mut driver = Driver::new(&[]);
    driver.bring_up();
    driver.submit(2, Payload::Out(packet(25, 2, 0, true, 128 * KIB as u32)));
    for part in [0x22; 128 * KIB as usize].chunks(4096) {
        driver.submit(4, Payload::Out(part.to_vec()));
    }
    let at = driver.now + after;
    cut(&mut driver, at);
    driver.now = at + Duration::from_secs(1);
    driver.adapter.attach(driver.now, true);
    driver.bring_up();
    let mut read =
        |page: &u32| driver.command(opcode::READ_MULTIPLE_BLOCK, 2, page * 16384, None, 16 << 10).1;
    (0..8).filter(|page| read(page).first() == Some(&0x22)).collect()
}

#[test]
fn detaching_during_a_write_cuts_the_power_at_that_instant() {
    let mut in_part = 0;
    for n in 0..16 {
        let after = Duration::from_us(500) * n;
        let by_cut = pages_written_before(after, |driver, at| drop(driver.adapter.fail_power(at)));
        let by_cable = pages_written_before(after, |driver, at| driver.adapter.attach(at, false));
        assert_eq!(by_cable, by_cut, "{after}");
        in_part += u32::from((1..8).contains(&by_cut.len()));
    }
    assert!(in_part > 0, "some cuts come in the middle");
}

#[test]
fn a_failed_application_command_does_not_affect_the_next_command() {
    let mut driver = Driver::new(&[]);
    let address = driver.bring_up();
    driver.command_without_data(55, 2, address);
    assert_eq!(driver.command_without_data(60, 2, 0), [4, 2, 0, 1], "no card knows ACMD60");
    let (_, functions) = driver.command(6, 2, 0x00ff_fff1, None, 64);
    assert_eq!(functions.len(), 64, "CMD6 is not mistaken for ACMD6");
}

#[test]
fn an_unread_response_is_dropped_at_the_next_command() {
    let mut driver = Driver::new(&[]);
    let address = driver.bring_up();
    let sent = driver.submit(2, Payload::Out(packet(13, 2, address, false, 0)));
    driver.wait(sent);
    // The driver abandons that command, and sends a write.
    let sent = driver.submit(2, Payload::Out(packet(24, 2, 0, true, 512)));
    driver.wait(sent);
    let response = driver.submit(1, Payload::In(64));
    assert_eq!(driver.adapter.next_due(), None, "the data has not come yet");
    driver.submit(4, Payload::Out(vec![1; 512]));
    let Some(Outcome::In(answer)) = driver.wait(response) else { panic!("it is answered") };
    assert_eq!(answer[4], 24);
}

#[test]
fn a_card_that_stays_busy_gets_a_response_and_reports_programming() {
    let mut driver = Driver::new(&[Quirk::StuckBusy.into()]);
    let address = driver.bring_up();
    let (answer, _) = driver.command(opcode::WRITE_BLOCK, 2, 0, Some(&[7; 512]), 0);
    assert_eq!(answer[1], 0);
    for _ in 0..3 {
        assert_eq!(
            Driver::word(&driver.command_without_data(13, 2, address)) >> 8 & 0x1f,
            0xe,
            "programming, not ready"
        );
        driver.now += Duration::from_secs(5);
    }
    driver.vendor_request(4, 0, &[]);
    driver.bring_up();
    let (_, kept) = driver.command(opcode::READ_SINGLE_BLOCK, 2, 0, None, 512);
    assert!(kept == [7; 512] || kept == [0; 512], "a sector is old or new");
}

proptest! {
    #[test]
    fn random_transfers_never_panic(
        transfers in prop::collection::vec(
            (0..16u8, prop::collection::vec(any::<u8>(), 0..600), prop::option::of(any::<u32>()), 0..3_000_000u64),
            0..60,
        ),
        powered in any::<bool>(),
    ) {
        let mut driver = Driver::new(&[]);
        if powered {
            driver.bring_up();
        }
        for (endpoint, mut bytes, length, later) in transfers {
            driver.now += Duration::from_ns(later);
            if endpoint == 2 {
                bytes.resize(64, 0);
                bytes[1] = 0;
            }
            driver.submit(endpoint, length.map_or(Payload::Out(bytes), Payload::In));
            while driver.adapter.complete(driver.now).is_some() {}
        }
    }
}
