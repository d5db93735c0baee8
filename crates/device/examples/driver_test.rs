//! Tests an SPI driver (`embedded-sdmmc`) with a good card, and with a card that is busy for too long.

use embedded_sdmmc::{Block, BlockDevice, BlockIdx, SdCard, SdCardError};
use flashlab_device::Options;
use flashlab_device::sd::Card;
use flashlab_device::sd::spi::hal::Wires;
use flashlab_device::sd::spi::{ChipSelect, Spi};

fn write_a_block(card: Card) -> Result<(), SdCardError> {
    // This driver uses a transaction for each byte, so a rising chip select must not end a transfer.
    let wires = Wires::new(Spi::new(Some(card), 25_000_000).with_chip_select(ChipSelect::Pauses));
    wires.clock_unselected(10);
    let driver = SdCard::new(wires.clone(), wires.delay());
    driver.write(&[Block { contents: [0x5a; 512] }], BlockIdx(2048))?;
    println!("written after {:?} of simulated time", wires.borrow().now());
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    assert!(write_a_block(flashlab_device::card("sd/kingston")?).is_ok());

    let slow = Options::new().quirk("busy=700ms")?.card("sd/kingston")?;
    assert!(matches!(write_a_block(slow), Err(SdCardError::TimeoutWaitNotBusy)));
    println!("a card that is busy for 700 ms: the driver gives up, as it should");
    Ok(())
}
