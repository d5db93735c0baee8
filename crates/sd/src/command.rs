//! What goes over the command line: commands, responses, the card status that most responses carry, and their frames.
//!
//! SD Physical Layer Specification, sections 4.7 (commands), 4.9 (responses) and 4.10.1 (card status). The frames are
//! those of eMMC too. What a busy signal behind a response (R1b) does, shows on DAT0, not here.

use crate::card::State;
use crate::crc::crc7;

/// A command as it lies between start bit and CRC7.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Command {
    /// 0 to 63.
    pub index: u8,
    /// Its 32 bits.
    pub argument: u32,
}

impl Command {
    /// Bytes on the wire, from the start bit to the end bit.
    pub const BYTES: usize = 6;

    /// CMD`index` with `argument`.
    pub const fn new(index: u8, argument: u32) -> Self {
        Command { index: index & 63, argument }
    }

    /// The frame: start bit, direction, index, argument, CRC7, end bit.
    pub fn to_bytes(&self) -> [u8; Command::BYTES] {
        framed(0x40 | self.index, self.argument)
    }

    /// The command of a frame; `None` where its CRC7 or one of its fixed bits is wrong.
    pub fn from_bytes(bytes: &[u8; Command::BYTES]) -> Option<Command> {
        let (index, argument) = unframed(bytes)?;
        (index & 0xc0 == 0x40).then_some(Command::new(index, argument))
    }
}

fn framed(first: u8, word: u32) -> [u8; 6] {
    let [a, b, c, d] = word.to_be_bytes();
    [first, a, b, c, d, crc7(&[first, a, b, c, d]) << 1 | 1]
}

fn unframed(bytes: &[u8; 6]) -> Option<(u8, u32)> {
    let right = bytes[5] == crc7(&bytes[..5]) << 1 | 1;
    right.then_some((bytes[0], u32::from_be_bytes([bytes[1], bytes[2], bytes[3], bytes[4]])))
}

/// What a card answers in native mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Response {
    /// The card status.
    R1(Status),
    /// CID or CSD, most significant byte first, its CRC7 and end bit included.
    R2([u8; 16]),
    /// The OCR.
    R3(u32),
    /// The published relative address, above 16 bits of the status.
    R6(u32),
    /// The voltage that was accepted, and the check pattern.
    R7(u32),
}

/// A response as it lies on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frame {
    /// 48 bits.
    Short([u8; 6]),
    /// 136 bits.
    Long([u8; 17]),
}

impl Response {
    /// The 32 bits of a short response; the first 32 of a long one.
    pub fn word(&self) -> u32 {
        match self {
            Response::R1(status) => status.0,
            Response::R2(bytes) => u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
            Response::R3(word) | Response::R6(word) | Response::R7(word) => *word,
        }
    }

    /// The frame that answers CMD`index`. R3 carries ones in the place of index and CRC7.
    pub fn to_frame(&self, index: u8) -> Frame {
        match self {
            Response::R2(bytes) => {
                let mut frame = [0x3f; 17];
                frame[1..].copy_from_slice(bytes);
                Frame::Long(frame)
            }
            Response::R3(ocr) => {
                let [a, b, c, d] = ocr.to_be_bytes();
                Frame::Short([0x3f, a, b, c, d, 0xff])
            }
            _ => Frame::Short(framed(index, self.word())),
        }
    }
}

impl Frame {
    /// The 32 bits of a short response, where index and CRC7 are right.
    pub fn short(&self, index: u8) -> Option<u32> {
        let Frame::Short(bytes) = self else { return None };
        unframed(bytes).filter(|(first, _)| *first == index).map(|(_, word)| word)
    }

    /// The 32 bits of a response without CRC7: the OCR.
    pub fn without_crc(&self) -> Option<u32> {
        match self {
            Frame::Short([0x3f, a, b, c, d, 0xff]) => Some(u32::from_be_bytes([*a, *b, *c, *d])),
            _ => None,
        }
    }

    /// The register of a long response, where its CRC7 is right.
    pub fn long(&self) -> Option<[u8; 16]> {
        let Frame::Long(frame) = self else { return None };
        let register: [u8; 16] = core::array::from_fn(|n| frame[n + 1]);
        (frame[0] == 0x3f && register[15] == crc7(&register[..15]) << 1 | 1).then_some(register)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Frame::Short(bytes) => bytes,
            Frame::Long(bytes) => bytes,
        }
    }

    /// Its bytes, to flip some.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Frame::Short(bytes) => bytes,
            Frame::Long(bytes) => bytes,
        }
    }
}

/// The card status: SD Physical Layer Specification, section 4.10.1.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Status(pub u32);

impl Status {
    /// The address is beyond the capacity.
    pub const OUT_OF_RANGE: Status = Status(1 << 31);
    /// The address does not go with the block length.
    pub const ADDRESS_ERROR: Status = Status(1 << 30);
    /// The block length cannot be had, or does not go with the data.
    pub const BLOCK_LEN_ERROR: Status = Status(1 << 29);
    /// The erase commands came in a wrong order.
    pub const ERASE_SEQ_ERROR: Status = Status(1 << 28);
    /// The selected blocks cannot be erased.
    pub const ERASE_PARAM: Status = Status(1 << 27);
    /// What is protected was to be written.
    pub const WP_VIOLATION: Status = Status(1 << 26);
    /// The card is locked.
    pub const CARD_IS_LOCKED: Status = Status(1 << 25);
    /// A password was wrong, or a lock command made no sense.
    pub const LOCK_UNLOCK_FAILED: Status = Status(1 << 24);
    /// The CRC7 of the command before was wrong.
    pub const COM_CRC_ERROR: Status = Status(1 << 23);
    /// The command before was not legal in the card's state.
    pub const ILLEGAL_COMMAND: Status = Status(1 << 22);
    /// The card's own error correction could not read the data.
    pub const CARD_ECC_FAILED: Status = Status(1 << 21);
    /// The controller failed.
    pub const CC_ERROR: Status = Status(1 << 20);
    /// Another, or an unknown error.
    pub const ERROR: Status = Status(1 << 19);
    /// What was written to the CSD is read-only, or turns back what cannot be.
    pub const CSD_OVERWRITE: Status = Status(1 << 16);
    /// A part of what was to be erased is protected and was left.
    pub const WP_ERASE_SKIP: Status = Status(1 << 15);
    /// The erase sequence was broken off by another command.
    pub const ERASE_RESET: Status = Status(1 << 13);
    /// The card takes data.
    pub const READY_FOR_DATA: Status = Status(1 << 8);
    /// An event of an extension function waits.
    pub const FX_EVENT: Status = Status(1 << 6);
    /// The card takes the next command as an application command, or took this one so.
    pub const APP_CMD: Status = Status(1 << 5);

    /// Bits of the card's state.
    const STATE_SHIFT: u32 = 9;
    /// All that are errors.
    pub const ERRORS: Status = Status(0xfdf9_a000 & !Status::CARD_IS_LOCKED.0);

    /// Whether all bits of `other` are set.
    pub const fn has(self, other: Status) -> bool {
        self.0 & other.0 == other.0
    }
    /// Whether any bit of `other` is set.
    pub const fn has_any(self, other: Status) -> bool {
        self.0 & other.0 != 0
    }
    /// With the bits of `other` too.
    #[must_use]
    pub const fn with(self, other: Status) -> Status {
        Status(self.0 | other.0)
    }
    /// Without the bits of `other`.
    #[must_use]
    pub const fn without(self, other: Status) -> Status {
        Status(self.0 & !other.0)
    }
    /// With the state in its field.
    #[must_use]
    pub const fn in_state(self, state: State) -> Status {
        Status(self.0 & !(0xf << Status::STATE_SHIFT) | state.number() << Status::STATE_SHIFT)
    }
    /// The field of the state.
    pub const fn state(self) -> Option<State> {
        State::from_number(self.0 >> Status::STATE_SHIFT & 0xf)
    }

    /// The 16 bits that an R6 has room for: bits 23, 22, 19 and 12 to 0.
    pub const fn short(self) -> u16 {
        (self.0 >> 8 & 0xc000 | self.0 >> 6 & 0x2000 | self.0 & 0x1fff) as u16
    }

    /// The byte R1 of SPI mode (section 7.3.2.1): idle, erase reset, illegal command, CRC, erase sequence, address,
    /// parameter, from bit 0 on.
    pub fn spi_r1(self) -> u8 {
        let bit = |set: bool, n: u32| u8::from(set) << n;
        bit(matches!(self.state(), Some(State::Idle)), 0)
            | bit(self.has(Status::ERASE_RESET), 1)
            | bit(self.has(Status::ILLEGAL_COMMAND), 2)
            | bit(self.has(Status::COM_CRC_ERROR), 3)
            | bit(self.has(Status::ERASE_SEQ_ERROR), 4)
            | bit(self.has(Status::ADDRESS_ERROR), 5)
            | bit(self.has_any(Status(Status::OUT_OF_RANGE.0 | Status::BLOCK_LEN_ERROR.0)), 6)
    }

    /// The two bytes R2 of SPI mode (section 7.3.2.3): R1, then locked, erase skip or lock failed, error, controller,
    /// ECC, write protection, erase parameter, out of range or CSD overwrite, from bit 0 on.
    pub fn spi_r2(self) -> [u8; 2] {
        let bit = |set: bool, n: u32| u8::from(set) << n;
        let second = bit(self.has(Status::CARD_IS_LOCKED), 0)
            | bit(self.has_any(Status(Status::WP_ERASE_SKIP.0 | Status::LOCK_UNLOCK_FAILED.0)), 1)
            | bit(self.has(Status::ERROR), 2)
            | bit(self.has(Status::CC_ERROR), 3)
            | bit(self.has(Status::CARD_ECC_FAILED), 4)
            | bit(self.has(Status::WP_VIOLATION), 5)
            | bit(self.has(Status::ERASE_PARAM), 6)
            | bit(self.has_any(Status(Status::OUT_OF_RANGE.0 | Status::CSD_OVERWRITE.0)), 7);
        [self.spi_r1(), second]
    }
}

impl core::fmt::Debug for Status {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Status({:08x})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_carry_the_checksums_of_the_specifications_examples() {
        // Section 4.5: CMD0, CMD17 with argument 0, and the response to CMD17.
        assert_eq!(Command::new(0, 0).to_bytes(), [0x40, 0, 0, 0, 0, 0x95]);
        assert_eq!(Command::new(17, 0).to_bytes()[5], 0b010_1010 << 1 | 1);
        let answer = Response::R1(Status(0x900)).to_frame(17);
        assert_eq!(answer.bytes()[5], 0b011_0011 << 1 | 1);
        assert_eq!(answer.short(17), Some(0x900));
        assert_eq!(answer.short(18), None, "it answers another command");
        assert_eq!(Command::from_bytes(&Command::new(8, 0x1aa).to_bytes()), Some(Command::new(8, 0x1aa)));
        assert_eq!(Command::from_bytes(&[0x48, 0, 0, 1, 0xaa, 0x85]), None);
    }

    #[test]
    fn a_status_is_told_in_fewer_bits_where_there_are_fewer() {
        let status = Status::default().in_state(State::Idle).with(Status::ILLEGAL_COMMAND);
        assert_eq!(status.spi_r1(), 0b101);
        assert_eq!(status.short(), 0x4000);
        let status = Status::default().in_state(State::Transfer).with(Status::WP_VIOLATION);
        assert_eq!(status.spi_r2(), [0, 1 << 5]);
    }
}
