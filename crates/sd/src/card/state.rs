//! The states of a card, and the states in which each command is legal: SD Physical Layer Specification, section 4.8
//! (table 4-35) and, for SPI mode, section 7.3.1.
//!
//! The table is the only place that defines legality. The card decides the effect of a legal command. A command whose
//! class is not in the CSD, or whose support bit is not set in the SCR, is illegal too.

/// State of a card, with its number in the card status. eMMC has the same states and two more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum State {
    /// The card is reset and waits for its initialization.
    Idle,
    /// The card is initialized and waits for CMD2, which requests its identification.
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
    /// Returns the short name of the specification.
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

/// States in which a command is legal.
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
    // GO_IDLE_STATE
    (0, &[0], ANY, ANY),
    // SEND_OP_COND (SPI)
    (1, &[0], NONE, &[Idle]),
    // ALL_SEND_CID
    (2, &[0], &[Ready], NONE),
    // SEND_RELATIVE_ADDR
    (3, &[0], &[Identification, StandBy], NONE),
    // SET_DSR
    (4, &[0], &[StandBy], NONE),
    // SWITCH_FUNC
    (6, &[10], SELECTED, SELECTED),
    // SELECT/DESELECT_CARD
    (7, &[0], &[StandBy, Transfer, SendingData, Programming, Disconnect], NONE),
    // SEND_IF_COND
    (8, &[0], &[Idle], &[Idle]),
    // SEND_CSD, SEND_CID
    (9, &[0], &[StandBy], SELECTED),
    (10, &[0], &[StandBy], SELECTED),
    // VOLTAGE_SWITCH
    (11, &[0], &[Ready], NONE),
    // STOP_TRANSMISSION
    (12, &[0], &[SendingData, ReceiveData], &[Transfer, SendingData, ReceiveData]),
    // SEND_STATUS
    (13, &[0], ADDRESSED, &[Transfer, SendingData, ReceiveData, Programming]),
    // GO_INACTIVE_STATE
    (15, &[0], ADDRESSED, NONE),
    // SET_BLOCKLEN
    (16, &[2, 4, 7], SELECTED, SELECTED),
    // READ_SINGLE_BLOCK, READ_MULTIPLE_BLOCK
    (17, &[2], SELECTED, SELECTED),
    (18, &[2], SELECTED, SELECTED),
    // SEND_TUNING_BLOCK
    (19, &[2], SELECTED, NONE),
    // SPEED_CLASS_CONTROL
    (20, &[2, 4], SELECTED, NONE),
    // ADDRESS_EXTENSION (SDUC)
    (22, &[2, 4, 5], SELECTED, NONE),
    // SET_BLOCK_COUNT
    (23, &[2, 4], SELECTED, NONE),
    // WRITE_BLOCK, WRITE_MULTIPLE_BLOCK
    (24, &[4], SELECTED, SELECTED),
    (25, &[4], SELECTED, SELECTED),
    // PROGRAM_CSD
    (27, &[4], SELECTED, SELECTED),
    // SET_WRITE_PROT, CLR_WRITE_PROT, SEND_WRITE_PROT
    (28, &[6], SELECTED, SELECTED),
    (29, &[6], SELECTED, SELECTED),
    (30, &[6], SELECTED, SELECTED),
    // ERASE_WR_BLK_START, ERASE_WR_BLK_END, ERASE
    (32, &[5], SELECTED, SELECTED),
    (33, &[5], SELECTED, SELECTED),
    (38, &[5], SELECTED, SELECTED),
    // LOCK_UNLOCK
    (42, &[7], SELECTED, SELECTED),
    // READ_EXTR_SINGLE, WRITE_EXTR_SINGLE
    (48, &[], SELECTED, SELECTED),
    (49, &[], SELECTED, SELECTED),
    // APP_CMD
    (55, &[8], &[Idle, StandBy, Transfer, SendingData, ReceiveData, Programming, Disconnect], ANY),
    // GEN_CMD
    (56, &[8], SELECTED, SELECTED),
    // READ_OCR, CRC_ON_OFF (SPI). In native mode CMD58 and CMD59 transfer several blocks of extension registers. The
    // card does not support them, and its SCR says so.
    (58, &[], NONE, &[Idle, Transfer]),
    (59, &[], NONE, &[Idle, Transfer]),
];

#[rustfmt::skip]
const APPLICATION_COMMANDS: &[Row] = &[
    // SET_BUS_WIDTH
    (6, &[8], SELECTED, NONE),
    // SD_STATUS
    (13, &[8], SELECTED, SELECTED),
    // SEND_NUM_WR_BLOCKS, SET_WR_BLK_ERASE_COUNT
    (22, &[8], SELECTED, SELECTED),
    (23, &[8], SELECTED, SELECTED),
    // SD_SEND_OP_COND
    (41, &[8], &[Idle], &[Idle, Transfer]),
    // SET_CLR_CARD_DETECT
    (42, &[8], SELECTED, SELECTED),
    // SEND_SCR
    (51, &[8], SELECTED, SELECTED),
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
