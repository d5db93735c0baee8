//! The golden images: volumes of version 3 open for ever, and the same requests give the same bytes.

use crate::pool;
use crate::pool::{BLOCK, disks, encrypted, open, open_with, options, options_for, run};
use flashlab_block::Io;
use flashlab_block::conformance::{execute, read};
use flashlab_block::crash::{Disk, Image};
use flashlab_volume::encode::Compressor;
use flashlab_volume::format::{Superblock, copy_offsets};
use flashlab_volume::{OpenOptions, Options};
use std::fmt::Write;

/// The bytes of the golden images that are not zero, with their names.
const GOLDEN: [(&str, &str); 2] = [
    ("volume-3.hex", include_str!("../golden/volume-3.hex")),
    ("volume-3-encrypted.hex", include_str!("../golden/volume-3-encrypted.hex")),
];
/// Bytes in a line of a golden image.
const LINE: usize = 32;

/// Returns the size of the volume in a golden image.
fn size(golden: &str) -> u64 {
    Superblock::decode(&from_text(golden).to_vec()).expect("a sound superblock").size
}

/// Creates a volume of `size` bytes with compressed, uncompressed and partly replaced extents, and entries
/// behind its checkpoint.
fn create(base: Options, size: u64) -> Disk {
    let disks = disks(1);
    let options = Options { compression: Compressor::Lz4, size, ..base };
    pool::format(&disks, &options).expect("disks of the right size");
    let volume =
        open_with(&disks, OpenOptions { salt: [9; 16], ..options_for(&disks) }).expect("a new volume");
    let write = |offset: u64, data: Vec<u8>| {
        assert!(execute(&volume, Io::Write { offset, data: data.into(), durable: false }).is_ok());
    };
    let noise = |length: u64, seed: u64| -> Vec<u8> {
        (0..length).map(|n| flashlab_sim::mix(n ^ seed << 32) as u8).collect()
    };
    write(0, vec![1; 4096]);
    write(8192, noise(3072, 1));
    write(1024, noise(512, 2));
    let closing = volume.clone();
    run(|cx| async move { closing.close(&cx).await }).expect("disks that work");
    write(8192 + BLOCK, noise(512, 3));
    assert!(execute(&volume, Io::Discard { offset: 3584, length: 512, durable: true }).is_ok());
    disks[0].clone()
}

fn contents(disk: Disk) -> Vec<u8> {
    read(&open(&[disk]).expect("a sound volume"), 0, 16 << 10)
}

fn to_text(image: &Image) -> String {
    let mut text = String::new();
    for (n, line) in image.to_vec().chunks(LINE).enumerate().filter(|(_, line)| line.iter().any(|b| *b != 0))
    {
        write!(text, "{:06x} ", n * LINE).expect("a string takes everything");
        line.iter().for_each(|byte| write!(text, "{byte:02x}").expect("a string takes everything"));
        text.push('\n');
    }
    text
}

fn from_text(text: &str) -> Image {
    let mut image = Image::new(crate::pool::MEMBER);
    for line in text.lines() {
        let (offset, hex) = line.split_once(' ').expect("an offset and bytes");
        let byte = |n: usize| u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).expect("two hex digits");
        let bytes: Vec<u8> = (0..LINE).map(byte).collect();
        image.write(u64::from_str_radix(offset, 16).expect("a hex offset"), &bytes);
    }
    image
}

#[test]
fn volumes_of_version_3_open_with_their_contents() {
    for ((_, golden), base) in GOLDEN.into_iter().zip([options(), encrypted()]) {
        let (golden, size) = (Disk::new(from_text(golden), BLOCK), size(golden));
        assert!(contents(golden) == contents(create(base, size)));
    }
}

/// The encoding of extents, records, entries and superblocks is fixed. A change of the bytes needs a new
/// version of the format. `FLASHLAB_WRITE_GOLDEN=1` writes the images of a new version.
#[test]
fn the_same_requests_give_the_bytes_of_version_3() {
    for ((name, golden), base) in GOLDEN.into_iter().zip([options(), encrypted()]) {
        let text = to_text(&create(base, size(golden)).image());
        if std::env::var_os("FLASHLAB_WRITE_GOLDEN").is_some() {
            let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
            std::fs::write(path, &text).expect("a writable checkout");
            continue;
        }
        let different = text.lines().zip(golden.lines()).find(|(new, golden)| new != golden);
        assert!(text == golden, "{name}: the bytes of the format changed: {different:?}");
    }
}

#[test]
fn a_volume_of_version_2_is_refused_by_name() {
    let mut image = create(options(), 0).image();
    for offset in copy_offsets(image.size()) {
        image.write(offset + 12, &2u32.to_le_bytes());
    }
    let error = open(&[Disk::new(image, BLOCK)]).map(drop).expect_err("another version").to_string();
    assert!(
        error.contains("format version 2, which this program cannot read: it knows version 3"),
        "{error}"
    );
}
