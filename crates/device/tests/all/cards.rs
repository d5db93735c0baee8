//! Cards by name, over SPI and in native mode.

use embedded_sdmmc::{Block, BlockDevice, BlockIdx, SdCard};
use flashlab_device::sd::spi::hal::Wires;
use flashlab_device::sd::spi::{ChipSelect, Spi};
use flashlab_device::sd::{Command, Ios, Power, ResponseType, opcode};
use flashlab_device::{Options, Store, StoreError, card, native, spi};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

#[test]
fn a_driver_in_spi_mode_reads_back_what_it_wrote() {
    let card = card("sd/kingston").unwrap();
    let wires = Wires::new(Spi::new(Some(card), 25_000_000).with_chip_select(ChipSelect::Pauses));
    wires.clock_unselected(10);
    let driver = SdCard::new(wires.clone(), wires.delay());
    driver.write(&[Block { contents: [9; 512] }], BlockIdx(7)).unwrap();
    let mut back = [Block::new()];
    driver.read(&mut back, BlockIdx(7)).unwrap();
    assert_eq!(back[0].contents, [9; 512]);
}

#[test]
fn a_slot_in_native_mode_takes_commands_once_it_has_power() {
    let mut slot = native("sd/kingston").unwrap();
    slot.set_ios(&Ios { power: Power::On, clock_hz: 400_000, ..Ios::OFF });
    slot.advance(flashlab_device::Duration::from_ms(2));
    slot.command(Command::new(opcode::GO_IDLE_STATE, 0), ResponseType::None).unwrap();
    let echo = slot.command(Command::new(opcode::SEND_IF_COND, 0x1aa), ResponseType::R7).unwrap().word();
    assert_eq!(echo & 0xfff, 0x1aa);
}

#[test]
fn a_silent_card_answers_nothing() {
    let mut wires = spi("sd/kingston", 400_000).unwrap();
    wires
        .card_mut()
        .unwrap()
        .quirks_mut()
        .add("silent".parse::<flashlab_device::sd::quirk::Planned>().unwrap());
    wires.select(true);
    let reset = [0x40, 0, 0, 0, 0, 0x95];
    let answers: Vec<u8> = reset.iter().chain(&[0xff; 16]).map(|byte| wires.exchange(*byte)).collect();
    assert_eq!(answers, [0xff; 22]);
}

#[test]
fn a_device_that_takes_no_commands_is_not_a_card() {
    for store in [false, true] {
        let options = Options::new();
        let options = if store { options.store(Box::new(Sparse::default())) } else { options };
        let error = options.card("nvme/p32a80").unwrap_err();
        assert!(matches!(&error, flashlab_device::Error::NotACard(name) if name == "nvme/p32a80"), "{error}");
    }
}

/// A store that keeps its bytes in a map.
#[derive(Clone, Default)]
struct Sparse(Arc<Mutex<BTreeMap<u64, u8>>>);

impl Store for Sparse {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        let bytes = self.0.lock().unwrap();
        (offset..).zip(buffer).for_each(|(at, byte)| *byte = bytes.get(&at).copied().unwrap_or(0));
        Ok(())
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        self.0.lock().unwrap().extend((offset..).zip(bytes.iter().copied()));
        Ok(())
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), StoreError> {
        self.0.lock().unwrap().retain(|at, _| !(offset..offset + length).contains(at));
        Ok(())
    }
    fn data_in(&self, range: Range<u64>) -> Result<Option<Range<u64>>, StoreError> {
        let bytes = self.0.lock().unwrap();
        let first = bytes.range(range.clone()).next().map(|(at, _)| *at);
        Ok(first.map(|first| first..range.end))
    }
    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

#[test]
fn a_device_and_a_card_keep_their_bytes_in_a_given_store() {
    let store = Sparse::default();
    let mut device = Options::new().store(Box::new(store.clone())).device("sd/kingston").unwrap();
    device.write(4096, &[6; 512]).unwrap();
    assert_eq!(store.0.lock().unwrap().get(&4096), Some(&6));

    let card = Options::new().store(Box::new(store)).card("sd/kingston").unwrap();
    let wires = Wires::new(Spi::new(Some(card), 25_000_000).with_chip_select(ChipSelect::Pauses));
    wires.clock_unselected(10);
    let driver = SdCard::new(wires.clone(), wires.delay());
    let mut back = [Block::new()];
    driver.read(&mut back, BlockIdx(8)).unwrap();
    assert_eq!(back[0].contents, [6; 512]);
}
