//! The results that the host stack reports for failing transfers, compared with the card's bytes: data reported as
//! written must be on the card, and a read must return the card's bytes.

use flashlab_host::driver::mmc::{Controller, Error, Event, Kernel, Mmc};
use flashlab_sd::opcode;
use flashlab_sd::quirk::Planned;
use flashlab_sd::register::Ocr;
use flashlab_sd::{Card, Command, Identity, Native, ResponseType};
use flashlab_sim::{Duration, Store, StoreError};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Program time of a page.
const FAST: Duration = Duration::from_us(300);

/// Blocks of 512 bytes, one of which may be unreadable.
#[derive(Clone, Default)]
struct Blocks {
    held: Arc<Mutex<BTreeMap<u64, Vec<u8>>>>,
    bad: Option<u64>,
}

impl Blocks {
    fn at(&self, block: u64) -> Vec<u8> {
        self.held.lock().unwrap().get(&block).cloned().unwrap_or_else(|| vec![0; 512])
    }
}

impl Store for Blocks {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        for (block, part) in (offset / 512..).zip(buffer.chunks_mut(512)) {
            if self.bad == Some(block) {
                return Err(StoreError::Failed);
            }
            part.copy_from_slice(&self.at(block)[..part.len()]);
        }
        Ok(())
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        let blocks = (offset / 512..).zip(bytes.chunks(512).map(<[u8]>::to_vec));
        self.held.lock().unwrap().extend(blocks);
        Ok(())
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), StoreError> {
        self.held.lock().unwrap().retain(|block, _| !(offset..offset + length).contains(&(block * 512)));
        Ok(())
    }
    fn data_in(&self, range: Range<u64>) -> Result<Option<Range<u64>>, StoreError> {
        Ok(self.held.lock().unwrap().range(range.start / 512..range.end.div_ceil(512)).next().map(|_| range))
    }
    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Returns a host that has initialised a card of `capacity` bytes, whose data is in `blocks`.
fn host(capacity: u64, t_prog: Duration, controller: Controller, blocks: Blocks) -> Mmc {
    let mut parameters = crate::common::parameters(capacity);
    parameters.nand.t_prog = t_prog;
    let identity = Identity::new(&parameters);
    let card = Card::new(parameters, identity, Some(Box::new(blocks)), 1);
    let mut mmc = Mmc::new(Native::new(Some(card)), controller, Kernel::V6_1);
    mmc.start_host();
    assert!(mmc.card().is_some(), "the card is initialised");
    mmc.keep_log();
    mmc
}

const TIB: u64 = 1 << 40;

/// Returns a host with `kernel` and an SDUC card of 4 TiB, and the blocks of the card. `registers` changes
/// the card's registers.
fn ultra_capacity(kernel: Kernel, registers: impl Fn(&mut Identity)) -> (Mmc, Blocks) {
    let blocks = Blocks::default();
    let mut parameters = crate::common::parameters(16 * MIB);
    parameters.capacity = 4 * TIB;
    parameters.nand.erase_block = 1 << 30;
    (parameters.mapping.map_unit, parameters.mapping.rewrite_unit) = (1 << 30, 1 << 30);
    parameters.check().unwrap();
    let mut identity = Identity::new(&parameters);
    registers(&mut identity);
    let card = Card::new(parameters, identity, Some(Box::new(blocks.clone())), 1);
    let mut mmc = Mmc::new(Native::new(Some(card)), Controller::SDHCI, kernel);
    mmc.keep_log();
    mmc.start_host();
    (mmc, blocks)
}

/// Block address of 1 GiB above 2 TiB.
const FAR: u64 = (2 * TIB + (1 << 30)) / 512;
/// Address [`FAR`] truncated to 32 bits.
const NEAR: u64 = (1 << 30) / 512;

#[test]
fn a_kernel_without_support_for_sduc_reports_a_time_out() {
    for kernel in Kernel::ALL.into_iter().filter(|kernel| *kernel < Kernel::V6_13) {
        let (mut mmc, _) = ultra_capacity(kernel, |_| {});
        let lines: Vec<String> = mmc.take_log().iter().flat_map(|entry| entry.linux("host")).collect();
        assert!(mmc.card().is_none(), "{}", kernel.name());
        let failure = "mmc0: error -110 whilst initialising SD card";
        assert!(lines.iter().any(|line| line.ends_with(failure)), "{}: {lines:#?}", kernel.name());
    }
}

#[test]
fn a_kernel_with_support_for_sduc_reaches_every_block() {
    let (mut mmc, blocks) = ultra_capacity(Kernel::V6_13, |_| {});
    assert_eq!(mmc.card().expect("the card is initialised").capacity().name(), "SDUC");
    sent(&mut mmc);
    mmc.write(FAR, 8, &[7; 4096]).expect("CMD22 sends the upper bits");
    assert_eq!(sent(&mut mmc)[..3], [22, 25, 13], "no CMD23");
    mmc.write(NEAR, 8, &[1; 4096]).expect("the extension is 0 again");
    assert_eq!((blocks.at(FAR), blocks.at(NEAR)), (vec![7; 512], vec![1; 512]));
    let mut read = [0; 512];
    mmc.read(FAR, 1, &mut read).expect("the block is there");
    assert_eq!(read, [7; 512]);
    sent(&mut mmc);
    mmc.discard(FAR, 2 << 20).expect("CMD22 also precedes CMD32 and CMD33");
    assert_eq!(sent(&mut mmc)[..5], [22, 32, 22, 33, 38]);
    assert_eq!((blocks.at(FAR), blocks.at(NEAR)), (vec![0; 512], vec![1; 512]));
}

/// Linux 6.12 reads the size from the CSD, but sends only 32 bits of an address. For this reason, an SDUC
/// card must not become ready for this kernel.
#[test]
fn linux_6_12_writes_to_the_wrong_address_if_a_card_hides_that_it_is_sduc() {
    let hide = |identity: &mut Identity| identity.ocr.0 &= !Ocr::OVER_2TB;
    let (mut mmc, blocks) = ultra_capacity(Kernel::V6_12, hide);
    assert_eq!(mmc.card().expect("the card is initialised").csd.sectors, 4 * TIB / 512);
    mmc.write(FAR, 8, &[7; 4096]).expect("the card accepts the write");
    assert_eq!((blocks.at(FAR), blocks.at(NEAR)), (vec![0; 512], vec![7; 512]));
    let (mmc, _) = ultra_capacity(Kernel::V6_1, hide);
    assert!(mmc.card().is_none(), "Linux 6.1 does not know the CSD");
}

#[test]
fn an_interrupted_sduc_write_continues_after_the_blocks_that_arrived() {
    let (mut mmc, blocks) = ultra_capacity(Kernel::V6_13, |_| {});
    fault(&mut mmc, "write-crc=5");
    mmc.write(FAR, 8, &[7; 4096]).expect("ACMD22 tells how many blocks arrived");
    assert_eq!(blocks.at(FAR + 7), [7; 512]);
    assert!(blocks.at(NEAR) == [0; 512], "no block lies 2 TiB below");
}

/// Without the upper bits, the transfer would go to the address of the previous CMD22.
#[test]
fn a_failed_address_extension_fails_its_request() {
    let mut done = [0; 512];
    for request in ["write", "read", "discard"] {
        let (mut mmc, _) = ultra_capacity(Kernel::V6_13, |_| {});
        fault(&mut mmc, "response-crc=1@CMD22");
        sent(&mut mmc);
        let failed = match request {
            "write" => mmc.write(FAR, 8, &[7; 4096]).is_err(),
            "read" => mmc.read(FAR, 1, &mut done).is_err(),
            _ => mmc.discard(FAR, 2 << 20).is_err(),
        };
        assert!(failed, "{request}");
        assert_eq!(sent(&mut mmc), [22], "{request}: no command uses the address");
    }
}

fn high_capacity(controller: Controller) -> (Mmc, Blocks) {
    let blocks = Blocks::default();
    (host(4096 * MIB, FAST, controller, blocks.clone()), blocks)
}

fn fault(mmc: &mut Mmc, quirk: &str) {
    let quirk: Planned = quirk.parse().expect("a quirk");
    mmc.native_mut().card_mut().expect("the card is in the slot").quirks_mut().add(quirk);
}

/// Returns the indices of the commands that were sent since the last call.
fn sent(mmc: &mut Mmc) -> Vec<u8> {
    let index = |event: &Event| match event {
        Event::Started(request) => Some(request.cmd.command.index),
        _ => None,
    };
    mmc.take_log().iter().filter_map(|entry| index(&entry.event)).collect()
}

#[test]
fn a_rejected_write_is_not_mistaken_for_the_previous_one() {
    for controller in [Controller::SDHCI, Controller::VUB300, Controller::PL181] {
        let blocks = Blocks::default();
        let mut mmc = host(64 * MIB, FAST, controller, blocks.clone());
        mmc.write(0, 8, &[1; 4096]).expect("nothing is protected");
        let group =
            mmc.native().card().unwrap().identity().csd.write_protect_group().expect("the card has groups");
        mmc.native_mut()
            .command(Command::new(opcode::SET_WRITE_PROT, group as u32), ResponseType::R1b)
            .expect("the card protects the group");
        mmc.native_mut().wait_ready(Duration::from_secs(1)).expect("the card becomes ready");
        let written = mmc.write(group / 512, 8, &[2; 4096]);
        assert_eq!(blocks.at(group / 512), [0; 512]);
        assert!(written.is_err(), "{}: none of it was written", controller.name);
    }
}

#[test]
fn a_discard_of_protected_blocks_is_an_error_for_a_host_that_checks() {
    for controller in [Controller::VUB300, Controller::PL181] {
        let blocks = Blocks::default();
        let mut mmc = host(64 * MIB, FAST, controller, blocks.clone());
        mmc.write(0, 8, &[1; 4096]).expect("nothing is protected");
        mmc.native_mut()
            .command(Command::new(opcode::SET_WRITE_PROT, 0), ResponseType::R1b)
            .expect("the card protects the group");
        mmc.native_mut().wait_ready(Duration::from_secs(1)).expect("the card becomes ready");
        let discarded = mmc.discard(0, 8);
        assert_eq!(blocks.at(0), [1; 512]);
        assert!(discarded.is_err(), "{}", controller.name);
        mmc.discard(64 * KIB, 8).expect("these blocks are not protected");
    }
}

#[test]
fn a_write_with_a_lost_block_count_is_not_mistaken_for_the_previous_one() {
    let (mut mmc, blocks) = high_capacity(Controller::SDHCI);
    mmc.write(0, 8, &[1; 4096]).expect("the write succeeds");
    fault(&mut mmc, "response-crc=10");
    for sector in 0..9 {
        mmc.read(sector, 1, &mut []).expect("nine responses are intact");
    }
    mmc.write(8, 8, &[2; 4096]).expect("the host repeats the write");
    for sector in 8..16 {
        assert_eq!(blocks.at(sector), [2; 512], "{sector}");
    }
}

#[test]
fn a_write_torn_by_a_reset_is_not_reported_as_written() {
    for controller in [Controller::SDHCI, Controller::VUB300, Controller::PL181] {
        for seconds in 30..36 {
            let t_prog = Duration::from_secs(seconds);
            let mut mmc = host(4096 * MIB, t_prog, controller, Blocks::default());
            let written = mmc.write(0, 8, &[1; 4096]);
            assert!(sent(&mut mmc).contains(&0), "{}: the host resets the card", controller.name);
            let mut read = [0; 4096];
            let is_there = mmc.read(0, 8, &mut read).is_ok() && read == [1; 4096];
            assert!(written.is_err() || is_there, "{}: {written:?}", controller.name);
        }
    }
}

#[test]
fn a_card_that_is_busy_beyond_the_limit_is_polled_until_it_is_ready() {
    let (mut mmc, blocks) = high_capacity(Controller::SDHCI);
    fault(&mut mmc, "busy=4s");
    mmc.write(0, 8, &[1; 4096]).expect("the host waits");
    assert!(!sent(&mut mmc).contains(&0), "the host does not reset the card");
    assert!((0..8).all(|sector| blocks.at(sector) == [1; 512]));
}

#[test]
fn a_transfer_with_a_damaged_response_is_stopped_and_repeated() {
    for write in [false, true] {
        for controller in [Controller::SDHCI, Controller::VUB300] {
            let (mut mmc, _) = high_capacity(controller);
            fault(&mut mmc, "response-crc=10");
            // CMD23, if the controller sends it, precedes the tenth response.
            for sector in 0..if controller.set_block_count { 8 } else { 9 } {
                mmc.read(sector, 1, &mut []).expect("the first responses are intact");
            }
            sent(&mut mmc);
            let done = if write { mmc.write(0, 8, &[1; 4096]) } else { mmc.read(0, 8, &mut [0; 4096]) };
            done.expect("the second try succeeds");
            let sent = sent(&mut mmc);
            let (index, name) = (if write { 25 } else { 18 }, controller.name);
            assert_eq!(sent.iter().filter(|sent| **sent == index).count(), 2, "{name}: {sent:?}");
            assert!(sent.contains(&12) && !sent.contains(&0), "{name}: {sent:?}");
        }
    }
}

#[test]
fn a_block_that_the_card_cannot_read_is_an_error_and_not_zeroes() {
    for (first, count) in [(100, 1), (100, 8), (93, 8), (97, 8)] {
        for controller in [Controller::SDHCI, Controller::PL181] {
            let blocks = Blocks { bad: Some(100), ..Blocks::default() };
            let mut mmc = host(4096 * MIB, FAST, controller, blocks);
            for sector in 90..110 {
                mmc.write(sector, 1, &[sector as u8; 512]).expect("the block can be written");
            }
            let mut read = vec![0xaa; 512 * count as usize];
            let failed = mmc.read(first, count, &mut read).expect_err("block 100 cannot be read");
            assert_eq!((failed.sector, failed.error), (100, Error::Timeout), "{first} {count}");
            for (sector, part) in (first..100).zip(read.chunks(512)) {
                assert_eq!(part, [sector as u8; 512], "the blocks before it are read");
            }
        }
    }
}

#[test]
fn a_read_that_falls_back_to_single_blocks_counts_them_and_reports_their_error() {
    let (mut mmc, _) = high_capacity(Controller::SDHCI);
    fault(&mut mmc, "read-crc=1");
    fault(&mut mmc, "no-data@CMD17");
    sent(&mut mmc);
    let before = mmc.transfers();
    let failed = mmc.read(0, 8, &mut [0; 4096]).expect_err("no block arrives");
    assert_eq!((failed.sector, failed.error), (0, Error::Timeout), "not the checksums of the first tries");
    let commands = sent(&mut mmc);
    let reads = commands.iter().filter(|sent| matches!(**sent, 17 | 18)).count();
    assert_eq!(mmc.transfers() - before, reads as u64, "{commands:?}");
    assert!(commands.contains(&17) && commands.contains(&18), "{commands:?}");
}
