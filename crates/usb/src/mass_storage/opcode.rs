//! Operation codes, by the names of SPC-4 and SBC-3; READ FORMAT CAPACITIES is in MMC-6. The number after a name is the
//! length of the command descriptor block.

pub(super) const TEST_UNIT_READY: u8 = 0x00;
pub(super) const REQUEST_SENSE: u8 = 0x03;
pub(super) const READ_6: u8 = 0x08;
pub(super) const WRITE_6: u8 = 0x0a;
pub(super) const INQUIRY: u8 = 0x12;
pub(super) const MODE_SENSE_6: u8 = 0x1a;
pub(super) const START_STOP_UNIT: u8 = 0x1b;
pub(super) const PREVENT_ALLOW_MEDIUM_REMOVAL: u8 = 0x1e;
pub(super) const READ_FORMAT_CAPACITIES: u8 = 0x23;
pub(super) const READ_CAPACITY_10: u8 = 0x25;
pub(super) const READ_10: u8 = 0x28;
pub(super) const WRITE_10: u8 = 0x2a;
pub(super) const VERIFY_10: u8 = 0x2f;
pub(super) const SYNCHRONIZE_CACHE_10: u8 = 0x35;
pub(super) const UNMAP: u8 = 0x42;
pub(super) const MODE_SENSE_10: u8 = 0x5a;
pub(super) const READ_16: u8 = 0x88;
pub(super) const WRITE_16: u8 = 0x8a;
pub(super) const VERIFY_16: u8 = 0x8f;
pub(super) const SYNCHRONIZE_CACHE_16: u8 = 0x91;
pub(super) const SERVICE_ACTION_IN_16: u8 = 0x9e;
pub(super) const REPORT_LUNS: u8 = 0xa0;
pub(super) const READ_12: u8 = 0xa8;
pub(super) const WRITE_12: u8 = 0xaa;
pub(super) const VERIFY_12: u8 = 0xaf;

/// Service action of [`SERVICE_ACTION_IN_16`].
pub(super) const READ_CAPACITY_16: u8 = 0x10;
