//! What goes over the command line: commands, responses, and the card status that most responses carry.

/// A command as it lies between start bit and CRC7.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Command {
    /// 0 to 63.
    pub index: u8,
    /// Its 32 bits.
    pub argument: u32,
}

impl Command {
    /// CMD`index` with `argument`.
    pub const fn new(index: u8, argument: u32) -> Self {
        Command { index: index & 63, argument }
    }
}

/// What a card answers in native mode. A busy signal behind it (R1b) shows on DAT0, not here.
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

impl Response {
    /// The 32 bits of a short response; the first 32 of a long one.
    pub fn word(&self) -> u32 {
        match self {
            Response::R1(status) => status.0,
            Response::R2(bytes) => u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
            Response::R3(word) | Response::R6(word) | Response::R7(word) => *word,
        }
    }
}

/// The card status: SD Physical Layer Specification, section 4.10.1.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Status(pub u32);

impl core::fmt::Debug for Status {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Status({:08x})", self.0)
    }
}
