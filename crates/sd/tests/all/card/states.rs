//! Compares the legal commands of each state and their transitions with a second table. That table was
//! written independently from the specification (section 4.8, table 4-35), in another form.

use super::*;
use flashlab_sd::opcode::*;
use flashlab_sd::{State, Transfer, Voltage};
use flashlab_sim::Instant;
use proptest::prelude::*;

/// The transitions of each command. The code below handles cards that are not addressed, and data blocks.
const SPECIFICATION: &str = "
    CMD0: idle>idle ready>idle ident>idle stby>idle tran>idle data>idle rcv>idle prg>idle dis>idle
    CMD2: ready>ident
    CMD3: ident>stby stby>stby
    CMD4: stby>stby
    CMD6: tran>data
    CMD7: stby>tran dis>prg
    CMD8: idle>idle
    CMD9: stby>stby
    CMD10: stby>stby
    CMD11: ready>ready
    CMD12: data>tran rcv>prg
    CMD13: stby>stby tran>tran data>data rcv>rcv prg>prg dis>dis
    CMD15: stby>ina tran>ina data>ina rcv>ina prg>ina dis>ina
    CMD16: tran>tran
    CMD17: tran>data
    CMD18: tran>data
    CMD20: tran>prg
    CMD23: tran>tran
    CMD24: tran>rcv
    CMD25: tran>rcv
    CMD27: tran>rcv
    CMD28: tran>prg
    CMD29: tran>prg
    CMD30: tran>data
    CMD32: tran>tran
    CMD33: tran>tran
    CMD38: tran>prg
    CMD42: tran>rcv
    CMD48: tran>data
    CMD49: tran>rcv
    CMD55: idle>idle stby>stby tran>tran data>data rcv>rcv prg>prg dis>dis
    CMD56: tran>rcv
    ACMD6: tran>tran
    ACMD13: tran>data
    ACMD22: tran>data
    ACMD23: tran>tran
    ACMD41: idle>ready
    ACMD42: tran>tran
    ACMD51: tran>data
";

/// Transitions of CMD7 with another card's address.
const ELSEWHERE: &str = "stby>stby tran>stby data>stby prg>dis dis>dis";

/// Commands of class 6, which high-capacity cards do not support.
const GROUPS: [u8; 3] = [SET_WRITE_PROT, CLR_WRITE_PROT, SEND_WRITE_PROT];

fn find(transitions: &str, state: State) -> Option<State> {
    let to = transitions.split_whitespace().find_map(|t| {
        let (from, to) = t.split_once('>').expect("an arrow");
        (from == state.name()).then_some(to)
    })?;
    Some(State::ALL.into_iter().find(|state| state.name() == to).expect("a state"))
}

fn specified(name: &str, state: State) -> Option<State> {
    let row = SPECIFICATION.lines().find_map(|line| line.trim().strip_prefix(&format!("{name}:")))?;
    find(row, state)
}

fn known(name: &str) -> bool {
    SPECIFICATION.lines().any(|line| line.trim().starts_with(&format!("{name}:")))
}

/// A model of the card from the specification.
struct Reference {
    state: State,
    application: bool,
    high_capacity: bool,
    /// The first value is true after CMD32, and the second after a CMD33 that follows the CMD32.
    erase: (bool, bool),
    /// Number of blocks of the current transfer; `several` is true if more than one may follow.
    blocks: u32,
    several: bool,
    /// True if the data block is not data of the array.
    register: bool,
    illegal: bool,
    /// Write protection of the only group.
    protected: bool,
}

/// The required reaction to a command.
#[derive(PartialEq, Debug)]
enum Verdict {
    /// The command is for another card, or has no effect and no response.
    Silent,
    Illegal,
    Legal {
        answered: bool,
    },
}

impl Reference {
    /// Returns the state after power-up. `protected` survives without power.
    fn new(high_capacity: bool, protected: bool) -> Reference {
        Reference {
            state: State::Idle,
            application: false,
            high_capacity,
            erase: (false, false),
            blocks: 0,
            several: false,
            register: false,
            illegal: false,
            protected,
        }
    }

    fn command(&mut self, index: u8, me: bool) -> Verdict {
        let application = std::mem::take(&mut self.application) && known(&format!("ACMD{index}"));
        let before = self.state;
        if !application {
            let addressed = matches!(index, SEND_CSD | SEND_CID | SEND_STATUS | GO_INACTIVE_STATE | APP_CMD);
            if addressed && !me {
                return Verdict::Silent;
            }
            if index == SELECT_CARD && !me {
                return match find(ELSEWHERE, before) {
                    Some(to) => {
                        self.erase = (false, false);
                        self.state = to;
                        self.illegal = false;
                        Verdict::Legal { answered: false }
                    }
                    None => self.refuse(),
                };
            }
        }
        let name = format!("{}CMD{index}", if application { "A" } else { "" });
        let Some(to) = specified(&name, before) else { return self.refuse() };
        if GROUPS.contains(&index) && !application && self.high_capacity {
            return self.refuse();
        }
        self.illegal = false;
        self.state = to;
        if application {
            self.register = matches!(index, app::SD_STATUS | app::SEND_NUM_WR_BLOCKS | app::SEND_SCR);
            return Verdict::Legal { answered: true };
        }
        let erase = std::mem::take(&mut self.erase);
        match index {
            STOP_TRANSMISSION if before == State::ReceiveData && (self.blocks == 0 || self.register) => {
                self.state = State::Transfer;
            }
            SEND_STATUS => self.erase = erase,
            SET_WRITE_PROT => self.protected = true,
            CLR_WRITE_PROT => self.protected = false,
            WRITE_BLOCK | WRITE_MULTIPLE_BLOCK if self.protected => self.state = State::Transfer,
            // Speed class commands take no time here.
            SPEED_CLASS_CONTROL => self.state = State::Transfer,
            READ_SINGLE_BLOCK | READ_MULTIPLE_BLOCK | WRITE_BLOCK | WRITE_MULTIPLE_BLOCK => {
                (self.several, self.blocks, self.register) =
                    (matches!(index, READ_MULTIPLE_BLOCK | WRITE_MULTIPLE_BLOCK), 0, false);
            }
            SWITCH_FUNC | PROGRAM_CSD | SEND_WRITE_PROT | LOCK_UNLOCK | READ_EXTR_SINGLE
            | WRITE_EXTR_SINGLE | GEN_CMD => self.register = true,
            ERASE_WR_BLK_START => self.erase = (true, false),
            ERASE_WR_BLK_END => self.erase = (erase.0, erase.0),
            // All addresses of this test lie in one write-protect group, so a protected card erases nothing.
            ERASE if erase != (true, true) || self.protected => self.state = State::Transfer,
            APP_CMD => self.application = true,
            _ => {}
        }
        Verdict::Legal { answered: !matches!(index, GO_IDLE_STATE | SET_DSR | GO_INACTIVE_STATE) }
    }

    fn refuse(&mut self) -> Verdict {
        self.illegal = true;
        Verdict::Illegal
    }

    /// Counts a block that was sent or received.
    fn block(&mut self) {
        self.blocks += 1;
        match self.state {
            State::SendingData if self.register || !self.several => self.state = State::Transfer,
            State::ReceiveData if self.register => self.state = State::Transfer,
            State::ReceiveData if !self.several => self.state = State::Programming,
            _ => {}
        }
    }

    fn wait(&mut self) {
        match self.state {
            State::Programming => self.state = State::Transfer,
            State::Disconnect => self.state = State::StandBy,
            _ => {}
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Command { index: u8, me: bool, argument: u32 },
    Block,
    Wait,
    PowerCycle,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let likely = prop::sample::select(vec![
        GO_IDLE_STATE,
        ALL_SEND_CID,
        SEND_RELATIVE_ADDR,
        SWITCH_FUNC,
        SELECT_CARD,
        SELECT_CARD,
        STOP_TRANSMISSION,
        SEND_STATUS,
        READ_SINGLE_BLOCK,
        READ_MULTIPLE_BLOCK,
        WRITE_BLOCK,
        WRITE_MULTIPLE_BLOCK,
        ERASE_WR_BLK_START,
        ERASE_WR_BLK_END,
        ERASE,
        app::SD_SEND_OP_COND,
        app::SD_SEND_OP_COND,
        APP_CMD,
        APP_CMD,
        APP_CMD,
    ]);
    let index = prop_oneof![3 => likely, 2 => 0u8..64];
    let command = (index, prop::bool::weighted(0.9), 0u32..100)
        .prop_map(|(index, me, argument)| Step::Command { index, me, argument });
    let to_transfer =
        [GO_IDLE_STATE, APP_CMD, app::SD_SEND_OP_COND, ALL_SEND_CID, SEND_RELATIVE_ADDR, SELECT_CARD]
            .map(|index| Step::Command { index, me: true, argument: 0 });
    let step = prop_oneof![
        24 => command.prop_map(|command| vec![command]),
        8 => Just(vec![Step::Block]),
        5 => Just(vec![Step::Wait]),
        1 => Just(vec![Step::PowerCycle]),
        2 => (2..=to_transfer.len()).prop_map(move |count| to_transfer[..count].to_vec()),
    ];
    prop::collection::vec(step, 1..80).prop_map(|steps| steps.concat())
}

/// Returns an argument with which a legal command cannot fail.
fn argument(index: u8, me: bool, small: u32, card: &Card, address: u32) -> u32 {
    let other = address ^ 0x0100_0000;
    match index {
        SELECT_CARD | SEND_CSD | SEND_CID | SEND_STATUS | GO_INACTIVE_STATE | APP_CMD => {
            if me {
                address
            } else {
                other
            }
        }
        SEND_IF_COND => 0x1aa,
        // S18R is set, so that CMD11 is legal.
        app::SD_SEND_OP_COND => 0x41ff_8000,
        SWITCH_FUNC => 0x00ff_fff0,
        SET_BLOCKLEN => 512,
        GEN_CMD => 0,
        READ_EXTR_SINGLE | WRITE_EXTR_SINGLE => 0x1ff,
        READ_SINGLE_BLOCK | READ_MULTIPLE_BLOCK | WRITE_BLOCK | WRITE_MULTIPLE_BLOCK | SET_WRITE_PROT
        | CLR_WRITE_PROT | SEND_WRITE_PROT | ERASE_WR_BLK_START | ERASE_WR_BLK_END => {
            // The end of an erase is not before its start.
            let small = if index == ERASE_WR_BLK_END { small + 100 } else { small };
            small * if card.identity().is_block_addressed() { 1 } else { 512 }
        }
        SET_BLOCK_COUNT => 0,
        _ => 0,
    }
}

/// A card, and the reference that it is compared with.
struct Compared {
    card: Card,
    reference: Reference,
    now: Instant,
    /// The card's relative address, in the upper half of an argument.
    address: u32,
}

impl Compared {
    fn new(high_capacity: bool) -> Compared {
        let parameters = parameters(Overwrite::Convert);
        let mut identity = super::high_capacity(&parameters);
        if !high_capacity {
            let scr = identity.scr;
            identity = Identity::new(&parameters);
            identity.scr = scr;
        }
        identity.t_init = Duration::ZERO;
        let card = Card::new(parameters, identity, None, 5);
        let reference = Reference::new(high_capacity, false);
        let mut compared = Compared { card, reference, now: Instant::ZERO, address: 0 };
        compared.power_on();
        compared
    }

    fn power_on(&mut self) {
        self.card.power_on(self.now, Voltage::V3_3);
        self.now += Duration::from_ms(10);
        self.reset_reference();
    }

    /// Resets the reference as CMD0 or a power cycle resets the card, and sends CMD8. A high-capacity card
    /// needs CMD8 before its initialisation, a requirement that the table does not contain.
    fn reset_reference(&mut self) {
        let Reference { high_capacity, protected, .. } = self.reference;
        self.reference = Reference::new(high_capacity, protected);
        self.address = 0;
        self.card.command(self.now, Command::new(SEND_IF_COND, 0x1aa));
    }

    fn command(&mut self, index: u8, me: bool, small: u32, what: &str) -> Result<(), TestCaseError> {
        let illegal_before = self.reference.illegal;
        let verdict = if self.reference.state == State::Inactive {
            Verdict::Silent
        } else {
            self.reference.command(index, me)
        };
        let argument = argument(index, me, small, &self.card, self.address);
        let response = self.card.command(self.now, Command::new(index, argument));
        let answered = matches!(verdict, Verdict::Legal { answered: true });
        prop_assert_eq!(response.is_some(), answered, "{}: {:?}", what, verdict);
        match response {
            Some(Response::R6(word)) => self.address = word & 0xffff_0000,
            Some(Response::R1(status)) => {
                prop_assert_eq!(status.has(Status::ILLEGAL_COMMAND), illegal_before, "{}", what);
            }
            _ => {}
        }
        if index == GO_IDLE_STATE && verdict != Verdict::Silent {
            // The card gets time to finish programming.
            self.now += Duration::from_secs(1);
            self.reset_reference();
        }
        Ok(())
    }

    /// Transfers a block in the direction of the data lines, if there is a transfer.
    fn block(&mut self) {
        match self.card.transfer() {
            Transfer::Sending { .. } => {
                if let Some(ready) = self.card.block_ready(self.now) {
                    self.now = ready;
                    self.card.send_block(self.now, &mut []);
                    self.reference.block();
                }
            }
            Transfer::Receiving { block } => {
                if self.card.busy_until(self.now).is_none() {
                    self.card.receive_block(self.now, &vec![0; block as usize], true);
                    self.reference.block();
                }
            }
            Transfer::None => {}
        }
    }

    /// Waits until the card is not busy, and reports a command with a wrong CRC. The next status must show this error.
    fn wait(&mut self, what: &str) -> Result<(), TestCaseError> {
        self.now += Duration::from_secs(1);
        self.reference.wait();
        self.card.crc_error(self.now);
        let is_legal = self.reference.state != State::Inactive
            && self.reference.command(SEND_STATUS, true) != Verdict::Illegal;
        let response = self.card.command(self.now, Command::new(SEND_STATUS, self.address));
        if is_legal {
            let Some(Response::R1(status)) = response else { panic!("{what}: {response:?}") };
            prop_assert!(status.has(Status::COM_CRC_ERROR), "{}", what);
        } else {
            prop_assert_eq!(response, None, "{}", what);
        }
        Ok(())
    }
}

fn run(steps: &[Step], high_capacity: bool) -> Result<(), TestCaseError> {
    let mut compared = Compared::new(high_capacity);
    for (n, step) in steps.iter().enumerate() {
        let what = format!("step {n}, {step:?} in {:?}", compared.reference.state);
        match step {
            Step::Command { index, me, argument } => compared.command(*index, *me, *argument, &what)?,
            Step::Block => compared.block(),
            Step::Wait => compared.wait(&what)?,
            Step::PowerCycle => {
                compared.card.power_off(compared.now);
                compared.power_on();
            }
        }
        prop_assert_eq!(compared.card.state(), compared.reference.state, "{}", what);
    }
    compared.card.check();
    Ok(())
}

#[test]
fn an_erase_of_protected_blocks_alone_leaves_the_card_in_the_transfer_state() {
    let to_transfer =
        [GO_IDLE_STATE, APP_CMD, app::SD_SEND_OP_COND, ALL_SEND_CID, SEND_RELATIVE_ADDR, SELECT_CARD];
    let erase = [ERASE_WR_BLK_START, ERASE_WR_BLK_END, ERASE];
    let indices = [&to_transfer[..], &[SET_WRITE_PROT], &to_transfer, &erase].concat();
    let steps: Vec<Step> =
        indices.into_iter().map(|index| Step::Command { index, me: true, argument: 0 }).collect();
    run(&steps, false).expect("card and reference agree");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_card_of_high_capacity_is_in_the_state_that_the_specification_says(steps in steps()) {
        run(&steps, true)?;
    }

    #[test]
    fn a_card_of_standard_capacity_is_in_the_state_that_the_specification_says(steps in steps()) {
        run(&steps, false)?;
    }
}

/// SPI mode, section 7.3.1: commands that are legal before the initialisation, and commands that are legal
/// after it. The commands of the third list are legal directly after CMD55.
const SPI_IDLE: &[u8] = &[GO_IDLE_STATE, SEND_OP_COND, SEND_IF_COND, APP_CMD, READ_OCR, CRC_ON_OFF];
const SPI_READY: &[u8] = &[
    GO_IDLE_STATE,
    SWITCH_FUNC,
    SEND_CSD,
    SEND_CID,
    STOP_TRANSMISSION,
    SEND_STATUS,
    SET_BLOCKLEN,
    READ_SINGLE_BLOCK,
    READ_MULTIPLE_BLOCK,
    WRITE_BLOCK,
    WRITE_MULTIPLE_BLOCK,
    PROGRAM_CSD,
    ERASE_WR_BLK_START,
    ERASE_WR_BLK_END,
    ERASE,
    LOCK_UNLOCK,
    READ_EXTR_SINGLE,
    WRITE_EXTR_SINGLE,
    APP_CMD,
    GEN_CMD,
    READ_OCR,
    CRC_ON_OFF,
];
const SPI_READY_APPLICATION: &[u8] = &[
    app::SD_STATUS,
    app::SEND_NUM_WR_BLOCKS,
    app::SET_WR_BLK_ERASE_COUNT,
    app::SD_SEND_OP_COND,
    app::SET_CLR_CARD_DETECT,
    app::SEND_SCR,
];

/// Returns a card in SPI mode, before or after its initialisation.
fn spi(initialised: bool) -> (Card, Instant) {
    let parameters = parameters(Overwrite::Convert);
    let mut identity = super::high_capacity(&parameters);
    identity.t_init = Duration::ZERO;
    let mut card = Card::new(parameters, identity, None, 5);
    card.power_on(Instant::ZERO, Voltage::V3_3);
    let now = Instant::ZERO + Duration::from_ms(10);
    card.set_spi();
    card.command(now, Command::new(GO_IDLE_STATE, 0));
    if initialised {
        for (index, argument) in [(SEND_IF_COND, 0x1aa), (APP_CMD, 0), (app::SD_SEND_OP_COND, 1 << 30)] {
            card.command(now, Command::new(index, argument));
        }
        assert_eq!(card.state(), State::Transfer);
    }
    (card, now)
}

#[test]
fn in_spi_mode_every_command_is_answered_and_illegal_commands_are_reported() {
    for (initialised, plain, application) in
        [(false, SPI_IDLE, &[app::SD_SEND_OP_COND][..]), (true, SPI_READY, SPI_READY_APPLICATION)]
    {
        for index in 0..64 {
            for announced in [false, true] {
                let (mut card, now) = spi(initialised);
                if announced {
                    card.command(now, Command::new(APP_CMD, 0));
                }
                // After CMD55, a command that is not an application command is executed as a plain command.
                let legal = announced && application.contains(&index)
                    || plain.contains(&index) && index != app::SD_SEND_OP_COND;
                let argument = if index == SEND_IF_COND { 0x1aa } else { 0 };
                let illegal = match card.command(now, Command::new(index, argument)) {
                    Some(Response::R1(status)) => status.has(Status::ILLEGAL_COMMAND),
                    Some(_) => false,
                    None => panic!("CMD{index} is not answered"),
                };
                assert_eq!(!illegal, legal, "initialised {initialised}, announced {announced}, CMD{index}");
            }
        }
    }
}
