//! Sense data: SPC-4, section 4.5.

use alloc::vec::Vec;

/// Sense key, additional sense code and its qualifier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sense {
    pub(super) key: u8,
    pub(super) code: u8,
    pub(super) qualifier: u8,
}

impl Sense {
    const fn new(key: u8, code: u8, qualifier: u8) -> Sense {
        Sense { key, code, qualifier }
    }

    pub(super) const NONE: Sense = Sense::new(0x0, 0x00, 0x00);
    pub(super) const BECOMING_READY: Sense = Sense::new(0x2, 0x04, 0x01);
    pub(super) const NO_MEDIUM: Sense = Sense::new(0x2, 0x3a, 0x00);
    pub(super) const WRITE_ERROR: Sense = Sense::new(0x3, 0x0c, 0x00);
    pub(super) const READ_ERROR: Sense = Sense::new(0x3, 0x11, 0x00);
    pub(super) const TARGET_FAILURE: Sense = Sense::new(0x4, 0x44, 0x00);
    pub(super) const PARAMETER_LIST_LENGTH: Sense = Sense::new(0x5, 0x1a, 0x00);
    pub(super) const INVALID_OPCODE: Sense = Sense::new(0x5, 0x20, 0x00);
    pub(super) const OUT_OF_RANGE: Sense = Sense::new(0x5, 0x21, 0x00);
    pub(super) const INVALID_FIELD: Sense = Sense::new(0x5, 0x24, 0x00);
    pub(super) const NO_SUCH_LUN: Sense = Sense::new(0x5, 0x25, 0x00);
    pub(super) const INVALID_PARAMETER: Sense = Sense::new(0x5, 0x26, 0x00);
    pub(super) const NOT_SAVED: Sense = Sense::new(0x5, 0x39, 0x00);
    pub(super) const RESET: Sense = Sense::new(0x6, 0x29, 0x00);
    pub(super) const WRITE_PROTECTED: Sense = Sense::new(0x7, 0x27, 0x00);

    /// Encodes the sense data in fixed format (table 53).
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::from([0; 18]);
        bytes[0] = 0x70;
        bytes[2] = self.key;
        bytes[7] = 10;
        bytes[12] = self.code;
        bytes[13] = self.qualifier;
        bytes
    }
}
