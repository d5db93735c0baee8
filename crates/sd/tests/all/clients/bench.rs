//! Cards for the drivers under test, and an image with a filesystem in a partition.

use flashlab_block::{Memory, Pages};
use flashlab_sd::quirk::Planned;
use flashlab_sd::spi::hal::Wires;
use flashlab_sd::spi::{ChipSelect, Spi};
use flashlab_sd::{Card, CardParameters, Identity};
use flashlab_sim::Store;
use std::io::{Cursor, Write};
use std::sync::Arc;

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;

/// Returns a card of `capacity` bytes with these quirks, and its bytes.
pub(crate) fn card(capacity: u64, quirks: &[&str]) -> (Card, Arc<Memory>) {
    let parameters = CardParameters::example(capacity);
    let mut identity = Identity::new(&parameters);
    // The card has extension registers.
    identity.scr.set_commands(0b0111);
    let bytes = Arc::new(Memory::new(capacity, Pages::Small).expect("a possible size"));
    let mut card = Card::new(parameters, identity, Some(Box::new(bytes.clone())), 1);
    for quirk in quirks {
        card.quirks_mut().add(quirk.parse::<Planned>().expect("it is a quirk"));
    }
    (card, bytes)
}

/// Connects the card to SPI wires at 25 MHz, and sends the clocks that it needs after power-up. A rising chip
/// select only pauses a transfer.
pub(crate) fn wires(card: Card) -> Wires {
    let wires = Wires::new(Spi::new(Some(card), 25_000_000).with_chip_select(ChipSelect::Pauses));
    wires.clock_unselected(10);
    wires
}

/// Byte offset of the partition.
pub(crate) const PARTITION: u64 = MIB;

/// Writes a partition table with one partition, which contains a FAT filesystem with a file, as a PC would.
pub(crate) fn format(bytes: &Arc<Memory>, length: u64) {
    let mut table = [0u8; 512];
    let (first, count) = ((PARTITION / 512) as u32, ((length - PARTITION) / 512) as u32);
    table[446 + 4] = 0x0c;
    table[446 + 8..446 + 12].copy_from_slice(&first.to_le_bytes());
    table[446 + 12..446 + 16].copy_from_slice(&count.to_le_bytes());
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    bytes.write(0, &table).expect("there is room");
    let mut image = Cursor::new(vec![0u8; (length - PARTITION) as usize]);
    fatfs::format_volume(&mut image, fatfs::FormatVolumeOptions::new()).expect("the volume is large enough");
    let filesystem =
        fatfs::FileSystem::new(&mut image, fatfs::FsOptions::new()).expect("the volume was just formatted");
    filesystem
        .root_dir()
        .create_file("HELLO.TXT")
        .expect("the name is new")
        .write_all(b"from a PC")
        .expect("room");
    filesystem.unmount().expect("the filesystem is consistent");
    bytes.write(PARTITION, image.get_ref()).expect("there is room");
}
