//! Commands and responses, the card status that most responses carry, and the frames on the CMD line.
//!
//! Source: SD Physical Layer Specification, sections 4.7 (commands), 4.9 (responses) and 4.10.1 (card status). eMMC
//! uses the same frames. The busy signal after a response (R1b) is on DAT0 and is not modelled here.

use crate::card::State;
use crate::crc::crc7;

/// Content of a command frame: index and argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Command {
    /// Command index: 0 to 63.
    pub index: u8,
    /// The 32-bit argument.
    pub argument: u32,
}

impl Command {
    /// Bytes on the wire, from the start bit to the end bit.
    pub const BYTES: usize = 6;

    /// Creates CMD`index` with `argument`.
    pub const fn new(index: u8, argument: u32) -> Self {
        Command { index: index & 63, argument }
    }

    /// Encodes the frame: start bit, direction, index, argument, CRC7, end bit.
    pub fn to_bytes(&self) -> [u8; Command::BYTES] {
        framed(0x40 | self.index, self.argument)
    }

    /// Decodes a frame. Returns `None` if its CRC7 or one of its fixed bits is wrong.
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

/// Response of a card, as native mode encodes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Response {
    /// The card status.
    R1(Status),
    /// CID or CSD, most significant byte first, including its CRC7 and end bit.
    R2([u8; 16]),
    /// The OCR.
    R3(u32),
    /// The published relative address in the upper 16 bits, 16 bits of the card status in the lower.
    R6(u32),
    /// The accepted voltage and the check pattern.
    R7(u32),
}

/// Frame of a response on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frame {
    /// 48 bits.
    Short([u8; 6]),
    /// 136 bits.
    Long([u8; 17]),
}

impl Response {
    /// Returns the 32 bits of a short response, or the first 32 bits of a long one.
    pub fn word(&self) -> u32 {
        match self {
            Response::R1(status) => status.0,
            Response::R2(bytes) => u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
            Response::R3(word) | Response::R6(word) | Response::R7(word) => *word,
        }
    }

    /// Encodes the frame that answers CMD`index`. R2 and R3 frames have ones in place of the index. An R3
    /// frame also has ones in place of the CRC7.
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
    /// Returns the 32 bits of a short response if its index and CRC7 are correct.
    pub fn short(&self, index: u8) -> Option<u32> {
        let Frame::Short(bytes) = self else { return None };
        unframed(bytes).filter(|(first, _)| *first == index).map(|(_, word)| word)
    }

    /// Returns the 32 bits of a response without CRC7 (R3, the OCR).
    pub fn without_crc(&self) -> Option<u32> {
        match self {
            Frame::Short([0x3f, a, b, c, d, 0xff]) => Some(u32::from_be_bytes([*a, *b, *c, *d])),
            _ => None,
        }
    }

    /// Returns the register of a long response if its CRC7 is correct.
    pub fn long(&self) -> Option<[u8; 16]> {
        let Frame::Long(frame) = self else { return None };
        let register: [u8; 16] = core::array::from_fn(|n| frame[n + 1]);
        (frame[0] == 0x3f && register[15] == crc7(&register[..15]) << 1 | 1).then_some(register)
    }

    /// Returns the bytes of the frame.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Frame::Short(bytes) => bytes,
            Frame::Long(bytes) => bytes,
        }
    }

    /// Returns the bytes of the frame for modification, for example to inject bit errors.
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
    /// The address is beyond the capacity of the card.
    pub const OUT_OF_RANGE: Status = Status(1 << 31);
    /// The address is not aligned to the block length.
    pub const ADDRESS_ERROR: Status = Status(1 << 30);
    /// The block length is not supported, or does not match the data.
    pub const BLOCK_LEN_ERROR: Status = Status(1 << 29);
    /// The erase commands arrived in a wrong order.
    pub const ERASE_SEQ_ERROR: Status = Status(1 << 28);
    /// The selected blocks cannot be erased.
    pub const ERASE_PARAM: Status = Status(1 << 27);
    /// The host tried to write a protected block.
    pub const WP_VIOLATION: Status = Status(1 << 26);
    /// The card is locked.
    pub const CARD_IS_LOCKED: Status = Status(1 << 25);
    /// The password was wrong, or a lock command was malformed.
    pub const LOCK_UNLOCK_FAILED: Status = Status(1 << 24);
    /// The CRC7 of the previous command was wrong.
    pub const COM_CRC_ERROR: Status = Status(1 << 23);
    /// The previous command was not legal in the card's state.
    pub const ILLEGAL_COMMAND: Status = Status(1 << 22);
    /// The card's own error correction could not read the data.
    pub const CARD_ECC_FAILED: Status = Status(1 << 21);
    /// The controller failed.
    pub const CC_ERROR: Status = Status(1 << 20);
    /// A general or unknown error.
    pub const ERROR: Status = Status(1 << 19);
    /// A write of the CSD would change its read-only section, or clear a bit that can only be set.
    pub const CSD_OVERWRITE: Status = Status(1 << 16);
    /// The erase skipped blocks that are write-protected.
    pub const WP_ERASE_SKIP: Status = Status(1 << 15);
    /// Another command cancelled the erase sequence.
    pub const ERASE_RESET: Status = Status(1 << 13);
    /// The card is ready to receive data.
    pub const READY_FOR_DATA: Status = Status(1 << 8);
    /// The card expects an application command next, or has interpreted this command as one.
    pub const APP_CMD: Status = Status(1 << 5);

    /// Position of the field that holds the card's state.
    const STATE_SHIFT: u32 = 9;
    /// The error bits of SD except AKE_SEQ_ERROR.
    pub const ERRORS: Status = Status(0xfdf9_a000);

    /// Returns true if all bits of `other` are set.
    pub const fn has(self, other: Status) -> bool {
        self.0 & other.0 == other.0
    }
    /// Returns true if any bit of `other` is set.
    pub const fn has_any(self, other: Status) -> bool {
        self.0 & other.0 != 0
    }
    /// Returns the status with the bits of `other` set.
    #[must_use]
    pub const fn with(self, other: Status) -> Status {
        Status(self.0 | other.0)
    }
    /// Returns the status with the bits of `other` cleared.
    #[must_use]
    pub const fn without(self, other: Status) -> Status {
        Status(self.0 & !other.0)
    }
    /// Returns the status with `state` in the state field.
    #[must_use]
    pub const fn in_state(self, state: State) -> Status {
        Status(self.0 & !(0xf << Status::STATE_SHIFT) | state.number() << Status::STATE_SHIFT)
    }
    /// Returns the state field, or `None` if its value is reserved.
    pub const fn state(self) -> Option<State> {
        State::from_number(self.0 >> Status::STATE_SHIFT & 0xf)
    }

    /// Returns the 16 status bits that an R6 contains: bits 23, 22, 19 and 12 to 0.
    pub const fn short(self) -> u16 {
        (self.0 >> 8 & 0xc000 | self.0 >> 6 & 0x2000 | self.0 & 0x1fff) as u16
    }

    /// Encodes the byte R1 of SPI mode (section 7.3.2.1). From bit 0 on: idle, erase reset, illegal command, CRC, erase
    /// sequence, address, parameter.
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

    /// Encodes the two bytes R2 of SPI mode (section 7.3.2.3): R1, then a second byte. From bit 0 on: locked, erase
    /// skip or lock failed, error, controller, ECC, write protection, erase parameter, out of range or CSD overwrite.
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
    use crate::opcode;

    #[test]
    fn frames_carry_the_checksums_of_the_specifications_examples() {
        // Section 4.5: CMD0, CMD17 with argument 0, and the response to CMD17.
        assert_eq!(Command::new(opcode::GO_IDLE_STATE, 0).to_bytes(), [0x40, 0, 0, 0, 0, 0x95]);
        assert_eq!(Command::new(opcode::READ_SINGLE_BLOCK, 0).to_bytes()[5], 0b010_1010 << 1 | 1);
        let answer = Response::R1(Status(0x900)).to_frame(opcode::READ_SINGLE_BLOCK);
        assert_eq!(answer.bytes()[5], 0b011_0011 << 1 | 1);
        assert_eq!(answer.short(opcode::READ_SINGLE_BLOCK), Some(0x900));
        assert_eq!(answer.short(opcode::READ_MULTIPLE_BLOCK), None, "the frame answers CMD17");
        assert_eq!(
            Command::from_bytes(&Command::new(opcode::SEND_IF_COND, 0x1aa).to_bytes()),
            Some(Command::new(opcode::SEND_IF_COND, 0x1aa))
        );
        assert_eq!(Command::from_bytes(&[0x48, 0, 0, 1, 0xaa, 0x85]), None);
    }

    #[test]
    fn status_is_condensed_for_r6_and_spi() {
        let status = Status::default().in_state(State::Idle).with(Status::ILLEGAL_COMMAND);
        assert_eq!(status.spi_r1(), 0b101);
        assert_eq!(status.short(), 0x4000);
        let status = Status::default().in_state(State::Transfer).with(Status::WP_VIOLATION);
        assert_eq!(status.spi_r2(), [0, 1 << 5]);
    }
}
