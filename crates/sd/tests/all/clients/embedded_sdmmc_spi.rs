//! embedded-sdmmc: an SPI driver for microcontrollers, with FAT.

use super::bench::{GIB, MIB, card, format, wires};
use embedded_sdmmc::{
    Block, BlockDevice, BlockIdx, Mode, SdCard, SdCardError, TimeSource, Timestamp, VolumeIdx, VolumeManager,
};
use flashlab_sd::spi::hal::{Delay, Wires};
use flashlab_sim::Duration;

struct NoClock;

impl TimeSource for NoClock {
    fn get_timestamp(&self) -> Timestamp {
        Timestamp::from_fat(0x5021, 0)
    }
}

fn driver(wires: &Wires) -> SdCard<Wires, Delay> {
    SdCard::new(wires.clone(), wires.delay())
}

#[test]
fn fat_is_mounted_written_read_back_and_deleted_on_small_and_large_cards() {
    for capacity in [64 * MIB, 4 * GIB] {
        let (card, bytes) = card(capacity, &[]);
        format(&bytes, 64 * MIB);
        let wires = wires(card);
        let manager = VolumeManager::new(driver(&wires), NoClock);
        let volume = manager.open_volume(VolumeIdx(0)).expect("a FAT partition");
        let root = volume.open_root_dir().expect("a directory");
        let mut text = [0; 32];
        let file = root.open_file_in_dir("HELLO.TXT", Mode::ReadOnly).expect("it is there");
        let length = file.read(&mut text).expect("it can be read");
        assert_eq!(&text[..length], b"from a PC");
        file.close().expect("it closes");

        let data: Vec<u8> = (0..100_000u32).map(|n| (n ^ n >> 8) as u8).collect();
        let file = root.open_file_in_dir("LOG.BIN", Mode::ReadWriteCreate).expect("it is new");
        data.chunks(1000).for_each(|part| file.write(part).expect("there is room"));
        file.close().expect("it closes");
        let file = root.open_file_in_dir("LOG.BIN", Mode::ReadOnly).expect("it is there");
        let mut back = vec![0; data.len()];
        let mut at = 0;
        while at < back.len() {
            at += file.read(&mut back[at..]).expect("it can be read");
        }
        assert!(back == data, "the read data differs from the written data");
        file.close().expect("it closes");
        root.delete_entry_in_dir("LOG.BIN").expect("it can be deleted");
        assert!(root.open_file_in_dir("LOG.BIN", Mode::ReadOnly).is_err());
    }
}

#[test]
fn several_blocks_at_a_time_are_written_and_read_back() {
    let (card, bytes) = card(4 * GIB, &[]);
    let wires = wires(card);
    let driver = driver(&wires);
    assert_eq!(driver.num_bytes().expect("it has a CSD"), 4 * GIB);
    let blocks: Vec<Block> =
        (0..40u8).map(|n| Block { contents: core::array::from_fn(|at| n ^ at as u8) }).collect();
    driver.write(&blocks, BlockIdx(1000)).expect("it can be written");
    let mut back = vec![Block::new(); 40];
    driver.read(&mut back, BlockIdx(1000)).expect("it can be read");
    assert!(back.iter().zip(&blocks).all(|(back, block)| back.contents == block.contents));
    let mut stored = vec![0; 512];
    flashlab_sim::Store::read(&bytes, 1039 * 512, &mut stored).expect("the range is within the card");
    assert_eq!(stored, blocks[39].contents);
    // A block takes 515 bytes of 320 ns on the bus each way, plus the bytes in between.
    let took = wires.borrow().now().since(flashlab_sim::Instant::ZERO);
    assert!(took > Duration::from_us(40 * 2 * 164), "{took}");
}

#[test]
fn quirks_of_real_cards_are_handled_or_reported() {
    let attempt = |quirk: &str| {
        let (card, _) = card(4 * GIB, &[quirk]);
        let wires = wires(card);
        let driver = driver(&wires);
        let written = driver.write(&[Block::new()], BlockIdx(5));
        written.and_then(|()| driver.write(&[Block::new()], BlockIdx(5000)))
    };
    for borne in ["reset-retries=3", "garbage-before-response", "busy=400ms", "low-before-reset"] {
        assert!(attempt(borne).is_ok(), "{borne}: {:?}", attempt(borne));
    }
    assert!(matches!(attempt("no-crc-mode"), Err(SdCardError::CantEnableCRC)));
    assert!(matches!(attempt("busy=600ms"), Err(SdCardError::TimeoutWaitNotBusy)));
    assert!(matches!(attempt("silent"), Err(SdCardError::CardNotFound)));
    assert!(matches!(attempt("stuck-busy"), Err(SdCardError::TimeoutWaitNotBusy)));
    assert!(matches!(attempt("write-crc=1"), Err(SdCardError::WriteError)));
    assert!(matches!(attempt("read-only"), Err(SdCardError::WriteError)));
    assert!(attempt("remove@CMD24#2").is_err());
}

#[test]
fn damaged_and_missing_data_are_distinguished() {
    let attempt = |quirk: &str| {
        let (card, _) = card(4 * GIB, &[quirk]);
        let wires = wires(card);
        driver(&wires).read(&mut [Block::new()], BlockIdx(5)).expect_err("it cannot be read")
    };
    assert!(matches!(attempt("read-crc=1"), SdCardError::CrcError(..)));
    assert!(matches!(attempt("no-data"), SdCardError::TimeoutReadBuffer));
}
