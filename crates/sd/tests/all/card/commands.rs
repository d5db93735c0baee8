//! Tests of single commands, and of the status after commands that fail.

use super::*;
use flashlab_sd::opcode;
use flashlab_sd::register::{Csd, Extensions, Health, Ocr, Scr};
use flashlab_sd::{State, Transfer, Voltage};
use flashlab_sim::Instant;

/// Returns an initialised high-capacity card on four data lines, and its bytes.
fn large() -> (Host, Bytes) {
    let parameters = parameters(Overwrite::Convert);
    let identity = high_capacity(&parameters);
    with(parameters, identity)
}

/// Returns an initialised standard-capacity card with write protection groups of 256 KiB, and its bytes.
fn small() -> (Host, Bytes) {
    let parameters = parameters(Overwrite::Convert);
    let mut identity = Identity::new(&parameters);
    // SECTOR_SIZE and WP_GRP_SIZE: 4 sectors of 64 KiB.
    identity.csd.0[11] = identity.csd.0[11] & 0x80 | 3;
    assert_eq!(identity.csd.write_protect_group(), Some(256 * KIB));
    with(parameters, identity)
}

/// Returns an initialised card on four data lines, and its bytes.
pub(crate) fn with(parameters: CardParameters, identity: Identity) -> (Host, Bytes) {
    let bytes = Bytes::new(parameters.capacity);
    let mut host = Host::new(Card::new(parameters, identity, Some(Box::new(bytes.clone())), 1));
    host.bring_up();
    host.widen(Mode::HighSpeed);
    (host, bytes)
}

impl Host {
    /// Reads the register that a command sends.
    #[track_caller]
    fn register<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.native.read_block(&mut bytes, N as u32, LONG).expect("a register");
        bytes
    }
    /// Sends a block that is not array data.
    #[track_caller]
    fn give(&mut self, bytes: &[u8]) {
        self.native.write_block(bytes, bytes.len() as u32, LONG).expect("a block");
        self.native.wait_ready(LONG).expect("the card becomes ready");
    }
    fn status(&mut self) -> Status {
        self.r1(opcode::SEND_STATUS, self.address)
    }
    /// Switches the power off and on, and brings the card up.
    fn cycle(&mut self) {
        self.native.set_ios(&Ios::OFF);
        self.native.advance(Duration::from_ms(10));
        self.native.set_ios(&IOS);
        self.native.advance(Duration::from_ms(10));
        self.bring_up();
    }
}

#[test]
fn an_error_is_reported_once_by_its_response() {
    let (mut host, _) = small();
    let beyond = 4 * MIB as u32;
    assert!(host.r1(opcode::READ_SINGLE_BLOCK, beyond).has(Status::OUT_OF_RANGE));
    assert!(!host.status().has_any(Status::ERRORS));
    assert!(
        host.r1(opcode::READ_SINGLE_BLOCK, 100).has(Status::ADDRESS_ERROR),
        "the read would cross a block boundary"
    );
    assert!(host.r1(opcode::SET_BLOCKLEN, 513).has(Status::BLOCK_LEN_ERROR));
    assert!(host.r1(opcode::WRITE_BLOCK, 100).has(Status::ADDRESS_ERROR));
    assert!(host.r1(opcode::ERASE, 0).has(Status::ERASE_SEQ_ERROR));
    assert_eq!(host.status().state(), Some(State::Transfer));
    // An unknown command gets no response; the status in the next response reports it.
    assert_eq!(host.send(63, 0, ResponseType::R1), Err(Fault::Timeout));
    assert!(host.status().has(Status::ILLEGAL_COMMAND));
    assert!(!host.status().has(Status::ILLEGAL_COMMAND));
}

#[test]
fn a_read_beyond_the_end_stops_and_reports_an_error() {
    let (mut host, _) = large();
    let last = (4 * MIB / 512 - 1) as u32;
    assert!(!host.r1(opcode::READ_MULTIPLE_BLOCK, last).has_any(Status::ERRORS));
    host.native.read_block(&mut [0; 512], 512, LONG).expect("the last block");
    assert_eq!(host.native.read_block(&mut [0; 512], 512, Duration::from_ms(100)), Err(Fault::Timeout));
    assert!(host.r1(opcode::STOP_TRANSMISSION, 0).has(Status::OUT_OF_RANGE));
    assert!(!host.status().has_any(Status::ERRORS));
}

#[test]
fn a_card_of_standard_capacity_sends_parts_of_blocks() {
    let (mut host, _) = small();
    let written = pattern(3, 2);
    host.write(8192, &written);
    assert!(!host.r1(opcode::SET_BLOCKLEN, 100).has_any(Status::ERRORS));
    assert!(!host.r1(opcode::READ_MULTIPLE_BLOCK, 8192 + 200).has_any(Status::ERRORS));
    let parts = [host.register::<100>(), host.register(), host.register()].concat();
    assert_eq!(parts, written[200..500]);
    host.r1(opcode::STOP_TRANSMISSION, 0);
}

#[test]
fn erased_blocks_read_as_the_scr_specifies() {
    for ones in [false, true] {
        let parameters = parameters(Overwrite::Log);
        let mut identity = high_capacity(&parameters);
        identity.scr.set_erased_are_ones(ones);
        let (mut host, bytes) = with(parameters, identity);
        host.write(0, &pattern(4, 64));
        for (index, argument) in [(opcode::ERASE_WR_BLK_START, 16), (opcode::ERASE_WR_BLK_END, 31)] {
            assert!(!host.r1(index, argument).has_any(Status::ERRORS));
        }
        host.send(opcode::ERASE, 0, ResponseType::R1b).expect("an erase");
        assert!(host.native.is_busy());
        host.native.wait_ready(LONG).expect("the card becomes ready");
        let erased = if ones { 0xff } else { 0 };
        assert!(host.read(16, 16).iter().all(|byte| *byte == erased));
        assert_eq!(host.read(15, 1), pattern(4, 64)[15 * 512..16 * 512]);
        assert_eq!(host.read(32, 1), pattern(4, 64)[32 * 512..33 * 512]);
        assert_eq!(bytes.at(16 * 512..32 * 512), vec![0; 16 * 512]);
        // Another command between the erase commands resets the sequence.
        host.r1(opcode::ERASE_WR_BLK_START, 0);
        assert!(host.r1(opcode::SET_BLOCKLEN, 512).has(Status::ERASE_RESET));
        assert!(host.r1(opcode::ERASE_WR_BLK_END, 1).has(Status::ERASE_SEQ_ERROR));
    }
}

#[test]
fn protected_blocks_are_neither_written_nor_erased() {
    let (mut host, bytes) = small();
    let group = 256 * KIB as u32;
    host.write(0, &pattern(5, 4));
    host.write(group, &pattern(6, 4));
    assert!(!host.r1(opcode::SET_WRITE_PROT, group + 512).has_any(Status::ERRORS));
    host.native.wait_ready(LONG).expect("the card becomes ready");
    host.r1(opcode::SEND_WRITE_PROT, 0);
    assert_eq!(u32::from_be_bytes(host.register()), 0b10);
    assert!(host.r1(opcode::WRITE_BLOCK, group).has(Status::WP_VIOLATION));
    // A write that reaches the group is rejected there.
    host.r1(opcode::WRITE_MULTIPLE_BLOCK, group - 512);
    host.native.write_block(&[7; 512], 512, LONG).expect("before the group");
    assert_eq!(host.native.write_block(&[7; 512], 512, LONG), Err(Fault::WriteError));
    assert_eq!(
        host.native.write_block(&[7; 512], 512, LONG),
        Err(Fault::Timeout),
        "the card ignores further blocks"
    );
    assert!(host.r1(opcode::STOP_TRANSMISSION, 0).has(Status::WP_VIOLATION));
    host.native.wait_ready(LONG).expect("the card becomes ready");
    assert_eq!(bytes.at(u64::from(group)..u64::from(group) + 2048), pattern(6, 4));
    // An erase skips the group.
    host.r1(opcode::ERASE_WR_BLK_START, 0);
    host.r1(opcode::ERASE_WR_BLK_END, 2 * group - 512);
    host.send(opcode::ERASE, 0, ResponseType::R1b).expect("an erase");
    host.native.wait_ready(LONG).expect("the card becomes ready");
    assert!(host.status().has(Status::WP_ERASE_SKIP));
    assert_eq!(bytes.at(u64::from(group)..u64::from(group) + 2048), pattern(6, 4));
    assert_eq!(bytes.at(0..2048), [0; 2048]);
    // An erase of protected blocks alone changes nothing, so the card is not busy.
    host.r1(opcode::ERASE_WR_BLK_START, group);
    host.r1(opcode::ERASE_WR_BLK_END, 2 * group - 512);
    host.send(opcode::ERASE, 0, ResponseType::R1b).expect("an erase");
    let now = host.native.now();
    assert_eq!(host.native.card().expect("the card is in the slot").busy_until(now), None);
    assert!(host.status().has(Status::WP_ERASE_SKIP));
    // The protection survives a power cycle, and can be cleared.
    host.cycle();
    assert!(host.r1(opcode::WRITE_BLOCK, group).has(Status::WP_VIOLATION));
    host.r1(opcode::CLR_WRITE_PROT, group);
    host.native.wait_ready(LONG).expect("the card becomes ready");
    host.write(group, &pattern(7, 1));
}

#[test]
fn only_the_writable_bits_of_the_csd_can_be_programmed() {
    let (mut host, _) = large();
    let csd = high_capacity(&parameters(Overwrite::Convert)).csd;
    let mut current = csd;
    current.set_tran_speed(Csd::TRAN_SPEED_50_MHZ);
    let mut program = |csd: Csd| {
        host.r1(opcode::PROGRAM_CSD, 0);
        host.give(&csd.with_crc());
        host.status()
    };
    let mut temporary = current;
    temporary.set_protected(false, true);
    assert!(!program(temporary).has_any(Status::ERRORS));
    let mut larger = current;
    larger.0[7] ^= 1;
    assert!(program(larger).has(Status::CSD_OVERWRITE), "the capacity is read-only");
    assert!(host.r1(opcode::WRITE_BLOCK, 0).has(Status::WP_VIOLATION));
    host.r1(opcode::PROGRAM_CSD, 0);
    host.give(&current.with_crc());
    assert!(
        !host.r1(opcode::WRITE_BLOCK, 0).has_any(Status::ERRORS),
        "the temporary protection can be removed"
    );
}

#[test]
fn a_locked_card_rejects_access_without_the_password() {
    let (mut host, bytes) = large();
    host.write(0, &pattern(8, 2));
    let lock = |host: &mut Host, mode: u8, password: &[u8]| {
        let mut block = [vec![mode, password.len() as u8], password.to_vec()].concat();
        block.resize(32, 0);
        host.r1(opcode::SET_BLOCKLEN, 32);
        host.r1(opcode::LOCK_UNLOCK, 0);
        host.give(&block);
        host.status()
    };
    let status = lock(&mut host, 0b101, b"secret");
    assert!(status.has(Status::CARD_IS_LOCKED) && !status.has(Status::LOCK_UNLOCK_FAILED));
    assert_eq!(
        host.send(opcode::READ_SINGLE_BLOCK, 0, ResponseType::R1),
        Err(Fault::Timeout),
        "a locked card rejects CMD17"
    );
    host.cycle();
    assert!(host.status().has(Status::CARD_IS_LOCKED), "the card is locked after power-up");
    let status = lock(&mut host, 0, b"guess");
    assert!(status.has(Status::LOCK_UNLOCK_FAILED) && status.has(Status::CARD_IS_LOCKED));
    assert!(
        !lock(&mut host, 0, b"secret")
            .has_any(Status(Status::LOCK_UNLOCK_FAILED.0 | Status::CARD_IS_LOCKED.0))
    );
    assert_eq!(host.read(0, 2), pattern(8, 2));
    // The new password follows the old one in the data block.
    assert!(!lock(&mut host, 0b001, b"secretbetter").has(Status::LOCK_UNLOCK_FAILED));
    assert!(lock(&mut host, 0b010, b"secret").has(Status::LOCK_UNLOCK_FAILED));
    assert!(lock(&mut host, 0b100, b"better").has(Status::CARD_IS_LOCKED));
    // A host that does not know the password can erase the card.
    host.r1(opcode::SET_BLOCKLEN, 1);
    host.r1(opcode::LOCK_UNLOCK, 0);
    host.give(&[0b1000]);
    assert!(!host.status().has(Status::CARD_IS_LOCKED));
    assert_eq!(bytes.at(0..1024), [0; 1024]);
}

#[test]
fn extension_registers_control_power_and_cache_and_report_wear() {
    let parameters = parameters(Overwrite::Convert);
    let mut identity = high_capacity(&parameters);
    identity.extensions = Extensions { power_off_notification: true, cache: true };
    let (mut host, _) = with(parameters, identity);
    host.write(0, &pattern(9, 512));
    let read = |host: &mut Host, function: u32, offset: u32, length: u32| -> [u8; 512] {
        host.r1(opcode::READ_EXTR_SINGLE, function << 27 | offset << 9 | (length - 1));
        host.register()
    };
    let write = |host: &mut Host, function: u32, offset: u32, byte: u8| {
        let mut block = [0; 512];
        block[0] = byte;
        host.r1(opcode::WRITE_EXTR_SINGLE, function << 27 | offset << 9);
        host.give(&block);
    };
    let general = read(&mut host, 0, 0, 512);
    assert_eq!(general[4], 3, "three functions");
    // Power-off notification is ready after the host has requested it.
    assert_eq!(read(&mut host, 1, 1, 1)[0], 0x10);
    write(&mut host, 1, 2, 1);
    assert_eq!(read(&mut host, 1, 1, 1)[0], 0x11);
    // The host can enable the cache. A flush completes immediately.
    assert_eq!(read(&mut host, 2, 4, 1)[0], 1);
    write(&mut host, 2, 260, 1);
    write(&mut host, 2, 261, 1);
    assert_eq!(read(&mut host, 2, 260, 2)[..2], [1, 0]);
    // The extension register and CMD56 report the same wear, which is the wear that the translation layer counts.
    let health = Health::from_page(&read(&mut host, 3, 0, 512)).expect("a health page");
    host.r1(opcode::GEN_CMD, 1);
    assert_eq!(Health::from_page(&host.register::<512>()), Some(health));
    assert_eq!(health.host_written_bytes, 512 * 512);
    let blocks = host.card().blocks();
    assert_eq!((health.blocks, health.erase_count_max), (blocks.count(), blocks.summary().max));
    assert!(health.erase_count_max > 0 && !health.read_only);
}

#[test]
fn a_worn_out_card_rejects_writes_and_reports_that_it_is_read_only() {
    let mut parameters = parameters(Overwrite::Log);
    parameters.wear = Wear { cycles: Some(20), beyond: Some(0), ..Wear::default() };
    let identity = high_capacity(&parameters);
    let (mut host, bytes) = with(parameters, identity);
    let mut pass = 0;
    let failed = loop {
        let before = bytes.at(0..64 * KIB);
        host.r1(opcode::WRITE_MULTIPLE_BLOCK, 0);
        let failed = pattern(pass, 128)
            .chunks(512)
            .position(|part| host.native.write_block(part, 512, LONG) == Err(Fault::WriteError));
        let status = host.r1(opcode::STOP_TRANSMISSION, 0);
        host.native.wait_ready(LONG).expect("the card becomes ready");
        if let Some(block) = failed {
            assert!(status.has(Status::ERROR));
            break (block, before);
        }
        pass += 1;
        assert!(pass < 20_000, "the card does not wear out");
    };
    // The page of the failed block is unchanged.
    let page = failed.0 / 16 * 16;
    assert_eq!(host.read(page as u32, 16), failed.1[page * 512..][..16 * 512]);
    host.r1(opcode::GEN_CMD, 1);
    assert!(Health::from_page(&host.register::<512>()).expect("a health page").read_only);
    host.card().check();
}

/// An SDUC card of 4 TiB, without bytes.
fn ultra_capacity() -> Card {
    let mut parameters = parameters(Overwrite::Convert);
    parameters.capacity = 4 << 40;
    parameters.nand.erase_block = 1 << 30;
    (parameters.mapping.map_unit, parameters.mapping.rewrite_unit) = (1 << 30, 1 << 30);
    parameters.mapping.program_unit = 8 * KIB;
    parameters.check().expect("a possible card");
    let identity = Identity::new(&parameters);
    assert_eq!(identity.csd.capacity(), Some(4 << 40));
    let mut card = Card::new(parameters, identity, None, 1);
    card.power_on(Instant::ZERO, Voltage::V3_3);
    card
}

#[test]
fn an_sduc_card_does_not_respond_to_a_host_that_cannot_address_it() {
    let mut card = ultra_capacity();
    let later = Instant::ZERO + Duration::from_secs(10);
    let mut initialise = |argument| {
        card.command(later, Command::new(opcode::APP_CMD, 0)).expect("CMD55 is answered");
        card.command(later, Command::new(opcode::app::SD_SEND_OP_COND, argument))
            .map(|response| response.word())
    };
    assert_eq!(initialise(0), Some(0x00ff_8000), "the inquiry is answered");
    assert_eq!(initialise(0x40ff_8000), None, "HCS without HO2T");
    assert_eq!(initialise(0x00ff_8000), None, "neither HCS nor HO2T");
    card.command(later, Command::new(opcode::SEND_IF_COND, 0x1aa)).expect("CMD8 is answered");
    let mut initialise = |now, argument| {
        card.command(now, Command::new(opcode::APP_CMD, 0)).expect("the card is still idle");
        card.command(now, Command::new(opcode::app::SD_SEND_OP_COND, argument))
            .map(|response| response.word())
    };
    assert_eq!(initialise(later, 0x40ff_8000), None, "HCS without HO2T, after CMD8");
    assert_eq!(initialise(later, 0x48ff_8000), Some(0x00ff_8000), "the initialisation begins");
    let ready = later + Duration::from_secs(1);
    assert_eq!(initialise(ready, 0x40ff_8000), None, "the host does not set HO2T again");
    assert_eq!(initialise(ready, 0x48ff_8000), Some(0xc8ff_8000));
}

#[test]
fn an_sduc_card_is_never_ready_in_spi_mode() {
    let mut card = ultra_capacity();
    card.set_spi();
    for second in 1..10 {
        let now = Instant::ZERO + Duration::from_secs(second);
        card.command(now, Command::new(opcode::SEND_IF_COND, 0x1aa)).expect("CMD8 is answered");
        card.command(now, Command::new(opcode::APP_CMD, 0)).expect("CMD55 is answered");
        card.command(now, Command::new(opcode::app::SD_SEND_OP_COND, 0x48ff_8000))
            .expect("SPI mode answers everything");
        assert_eq!(card.state(), State::Idle);
    }
}

#[test]
fn speed_class_and_address_extension_are_legal_only_on_cards_that_support_them() {
    let (mut host, _) = large();
    assert!(!host.r1(opcode::SPEED_CLASS_CONTROL, 0).has_any(Status::ERRORS));
    assert_eq!(host.send(opcode::ADDRESS_EXTENSION, 1, ResponseType::R1), Err(Fault::Timeout));
    host.status();

    let mut card = ultra_capacity();
    let now = Instant::ZERO + Duration::from_secs(2);
    let mut send = |index, argument| card.command(now, Command::new(index, argument));
    send(opcode::SEND_IF_COND, 0x1aa);
    send(opcode::APP_CMD, 0);
    send(opcode::app::SD_SEND_OP_COND, 0x48ff_8000);
    send(opcode::APP_CMD, 0);
    let later = now + Duration::from_secs(1);
    let ocr = card
        .command(later, Command::new(opcode::app::SD_SEND_OP_COND, 0x48ff_8000))
        .expect("its conditions")
        .word();
    assert!(ocr & Ocr::OVER_2TB != 0 && ocr & Ocr::POWERED_UP != 0);
    let mut send = |index, argument| card.command(later, Command::new(index, argument));
    send(opcode::ALL_SEND_CID, 0);
    send(opcode::SEND_RELATIVE_ADDR, 0);
    send(opcode::SELECT_CARD, 1 << 16);
    let blocks = (4u64 << 40) / 512;
    assert_eq!(blocks, 1 << 33);
    let Some(Response::R1(status)) = send(opcode::ADDRESS_EXTENSION, 1) else { panic!("CMD22 is known") };
    assert!(!status.has_any(Status::ERRORS));
    let Some(Response::R1(status)) = send(opcode::READ_SINGLE_BLOCK, 0xffff_ffff) else { panic!("a read") };
    assert!(!status.has_any(Status::ERRORS), "the last block: {status:?}");
    card.command(later, Command::new(opcode::STOP_TRANSMISSION, 0)).expect("the read is stopped");
    card.command(later, Command::new(opcode::APP_CMD, 1 << 16)).expect("an application command follows");
    card.command(later, Command::new(opcode::app::SEND_NUM_WR_BLOCKS, 0))
        .expect("the number of written blocks");
    assert_eq!(card.transfer(), Transfer::Sending { block: 8 }, "an SDUC card sends 64 bits");
}

#[test]
fn a_card_of_version_1_10_does_not_know_cmd8() {
    let parameters = parameters(Overwrite::Convert);
    let mut identity = Identity::new(&parameters);
    identity.scr = Scr([0x01, 0x25, 0, 0, 0, 0, 0, 0]);
    identity.t_init = Duration::ZERO;
    let mut host = Host::new(Card::new(parameters, identity, None, 1));
    host.send(opcode::GO_IDLE_STATE, 0, ResponseType::None).expect("nothing");
    assert_eq!(
        host.send(opcode::SEND_IF_COND, 0x1aa, ResponseType::R7),
        Err(Fault::Timeout),
        "version 1.10 has no CMD8"
    );
    assert!(host.r1(opcode::APP_CMD, 0).has(Status::ILLEGAL_COMMAND));
    let ocr = host
        .send(opcode::app::SD_SEND_OP_COND, 0x00ff_8000, ResponseType::R3)
        .expect("its conditions")
        .word();
    assert_eq!(ocr, 0x80ff_8000);
}

#[test]
fn a_high_capacity_card_waits_for_a_host_that_supports_it() {
    let parameters = parameters(Overwrite::Convert);
    let mut identity = high_capacity(&parameters);
    identity.t_init = Duration::ZERO;
    let mut host = Host::new(Card::new(parameters, identity, None, 1));
    for (hcs, cmd8, ready) in [(0, true, 0), (1, false, 0), (1, true, 1)] {
        host.send(opcode::GO_IDLE_STATE, 0, ResponseType::None).expect("nothing");
        if cmd8 {
            host.send(opcode::SEND_IF_COND, 0x1aa, ResponseType::R7).expect("a card");
        }
        host.r1(opcode::APP_CMD, 0);
        let ocr = host
            .send(opcode::app::SD_SEND_OP_COND, hcs << 30 | 0x00ff_8000, ResponseType::R3)
            .expect("its conditions")
            .word();
        assert_eq!(ocr >> 31, ready, "HCS {hcs}, CMD8 {cmd8}");
    }
    // The card does not support the voltage window of this ACMD41, so it becomes inactive.
    host.send(opcode::GO_IDLE_STATE, 0, ResponseType::None).expect("nothing");
    host.r1(opcode::APP_CMD, 0);
    assert_eq!(host.send(opcode::app::SD_SEND_OP_COND, 0x4000_0100, ResponseType::R3), Err(Fault::Timeout));
    assert_eq!(host.card().state(), State::Inactive);
    assert_eq!(host.send(opcode::APP_CMD, 0, ResponseType::R1), Err(Fault::Timeout));
}

#[test]
fn a_block_with_a_wrong_checksum_is_not_written() {
    let (mut host, bytes) = large();
    host.write(0, &pattern(1, 4));
    host.r1(opcode::WRITE_MULTIPLE_BLOCK, 0);
    let now = host.native.now();
    let card = host.card();
    assert_eq!(card.transfer(), Transfer::Receiving { block: 512 });
    assert_eq!(card.receive_block(now, &pattern(2, 1), true), Some(flashlab_sd::CrcStatus::Accepted));
    assert_eq!(card.receive_block(now, &pattern(2, 1), false), Some(flashlab_sd::CrcStatus::CrcError));
    assert_eq!(card.receive_block(now, &pattern(2, 1), true), None, "the card ignores further blocks");
    host.r1(opcode::STOP_TRANSMISSION, 0);
    host.native.wait_ready(LONG).expect("the card becomes ready");
    assert_eq!(bytes.at(0..512), pattern(2, 1));
    assert_eq!(bytes.at(512..2048), pattern(1, 4)[512..]);
    host.application(opcode::app::SEND_NUM_WR_BLOCKS, 0);
    assert_eq!(u32::from_be_bytes(host.register()), 1);
}

#[test]
fn a_card_removed_during_a_write_loses_data_that_is_not_durable() {
    let (mut host, bytes) = large();
    host.write(0, &pattern(1, 64));
    host.r1(opcode::WRITE_MULTIPLE_BLOCK, 0);
    for part in pattern(2, 40).chunks(512) {
        host.native.write_block(part, 512, LONG).expect("a block");
    }
    let mut card = host.native.remove().expect("the slot held a card");
    assert_eq!(
        host.send(opcode::SEND_STATUS, host.address, ResponseType::R1),
        Err(Fault::Timeout),
        "an empty slot"
    );
    assert!(card.save().is_some());
    card.check();
    assert_eq!(bytes.at(40 * 512..64 * 512), pattern(1, 64)[40 * 512..]);
    assert_eq!(bytes.at(32 * 512..40 * 512), pattern(1, 64)[32 * 512..40 * 512], "half a page was not begun");
    card.set_command_time(Duration::ZERO);
    host.native.insert(card);
    host.native.set_ios(&IOS);
    host.native.advance(Duration::from_ms(10));
    host.bring_up();
    host.read(40, 24);
}

#[test]
fn a_saved_state_continues_in_a_card_and_in_the_model() {
    use flashlab_sd::{CardModel, Link};
    use flashlab_sim::Model;
    let (mut host, _) = small();
    host.write(0, &pattern(1, 64));
    host.r1(opcode::SET_WRITE_PROT, 0);
    host.native.wait_ready(LONG).expect("the card becomes ready");
    let state = host.card().save().expect("the card can be saved");
    let parameters = parameters(Overwrite::Convert);
    let link = Link { bus: Mode::HighSpeed.bus(), t_block_host: Duration::ZERO };
    let mut model = CardModel::new(parameters.clone(), link, 1);
    model.restore(&state).expect("the model accepts a state of the card");
    let of_model = model.save().expect("the model can be saved");
    let identity = host.card().identity().clone();
    let mut other = Card::new(parameters.clone(), identity.clone(), None, 1);
    other.restore(&of_model).expect("the card accepts a state of the model");
    other.restore(&state).expect("the card accepts its own state");
    assert_eq!(other.save(), Some(state.clone()));
    assert_eq!(other.health(), host.card().health());
    let mut elsewhere = Card::new(parameters.clone(), high_capacity(&parameters), None, 1);
    assert!(elsewhere.restore(&state).is_err(), "its write protection groups differ");
    assert!(elsewhere.restore(&state[..20]).is_err());
}

#[test]
fn the_csd_reports_the_clock_of_the_access_mode() {
    let (mut host, _) = large();
    for (cycle, tran_speed) in [(false, Csd::TRAN_SPEED_50_MHZ), (true, Csd::TRAN_SPEED_25_MHZ)] {
        if cycle {
            host.cycle();
        }
        host.send(opcode::SELECT_CARD, 0, ResponseType::None).expect("it is deselected");
        let Ok(Response::R2(csd)) = host.send(opcode::SEND_CSD, host.address, ResponseType::R2) else {
            panic!("no CSD")
        };
        assert_eq!(Csd(csd).tran_speed(), tran_speed, "power cycled {cycle}");
        host.r1(opcode::SELECT_CARD, host.address);
    }
}

#[test]
fn a_card_whose_buffer_is_full_is_not_ready_for_data() {
    let (mut host, _) = large();
    host.r1(opcode::WRITE_MULTIPLE_BLOCK, 0);
    // The second page waits for the program operation of the first.
    for _ in 0..32 {
        assert!(host.status().has(Status::READY_FOR_DATA));
        host.native.write_block(&[1; 512], 512, LONG).expect("a block");
    }
    assert!(host.native.is_busy());
    let status = host.status();
    assert_eq!((status.state(), status.has(Status::READY_FOR_DATA)), (Some(State::ReceiveData), false));
    host.native.wait_ready(LONG).expect("there is room again");
    assert!(host.status().has(Status::READY_FOR_DATA));
    host.send(opcode::STOP_TRANSMISSION, 0, ResponseType::R1b).expect("a stop");
    host.native.wait_ready(LONG).expect("the card becomes ready");
}
