//! Data of the commands that describe the stick.
//!
//! INQUIRY and its vital product data follow SPC-4, sections 6.4 and 7.8. Mode pages follow SPC-4, section
//! 7.5, and SBC-3, section 6.4. Capacities follow SBC-3, sections 5.15 and 5.16.

use super::command::ModeQuery;
use super::sense::Sense;
use super::{Identity, UNMAP_BLOCKS_MAX, UNMAP_DESCRIPTORS_MAX};
use alloc::vec::Vec;

/// Returns `text` in a field of `width` bytes, padded with spaces. Characters other than printable ASCII
/// become `?`.
fn field(text: &str, width: usize) -> impl Iterator<Item = u8> + '_ {
    let printable =
        text.chars().map(|character| if matches!(character, ' '..='~') { character as u8 } else { b'?' });
    printable.chain(core::iter::repeat(b' ')).take(width)
}

/// Returns the standard INQUIRY data: a removable disk that conforms to SPC-4.
pub(super) fn inquiry(identity: &Identity) -> Vec<u8> {
    let mut bytes = Vec::from([0x00, 0x80, 0x06, 0x02, 31, 0, 0, 0]);
    bytes.extend(field(&identity.vendor, 8));
    bytes.extend(field(&identity.product, 16));
    bytes.extend(field(&identity.revision, 4));
    bytes
}

/// Returns a page of vital product data.
pub(super) fn vital_product_data(page: u8, identity: &Identity) -> Result<Vec<u8>, Sense> {
    let mut data = Vec::new();
    match page {
        0x00 => data.extend([0x00, 0x80, 0x83, 0xb0, 0xb1, 0xb2]),
        0x80 => data.extend(field(&identity.serial, identity.serial.chars().count().min(64))),
        0x83 => {
            let mut name: Vec<u8> = field(&identity.vendor, 8).collect();
            name.extend(field(&identity.product, 16));
            name.extend(field(&identity.serial, identity.serial.chars().count().min(64)));
            // The designator is ASCII and has the type "T10 vendor identification".
            data.extend([2, 1, 0, name.len() as u8]);
            data.append(&mut name);
        }
        // Block limits.
        0xb0 => {
            data.resize(60, 0);
            data[16..20].copy_from_slice(&UNMAP_BLOCKS_MAX.to_be_bytes());
            data[20..24].copy_from_slice(&UNMAP_DESCRIPTORS_MAX.to_be_bytes());
        }
        // Block device characteristics: the medium does not rotate.
        0xb1 => {
            data.resize(60, 0);
            data[1] = 1;
        }
        // Logical block provisioning: UNMAP is supported.
        0xb2 => data.extend([0, 0x80, 0, 0]),
        _ => return Err(Sense::INVALID_FIELD),
    }
    let [high, low] = (data.len() as u16).to_be_bytes();
    let mut bytes = Vec::from([0x00, page, high, low]);
    bytes.append(&mut data);
    Ok(bytes)
}

const CACHING: u8 = 0x08;
const ALL_PAGES: u8 = 0x3f;
const CONTROL_CHANGEABLE: u8 = 1;
const CONTROL_SAVED: u8 = 3;

/// Returns the mode parameters: the header and the caching page. The page announces a write cache that cannot
/// be turned off.
pub(super) fn mode_sense(query: ModeQuery, read_only: bool) -> Result<Vec<u8>, Sense> {
    if query.control == CONTROL_SAVED {
        return Err(Sense::NOT_SAVED);
    }
    if !matches!(query.page, CACHING | ALL_PAGES) || !matches!(query.subpage, 0 | 0xff) {
        return Err(Sense::INVALID_FIELD);
    }
    let mut page = Vec::from([CACHING, 18]);
    page.resize(20, 0);
    if query.control != CONTROL_CHANGEABLE {
        // WCE: the write cache is on.
        page[2] = 4;
    }
    // WP (write protection) and DPOFUA (support of the bits DPO and FUA).
    let device = if read_only { 0x80 } else { 0x00 } | 0x10;
    let mut bytes = if query.long {
        Vec::from([0, (page.len() + 6) as u8, 0, device, 0, 0, 0, 0])
    } else {
        Vec::from([(page.len() + 3) as u8, 0, device, 0])
    };
    bytes.append(&mut page);
    Ok(bytes)
}

/// Returns the answer to READ CAPACITY(10). If the last block exceeds 32 bits, the answer makes the host send
/// READ CAPACITY(16).
pub(super) fn capacity_10(blocks: u64, block: u32) -> Vec<u8> {
    let last = u32::try_from(blocks.saturating_sub(1)).unwrap_or(u32::MAX);
    [last.to_be_bytes(), block.to_be_bytes()].concat()
}

/// Returns the answer to READ CAPACITY(16), which announces UNMAP.
pub(super) fn capacity_16(blocks: u64, block: u32) -> Vec<u8> {
    let mut bytes = Vec::from(blocks.saturating_sub(1).to_be_bytes());
    bytes.extend(block.to_be_bytes());
    bytes.resize(32, 0);
    bytes[14] = 0x80;
    bytes
}

/// Returns the answer to READ FORMAT CAPACITIES (MMC-5, section 6.22): one descriptor of formatted media.
pub(super) fn format_capacities(blocks: u64, block: u32) -> Vec<u8> {
    let mut bytes = Vec::from([0, 0, 0, 8]);
    bytes.extend(u32::try_from(blocks).unwrap_or(u32::MAX).to_be_bytes());
    bytes.extend((block & 0xff_ffff | 2 << 24).to_be_bytes());
    bytes
}

/// Returns the answer to REPORT LUNS: logical unit 0.
pub(super) fn luns() -> Vec<u8> {
    let mut bytes = Vec::from([0; 16]);
    bytes[3] = 8;
    bytes
}
