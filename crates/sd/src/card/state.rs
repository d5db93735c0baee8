//! The states of a card, and the states in which each command is legal: SD Physical Layer Specification, section 4.8
//! (table 4-35) and, for SPI mode, section 7.3.1.
//!
//! The table is the only place that defines the states in which a command is legal. The card decides the
//! effect of a legal command. A command is illegal too if its class is not in the CSD, if its support bit
//! is not set in the SCR, or if a locked card does not accept it.

/// State of a card, with its number in the card status. eMMC has the same states and two more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum State {
    /// The card is reset and waits for its initialisation.
    Idle,
    /// The card is initialised and waits for CMD2, which requests its identification.
    Ready,
    /// The card has sent its identification and waits for CMD3, which requests its address.
    Identification,
    /// The card has an address and is not selected.
    StandBy,
    /// The card is selected and idle.
    Transfer,
    /// The card sends data.
    SendingData,
    /// The card receives data.
    ReceiveData,
    /// The card programs or erases, and holds DAT0 low.
    Programming,
    /// The card programs or erases, and is deselected.
    Disconnect,
    /// The card does not respond until the power is cut. The card status has no number for this state.
    Inactive,
}

impl State {
    /// All states in the order of their numbers.
    pub const ALL: [State; 10] = [
        State::Idle,
        State::Ready,
        State::Identification,
        State::StandBy,
        State::Transfer,
        State::SendingData,
        State::ReceiveData,
        State::Programming,
        State::Disconnect,
        State::Inactive,
    ];

    /// Returns the number in the card status.
    pub const fn number(self) -> u32 {
        self as u32
    }
    /// Returns the state with a number in the card status.
    pub const fn from_number(number: u32) -> Option<State> {
        if number < State::Inactive as u32 { Some(State::ALL[number as usize]) } else { None }
    }
    /// Returns the short name that the specification uses.
    pub const fn name(self) -> &'static str {
        match self {
            State::Idle => "idle",
            State::Ready => "ready",
            State::Identification => "ident",
            State::StandBy => "stby",
            State::Transfer => "tran",
            State::SendingData => "data",
            State::ReceiveData => "rcv",
            State::Programming => "prg",
            State::Disconnect => "dis",
            State::Inactive => "ina",
        }
    }
}

/// States in which a command is legal, and its classes.
#[derive(Clone, Copy)]
pub(super) struct Legality {
    /// A bit for each state in native mode.
    native: u16,
    /// A bit for each state in SPI mode. SPI mode has the states idle and transfer, and the states of a transfer.
    spi: u16,
    /// Command classes, one of which the card must support; 0 if the command needs none.
    pub(super) classes: u16,
}

impl Legality {
    const NOWHERE: Legality = Legality { native: 0, spi: 0, classes: 0 };

    pub(super) const fn in_state(&self, state: State, spi: bool) -> bool {
        (if spi { self.spi } else { self.native }) >> state.number() & 1 == 1
    }
    pub(super) const fn exists(&self, spi: bool) -> bool {
        if spi { self.spi != 0 } else { self.native != 0 }
    }
}

/// Table row: index, classes, states in native mode, states in SPI mode.
type Row = (u8, &'static [u8], &'static [State], &'static [State]);

use crate::opcode;
use State::{
    Disconnect, Identification, Idle, Programming, Ready, ReceiveData, SendingData, StandBy, Transfer,
};

const SELECTED: &[State] = &[Transfer];
const ADDRESSED: &[State] = &[StandBy, Transfer, SendingData, ReceiveData, Programming, Disconnect];
const ANY: &[State] =
    &[Idle, Ready, Identification, StandBy, Transfer, SendingData, ReceiveData, Programming, Disconnect];
const NONE: &[State] = &[];

#[rustfmt::skip]
const COMMANDS: &[Row] = &[
    (opcode::GO_IDLE_STATE, &[0], ANY, ANY),
    (opcode::SEND_OP_COND, &[0], NONE, &[Idle]),
    (opcode::ALL_SEND_CID, &[0], &[Ready], NONE),
    (opcode::SEND_RELATIVE_ADDR, &[0], &[Identification, StandBy], NONE),
    (opcode::SET_DSR, &[0], &[StandBy], NONE),
    (opcode::SWITCH_FUNC, &[10], SELECTED, SELECTED),
    (opcode::SELECT_CARD, &[0], &[StandBy, Transfer, SendingData, Programming, Disconnect], NONE),
    (opcode::SEND_IF_COND, &[0], &[Idle], &[Idle]),
    (opcode::SEND_CSD, &[0], &[StandBy], SELECTED),
    (opcode::SEND_CID, &[0], &[StandBy], SELECTED),
    (opcode::VOLTAGE_SWITCH, &[0], &[Ready], NONE),
    (opcode::STOP_TRANSMISSION, &[0], &[SendingData, ReceiveData], &[Transfer, SendingData, ReceiveData]),
    (opcode::SEND_STATUS, &[0], ADDRESSED, &[Transfer, SendingData, ReceiveData, Programming]),
    (opcode::GO_INACTIVE_STATE, &[0], ADDRESSED, NONE),
    (opcode::SET_BLOCKLEN, &[2, 4, 7], SELECTED, SELECTED),
    (opcode::READ_SINGLE_BLOCK, &[2], SELECTED, SELECTED),
    (opcode::READ_MULTIPLE_BLOCK, &[2], SELECTED, SELECTED),
    (opcode::SEND_TUNING_BLOCK, &[2], SELECTED, NONE),
    (opcode::SPEED_CLASS_CONTROL, &[2, 4], SELECTED, NONE),
    (opcode::ADDRESS_EXTENSION, &[2, 4, 5], SELECTED, NONE),
    (opcode::SET_BLOCK_COUNT, &[2, 4], SELECTED, NONE),
    (opcode::WRITE_BLOCK, &[4], SELECTED, SELECTED),
    (opcode::WRITE_MULTIPLE_BLOCK, &[4], SELECTED, SELECTED),
    (opcode::PROGRAM_CSD, &[4], SELECTED, SELECTED),
    (opcode::SET_WRITE_PROT, &[6], SELECTED, SELECTED),
    (opcode::CLR_WRITE_PROT, &[6], SELECTED, SELECTED),
    (opcode::SEND_WRITE_PROT, &[6], SELECTED, SELECTED),
    (opcode::ERASE_WR_BLK_START, &[5], SELECTED, SELECTED),
    (opcode::ERASE_WR_BLK_END, &[5], SELECTED, SELECTED),
    (opcode::ERASE, &[5], SELECTED, SELECTED),
    (opcode::LOCK_UNLOCK, &[7], SELECTED, SELECTED),
    (opcode::READ_EXTR_SINGLE, &[], SELECTED, SELECTED),
    (opcode::WRITE_EXTR_SINGLE, &[], SELECTED, SELECTED),
    (opcode::APP_CMD, &[8], &[Idle, StandBy, Transfer, SendingData, ReceiveData, Programming, Disconnect], ANY),
    (opcode::GEN_CMD, &[8], SELECTED, SELECTED),
    // In native mode CMD58 and CMD59 transfer several blocks of extension registers. The
    // card does not support them, and its SCR says so.
    (opcode::READ_OCR, &[], NONE, &[Idle, Transfer]),
    (opcode::CRC_ON_OFF, &[], NONE, &[Idle, Transfer]),
];

#[rustfmt::skip]
const APPLICATION_COMMANDS: &[Row] = &[
    (opcode::app::SET_BUS_WIDTH, &[8], SELECTED, NONE),
    (opcode::app::SD_STATUS, &[8], SELECTED, SELECTED),
    (opcode::app::SEND_NUM_WR_BLOCKS, &[8], SELECTED, SELECTED),
    (opcode::app::SET_WR_BLK_ERASE_COUNT, &[8], SELECTED, SELECTED),
    (opcode::app::SD_SEND_OP_COND, &[8], &[Idle], &[Idle, Transfer]),
    (opcode::app::SET_CLR_CARD_DETECT, &[8], SELECTED, SELECTED),
    (opcode::app::SEND_SCR, &[8], SELECTED, SELECTED),
];

const fn by_index(rows: &[Row]) -> [Legality; 64] {
    const fn mask(states: &[State]) -> u16 {
        let (mut mask, mut n) = (0, 0);
        while n < states.len() {
            mask |= 1 << states[n].number();
            n += 1;
        }
        mask
    }
    let mut table = [Legality::NOWHERE; 64];
    let mut n = 0;
    while n < rows.len() {
        let (index, classes, native, spi) = rows[n];
        let (mut of, mut class) = (0, 0);
        while class < classes.len() {
            of |= 1 << classes[class];
            class += 1;
        }
        table[index as usize] = Legality { native: mask(native), spi: mask(spi), classes: of };
        n += 1;
    }
    table
}

static BY_INDEX: [Legality; 64] = by_index(COMMANDS);
static APPLICATION_BY_INDEX: [Legality; 64] = by_index(APPLICATION_COMMANDS);

/// Returns the states in which CMD`index` or ACMD`index` is legal.
#[inline]
pub(super) fn legality(index: u8, application: bool) -> &'static Legality {
    let table = if application { &APPLICATION_BY_INDEX } else { &BY_INDEX };
    &table[usize::from(index & 63)]
}
