//! Tests of commands that are aborted, rejected or out of place.

use super::*;
use flashlab_sd::opcode;
use flashlab_sd::register::Extensions;
use flashlab_sd::{State, Voltage};
use flashlab_sim::Instant;

/// Returns an initialised high-capacity card on a four-bit bus, and its byte store.
fn large() -> (Host, Bytes) {
    let parameters = parameters(Overwrite::Convert);
    let mut identity = high_capacity(&parameters);
    identity.extensions = Extensions { power_off_notification: true, cache: true };
    commands::with(parameters, identity)
}

impl Host {
    /// Reads the number of blocks written without an error (ACMD22).
    fn well_written(&mut self) -> u32 {
        self.application(opcode::app::SEND_NUM_WR_BLOCKS, 0);
        let mut count = [0; 4];
        self.native.read_block(&mut count, 4, LONG).expect("a count");
        u32::from_be_bytes(count)
    }

    #[track_caller]
    fn extension(&mut self, argument: u32) -> [u8; 512] {
        self.r1(opcode::READ_EXTR_SINGLE, argument);
        let mut page = [0; 512];
        self.native.read_block(&mut page, 512, LONG).expect("a page");
        page
    }
}

#[test]
fn a_single_block_that_cannot_be_stored_ends_its_write_and_does_not_count() {
    let (mut host, bytes) = large();
    host.card().quirks_mut().add(flashlab_sd::quirk::Quirk::ReadOnly);
    // One block is the last of a page of the array, and the other lies in the middle of a page.
    for block in [15, 3] {
        host.r1(opcode::WRITE_BLOCK, block);
        assert_eq!(host.native.write_block(&[7; 512], 512, LONG), Err(Fault::WriteError));
        host.native.wait_ready(LONG).expect("the card is not busy, since it programs nothing");
        let status = host.r1(opcode::SEND_STATUS, host.address);
        assert_eq!((status.state(), status.has(Status::ERROR)), (Some(State::Transfer), true), "{block}");
        assert_eq!(host.well_written(), 0);
    }
    assert_eq!(bytes.at(0..8 * KIB), vec![0; 8 * KIB as usize]);
}

#[test]
fn a_block_that_cannot_be_stored_does_not_count_at_the_end_of_a_page() {
    let (mut host, bytes) = large();
    host.write(0, &pattern(1, 32));
    // The quirk makes the card read-only from the 32nd block of this write on.
    host.card()
        .quirks_mut()
        .add("read-only@block31".parse::<flashlab_sd::quirk::Planned>().expect("a quirk"));
    let new = pattern(2, 32);
    host.r1(opcode::WRITE_MULTIPLE_BLOCK, 0);
    let kept = new.chunks(512).take_while(|part| host.native.write_block(part, 512, LONG).is_ok()).count();
    assert_eq!(kept, 31);
    host.send(opcode::STOP_TRANSMISSION, 0, ResponseType::R1b).expect("a stop");
    host.native.wait_ready(LONG).expect("the card becomes ready");
    // The page that was in the buffer is unchanged.
    assert_eq!(host.well_written(), 16);
    assert_eq!(host.read(0, 32), [&new[..16 * 512], &pattern(1, 32)[16 * 512..]].concat());
    assert_eq!(bytes.at(0..32 * 512), host.read(0, 32));
}

#[test]
fn a_rejected_write_counts_no_written_block() {
    let (mut host, _) = large();
    host.write(0, &pattern(1, 8));
    assert_eq!(host.well_written(), 8);
    assert!(host.r1(opcode::WRITE_MULTIPLE_BLOCK, u32::MAX).has(Status::OUT_OF_RANGE));
    assert_eq!(host.well_written(), 0);
}

#[test]
fn an_interrupted_switch_does_not_take_effect_after_other_data() {
    let (mut host, _) = large();
    assert_eq!(host.card().access_mode(), 1);
    host.r1(opcode::SWITCH_FUNC, 0x80ff_fff0);
    host.r1(opcode::STOP_TRANSMISSION, 0);
    host.extension(0);
    assert_eq!(host.card().access_mode(), 1, "the host never read the data block of CMD6");
}

#[test]
fn extension_writes_follow_their_mask_and_do_not_reach_io_functions() {
    const POWER_OFF: u32 = 1 << 27 | 2 << 9;
    const STATUS: u32 = 1 << 27 | 1 << 9;
    let (mut host, _) = large();
    let write = |host: &mut Host, argument: u32, byte: u8| {
        let mut page = [0; 512];
        page[0] = byte;
        host.r1(opcode::WRITE_EXTR_SINGLE, argument);
        host.native.write_block(&page, 512, LONG).expect("a page");
        host.native.wait_ready(LONG).expect("the card becomes ready");
    };
    write(&mut host, 1 << 31 | POWER_OFF, 1);
    assert_eq!(host.extension(STATUS)[0], 0x10, "the register belongs to a memory function");
    write(&mut host, 1 << 26 | POWER_OFF | 0xfe, 0xff);
    assert_eq!(host.extension(STATUS)[0], 0x10, "bit 0 is not in the mask");
    write(&mut host, 1 << 26 | POWER_OFF | 0x01, 0xff);
    assert_eq!(host.extension(STATUS)[0], 0x11);
    write(&mut host, 1 << 26 | POWER_OFF | 0x02, 0x00);
    assert_eq!(host.extension(STATUS)[0], 0x11);
}

#[test]
fn cmd22_may_precede_each_address_of_an_erase() {
    let mut parameters = parameters(Overwrite::Convert);
    parameters.capacity = 4 << 40;
    parameters.nand.erase_block = 1 << 30;
    (parameters.mapping.map_unit, parameters.mapping.rewrite_unit) = (1 << 30, 1 << 30);
    let mut identity = Identity::new(&parameters);
    identity.t_init = Duration::ZERO;
    let mut card = Card::new(parameters, identity, None, 1);
    card.power_on(Instant::ZERO, Voltage::V3_3);
    let now = Instant::ZERO + Duration::from_secs(2);
    for (index, argument) in [
        (opcode::SEND_IF_COND, 0x1aa),
        (opcode::APP_CMD, 0),
        (opcode::app::SD_SEND_OP_COND, 0x48ff_8000),
        (opcode::ALL_SEND_CID, 0),
        (opcode::SEND_RELATIVE_ADDR, 0),
        (opcode::SELECT_CARD, 1 << 16),
    ] {
        card.command(now, Command::new(index, argument)).expect("it is answered");
    }
    for (index, argument) in [
        (opcode::ADDRESS_EXTENSION, 1),
        (opcode::ERASE_WR_BLK_START, 8),
        (opcode::ADDRESS_EXTENSION, 1),
        (opcode::ERASE_WR_BLK_END, 15),
        (opcode::ERASE, 0),
    ] {
        let Some(Response::R1(status)) = card.command(now, Command::new(index, argument)) else {
            panic!("CMD{index} is known")
        };
        assert!(!status.has_any(Status::ERRORS), "CMD{index}: {status:?}");
    }
    assert_eq!(card.state(), State::Programming, "it erases");
    let later = now + LONG;
    for (index, argument) in
        [(opcode::SET_BLOCK_COUNT, 8), (opcode::ADDRESS_EXTENSION, 1), (opcode::WRITE_MULTIPLE_BLOCK, 8)]
    {
        card.command(later, Command::new(index, argument)).expect("it is known");
    }
    for _ in 0..8 {
        card.receive_block(later, &[], true).expect("it is taken");
    }
    assert_ne!(card.state(), State::ReceiveData, "eight blocks were announced");
}

#[test]
fn partial_block_reads_stop_at_a_block_boundary() {
    let parameters = parameters(Overwrite::Convert);
    let identity = Identity::new(&parameters);
    let mut host = Host::new(Card::new(parameters, identity, None, 1));
    host.bring_up();
    host.r1(opcode::SET_BLOCKLEN, 200);
    // Reads the blocks one by one, and then as many as possible at once.
    for count in [1, 3] {
        assert!(!host.r1(opcode::READ_MULTIPLE_BLOCK, 0).has_any(Status::ERRORS));
        let mut read = 0;
        while let Ok(()) = host.native.read_blocks(&mut [], 200, count, LONG) {
            read += count;
        }
        assert!(read < 3, "the third block spans the bytes from 400 to 600");
        assert!(host.r1(opcode::STOP_TRANSMISSION, 0).has(Status::ADDRESS_ERROR));
    }
}

#[test]
fn without_a_clock_nothing_happens() {
    let (mut host, _) = large();
    host.native.set_ios(&Ios { clock_hz: 0, ..IOS });
    assert_eq!(host.native.read_block(&mut [0; 64], 64, LONG), Err(Fault::Timeout));
    assert_eq!(host.native.read_blocks(&mut [], 64, 2, LONG), Err((0, Fault::Timeout)));
    assert_eq!(host.native.write_block(&[0; 16], 16, LONG), Err(Fault::Timeout));
    assert_eq!(host.send(opcode::SEND_STATUS, host.address, ResponseType::R1), Err(Fault::Timeout));
}
