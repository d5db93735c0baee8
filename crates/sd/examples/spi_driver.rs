//! Runs a driver for microcontrollers (`embedded-sdmmc`) in SPI mode with a virtual card, as a unit test
//! would. The first card is good. The second card is busy for longer than the driver waits.

use embedded_sdmmc::{Block, BlockDevice, BlockIdx, SdCard, SdCardError};
use flashlab_block::{Memory, Pages};
use flashlab_sd::quirk::Quirk;
use flashlab_sd::spi::hal::Wires;
use flashlab_sd::spi::{ChipSelect, Spi};
use flashlab_sd::{Card, CardParameters, Identity};
use flashlab_sim::{Duration, Instant};

fn card() -> Card {
    let parameters = CardParameters::example(4 << 30);
    let identity = Identity::new(&parameters);
    let bytes = Memory::new(parameters.capacity, Pages::Small).expect("a valid size");
    Card::new(parameters, identity, Some(Box::new(bytes)), 1)
}

fn write_and_read(card: Card) -> Result<Duration, SdCardError> {
    // This driver uses a transaction for each byte, so a rising chip select must not end a transfer.
    let wires = Wires::new(Spi::new(Some(card), 25_000_000).with_chip_select(ChipSelect::Pauses));
    wires.clock_unselected(10);
    let driver = SdCard::new(wires.clone(), wires.delay());
    let data = Block { contents: [0x5a; 512] };
    driver.write(std::slice::from_ref(&data), BlockIdx(2048))?;
    let mut back = [Block::new()];
    driver.read(&mut back, BlockIdx(2048))?;
    assert_eq!(back[0].contents, data.contents);
    let now = wires.borrow().now();
    Ok(now.since(Instant::ZERO))
}

fn main() {
    let took = write_and_read(card()).expect("a good card works");
    println!("a good card: initialisation, one write and one read took {took} of simulated time");

    let mut slow = card();
    slow.quirks_mut().add(Quirk::Busy(Duration::from_ms(700)));
    match write_and_read(slow) {
        Err(SdCardError::TimeoutWaitNotBusy) => {
            println!("a card that is busy for 700 ms: the driver gives up")
        }
        other => panic!("this driver waits for 500 ms, not {other:?}"),
    }
}
