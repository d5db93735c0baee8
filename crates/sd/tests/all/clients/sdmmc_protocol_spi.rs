//! sdmmc-protocol: an SPI driver that relies on the specification's limit of 250 ms for the busy time.

use super::bench::{GIB, card};
use embedded_hal::digital::OutputPin;
use embedded_hal::spi::SpiBus;
use flashlab_sd::spi::hal::{ChipSelectPin, Delay, Wires};
use flashlab_sd::spi::{ChipSelect, Spi};
use sdmmc_protocol::spi::{SpiDeviceWrapper, SpiSdmmc, SpiTransport};
use sdmmc_protocol::{Error, ErrorContext, Phase};

/// A bus and a pin, as on a board.
struct Board(Wires, ChipSelectPin);

impl SpiTransport for Board {
    fn select(&mut self) -> Result<(), Error> {
        self.1.set_low().map_err(|never| match never {})
    }
    fn deselect(&mut self) -> Result<(), Error> {
        self.1.set_high().map_err(|never| match never {})
    }
    fn transfer_byte(&mut self, byte: u8) -> Result<u8, Error> {
        let mut word = [byte];
        SpiBus::transfer_in_place(&mut self.0, &mut word)
            .map_err(|_| Error::BusError(ErrorContext::new(Phase::Unspecified)))?;
        Ok(word[0])
    }
}

fn driver(chip_select: ChipSelect, quirks: &[&str]) -> SpiSdmmc<Board, Delay> {
    // 4 GiB, because the driver treats every card of version 2 as block-addressed.
    let spi = Spi::new(Some(card(4 * GIB, quirks).0), 20_000_000).with_chip_select(chip_select);
    let wires = Wires::new(spi);
    let delay = wires.delay();
    SpiSdmmc::new(Board(wires.clone(), wires.chip_select()), delay)
}

#[test]
fn a_card_is_brought_up_and_its_blocks_moved() {
    let mut driver = driver(ChipSelect::EndsTransfers, &[]);
    let info = driver.init().expect("the driver initialises the card");
    assert!(info.sd_v2 && info.high_capacity);
    assert_eq!(info.capacity_blocks, Some(4 * GIB / 512));
    assert!(info.cid.is_some());
    let block = core::array::from_fn(|n| n as u8);
    driver.write_block(77, &block).expect("it can be written");
    let mut back = [0; 512];
    driver.read_block(77, &mut back).expect("it can be read");
    assert_eq!(back, block);
    let blocks: Vec<[u8; 512]> = (0..20).map(|n| [n; 512]).collect();
    driver.write_blocks(1000, &blocks).expect("they can be written");
    for (at, block) in (1000..).zip(&blocks) {
        driver.read_block(at, &mut back).expect("it can be read");
        assert_eq!(back, *block);
    }
}

/// The driver raises chip select after each block of several, and does not pull it low again.
#[test]
fn a_rising_chip_select_between_blocks_ends_a_read_of_several_blocks() {
    let mut driver = driver(ChipSelect::EndsTransfers, &[]);
    driver.init().expect("the driver initialises the card");
    assert!(matches!(driver.read_blocks(0, 2, |_, _| {}), Err(Error::Timeout(_))));
}

/// Each byte is a transaction of its own.
#[test]
fn several_blocks_are_read_byte_by_byte_where_chip_select_pauses_the_card() {
    let spi = Spi::new(Some(card(4 * GIB, &[]).0), 20_000_000).with_chip_select(ChipSelect::Pauses);
    let wires = Wires::new(spi);
    let mut driver = SpiSdmmc::new(SpiDeviceWrapper::new(wires.clone()), wires.delay());
    driver.init().expect("the driver initialises the card");
    let blocks: Vec<[u8; 512]> = (0..20).map(|n| [n; 512]).collect();
    driver.write_blocks(1000, &blocks).expect("they can be written");
    let mut seen = Vec::new();
    driver.read_blocks(1000, 20, |at, block| seen.push((at, *block))).expect("they can be read");
    assert!((1000..).zip(blocks).eq(seen));
}

#[test]
fn a_card_that_is_busy_for_longer_than_the_specification_allows_makes_the_driver_fail() {
    let write = |quirks: &[&str]| {
        let mut driver = driver(ChipSelect::EndsTransfers, quirks);
        driver.init().expect("the driver initialises the card");
        driver.write_block(5, &[1; 512])
    };
    assert!(write(&[]).is_ok());
    assert!(write(&["busy=200ms"]).is_ok());
    // The driver counts its pauses, not the bytes between them, so its 250 ms last a little longer.
    for busy in ["busy=300ms", "busy=400ms", "busy=500ms"] {
        let error = write(&[busy]).expect_err("the driver waits for 250 ms");
        assert!(matches!(error, Error::Timeout(_)), "{busy}: {error:?}");
    }
}

#[test]
fn garbage_before_a_response_is_mistaken_for_the_response() {
    assert!(driver(ChipSelect::EndsTransfers, &["garbage-before-response"]).init().is_err());
}
