//! Descriptions of commands and responses in words.

use flashlab_host::driver::mmc::{CardInfo, Error, Event, MmcRequest, Outcome, Phase, name_of, size};
use flashlab_sd::opcode::{self, app};
use flashlab_sd::{Signal, State, Status};

/// A command and its outcome.
pub(super) struct Sent<'a> {
    pub(super) phase: Phase,
    pub(super) request: &'a MmcRequest,
    pub(super) outcome: &'a Outcome,
    pub(super) application: bool,
    /// The card as known at the end of the initialisation.
    pub(super) card: Option<&'a CardInfo>,
}

/// Returns the name of a command in the specification. Commands for MMC and SDIO have the kind of device
/// added.
pub(super) fn name(index: u8, application: bool) -> &'static str {
    let own = if application { app::name(index) } else { None };
    match index {
        opcode::SEND_OP_COND => "SEND_OP_COND (MMC)",
        opcode::IO_SEND_OP_COND => "IO_SEND_OP_COND (SDIO)",
        opcode::IO_RW_DIRECT => "IO_RW_DIRECT (SDIO)",
        _ => own.or_else(|| opcode::name(index)).unwrap_or(""),
    }
}

pub(super) fn volts(signal: Signal) -> &'static str {
    match signal {
        Signal::V3_3 => "3.3",
        Signal::V1_8 => "1.8",
    }
}

/// Returns the voltage range of a bit of the OCR: `3.3 to 3.4`.
pub(super) fn vdd(bit: u8) -> String {
    let tenths = 27 + u32::from(bit).saturating_sub(15);
    format!("{}.{} to {}.{}", tenths / 10, tenths % 10, (tenths + 1) / 10, (tenths + 1) % 10)
}

pub(super) fn clock(hz: u32) -> String {
    match hz {
        1_000_000.. if hz.is_multiple_of(1_000_000) => format!("{} MHz", hz / 1_000_000),
        _ => format!("{} kHz", hz / 1_000),
    }
}

/// Returns the voltage range of an OCR.
fn window(ocr: u32) -> String {
    let bits = ocr & 0x00ff_8000;
    if bits == 0 {
        return "no voltage".to_owned();
    }
    let tenths = |bit: u32| 27 + bit - 15;
    let (low, high) = (tenths(bits.trailing_zeros()), tenths(bits.ilog2()) + 1);
    format!("{}.{} to {}.{} V", low / 10, low % 10, high / 10, high % 10)
}

/// Describes an event that is not a command.
pub(super) fn note(event: &Event) -> String {
    match event {
        Event::Trying { hz } => format!("The host looks for a card at {}.", clock(*hz)),
        Event::New { capacity, address, .. } => {
            format!("A new {} card, with the address {address:04x}.", capacity.name())
        }
        Event::DiscardMax { sectors, limit_ms } => {
            format!("One discard has at most {sectors} blocks, so that it ends within {limit_ms} ms.")
        }
        Event::Disk { name, sectors, read_only, .. } => {
            let read_only = if *read_only { ", which takes no writes" } else { "" };
            format!("The block device mmcblk0: {}, {}{read_only}.", name_of(name), size(*sectors))
        }
        Event::RemoveDetected => "The card does not answer any more.".to_owned(),
        Event::Removed { address } => format!("The host removes the card {address:04x}."),
        Event::Failure(what, error) => format!("{}: {error}.", what.replace(" {}", "")),
        Event::Warning(what) => format!("{what}."),
        Event::BlockError { sector, .. } => format!("Block {sector} could not be transferred."),
        Event::Ios(_)
        | Event::Signal(_)
        | Event::Started(_)
        | Event::Retried { .. }
        | Event::Done(..)
        | Event::Tuned { .. } => String::new(),
    }
}

impl Sent<'_> {
    fn argument(&self) -> u32 {
        self.request.cmd.command.argument
    }

    /// Describes the request.
    pub(super) fn asked(&self) -> String {
        let argument = self.argument();
        let address = argument >> 16;
        let blocks = self.request.data.map_or(0, |data| data.blocks);
        let at = |what: &str| match self.card.map(|card| card.csd.block_addressed) {
            Some(false) => format!("{what} at block {}", argument / 512),
            _ => format!("{what} at block {argument}"),
        };
        let until = match self.request.count {
            Some(_) => "; CMD23 has said how many.",
            None => "; CMD12 stops it.",
        };
        match (self.application, self.request.cmd.command.index) {
            (true, app::SET_BUS_WIDTH) => "Use four data lines.".into(),
            (true, app::SD_STATUS) => {
                "Send your SD status: speed class, allocation unit, erase times.".into()
            }
            (true, app::SEND_NUM_WR_BLOCKS) => "How many blocks of the last write arrived?".into(),
            (true, app::SD_SEND_OP_COND) if argument == 0 => {
                "Which voltages do you take? Only SD memory cards answer.".into()
            }
            (true, app::SD_SEND_OP_COND) => {
                let mut text = format!("Initialise at {}", window(argument));
                for (bit, what) in [
                    (30, "the host supports cards above 2 GiB"),
                    (27, "it supports cards above 2 TiB"),
                    (28, "it supplies more than 150 mA"),
                    (24, "it can switch its signals to 1.8 V"),
                ] {
                    if argument >> bit & 1 == 1 {
                        text = format!("{text}; {what}");
                    }
                }
                text + ". Are you ready?"
            }
            (true, app::SEND_SCR) => {
                "Send your configuration (SCR): version, bus widths, optional commands.".into()
            }
            (_, opcode::GO_IDLE_STATE) => "All cards: back to the idle state.".into(),
            (_, opcode::SEND_OP_COND) => "Are you an MMC?".into(),
            (_, opcode::ALL_SEND_CID) => "Every card that has no address yet: send your CID.".into(),
            (_, opcode::SEND_RELATIVE_ADDR) => "Publish an address for yourself.".into(),
            (_, opcode::IO_SEND_OP_COND) => "Are you an SDIO card?".into(),
            (_, opcode::SWITCH_FUNC) => switch(argument),
            (_, opcode::SELECT_CARD) if address == 0 => "All cards: you are not selected.".into(),
            (_, opcode::SELECT_CARD) => format!("Card {address:04x}: you are selected."),
            (_, opcode::SEND_IF_COND) => {
                let express =
                    if self.phase == Phase::Rescan { " The host would ask for SD Express here." } else { "" };
                format!("Do you take 2.7 to 3.6 V? Send {:02x} back.{express}", argument & 0xff)
            }
            (_, opcode::SEND_CSD) => "Send your CSD: capacity, clock, command classes.".into(),
            (_, opcode::VOLTAGE_SWITCH) => "Switch your signals to 1.8 V.".into(),
            (_, opcode::STOP_TRANSMISSION) => "Stop.".into(),
            (_, opcode::SEND_STATUS) => "How are you? Send your status.".into(),
            (_, opcode::READ_SINGLE_BLOCK) => at("Send one block,") + ".",
            (_, opcode::READ_MULTIPLE_BLOCK) => at(&format!("Send {blocks} blocks,")) + until,
            (_, opcode::ADDRESS_EXTENSION) => {
                format!("The upper 6 bits of the next address are {}.", argument & 0x3f)
            }
            (_, opcode::WRITE_BLOCK) => at("Take one block,") + ".",
            (_, opcode::WRITE_MULTIPLE_BLOCK) => at(&format!("Take {blocks} blocks,")) + until,
            (_, opcode::ERASE_WR_BLK_START) => at("The range to erase begins") + ".",
            (_, opcode::ERASE_WR_BLK_END) => at("The range to erase ends") + ".",
            (_, opcode::ERASE) => "Erase the marked blocks.".into(),
            (_, opcode::READ_EXTR_SINGLE) => match argument >> 27 & 0xf {
                0 => "Send the list of your extension registers.".into(),
                function => format!("Send the extension register of function {function}."),
            },
            (_, opcode::WRITE_EXTR_SINGLE) => {
                format!("Write a byte of the extension register of function {}.", argument >> 27 & 0xf)
            }
            (_, opcode::IO_RW_DIRECT) if argument >> 31 == 1 => "An SDIO card: reset yourself.".into(),
            (_, opcode::IO_RW_DIRECT) => "An SDIO card: send your abort register.".into(),
            (_, opcode::APP_CMD) => "The next command is an application command.".into(),
            _ => String::new(),
        }
    }

    /// Describes the meaning of the response.
    pub(super) fn means(&self) -> String {
        let index = self.request.cmd.command.index;
        if let Some(error) = self.outcome.error {
            return self.unanswered(index, error);
        }
        let word = self.outcome.response[0];
        match (self.application, index) {
            (_, opcode::GO_IDLE_STATE) => "No answer is expected.".into(),
            (_, opcode::SELECT_CARD) if self.argument() == 0 => "No answer is expected.".into(),
            (_, opcode::SEND_IF_COND) => "It does, and is of version 2 or later.".into(),
            (true, app::SD_SEND_OP_COND) if self.argument() == 0 => format!("An SD memory card that takes {}.", window(word)),
            (true, app::SD_SEND_OP_COND) if word >> 31 == 0 => {
                "Not yet: it is still initialising. Software time is not modelled: a real host, whose driver takes time \
                 for each command, asks fewer times."
                    .into()
            }
            (true, app::SD_SEND_OP_COND) => {
                let capacity = match (word >> 30 & 1, word >> 27 & 1) {
                    (0, _) => "addressed by bytes (SDSC)",
                    (_, 0) => "addressed by blocks (SDHC, SDXC)",
                    _ => "addressed by blocks, with CMD22 (SDUC)",
                };
                let signals = if word >> 24 & 1 == 1 { "; it will switch to 1.8 V signals" } else { "" };
                format!("Ready; {capacity}{signals}.")
            }
            (_, opcode::ALL_SEND_CID) => self.card.map_or(String::new(), |card| {
                let cid = &card.cid;
                let oem: String = cid.oem.to_be_bytes().iter().map(|letter| char::from(*letter)).collect();
                format!(
                    "Manufacturer {:02x}, OEM {oem}, {}, revision {}.{}, serial {:08x}, made in {}-{:02}.",
                    cid.manufacturer,
                    name_of(&cid.name),
                    cid.revision.0,
                    cid.revision.1,
                    cid.serial,
                    cid.date.0,
                    cid.date.1
                )
            }),
            (_, opcode::SEND_RELATIVE_ADDR) => format!("It is {:04x} from now on.", word >> 16),
            (_, opcode::SEND_CSD) => self.card.map_or(String::new(), |card| {
                format!(
                    "{}, up to {} in default speed, command classes {}.",
                    size(card.csd.sectors),
                    clock(card.csd.clock_max),
                    classes(card.csd.classes)
                )
            }),
            (true, app::SEND_SCR) => self.card.map_or(String::new(), configuration),
            (true, app::SD_STATUS) => self.card.map_or(String::new(), sd_status),
            (false, opcode::SWITCH_FUNC) => self.switched(),
            (_, opcode::APP_CMD) => {
                let status = self.status(word);
                if status.is_empty() { "It will.".into() } else { format!("It will. {status}") }
            }
            _ => {
                let status = self.status(word);
                if status.is_empty() { "Done.".into() } else { status }
            }
        }
    }

    fn unanswered(&self, index: u8, error: Error) -> String {
        let who = match index {
            opcode::IO_SEND_OP_COND | opcode::IO_RW_DIRECT => "a memory card does not know SDIO commands",
            opcode::SEND_OP_COND => "an SD card does not know it",
            app::SD_SEND_OP_COND if self.argument() >> 27 & 1 == 0 => {
                "a card above 2 TiB (SDUC) does not respond to a host that does not set HO2T"
            }
            _ => return format!("It failed: {error}."),
        };
        match error {
            Error::Timeout => format!("No answer: {who}."),
            other => format!("It failed: {other}."),
        }
    }

    /// Describes the state and the error bits of a card status.
    fn status(&self, word: u32) -> String {
        let status = Status(word);
        let errors: Vec<&str> =
            ERRORS.iter().filter(|(bit, _)| status.has(*bit)).map(|(_, name)| *name).collect();
        let state = status.state().map_or("an unknown state", state);
        let mut text = format!("It was in {state}.");
        if !errors.is_empty() {
            text += &format!(" It reports: {}.", errors.join(", "));
        }
        text
    }

    fn switched(&self) -> String {
        let argument = self.argument();
        let Some(card) = self.card else { return String::new() };
        if argument >> 31 == 0 {
            let names = ["SDR12 (default)", "SDR25 (high speed)", "SDR50", "SDR104", "DDR50"];
            let modes: Vec<&str> = names
                .iter()
                .enumerate()
                .filter(|(n, _)| card.switch.has_mode(*n as u8))
                .map(|(_, n)| *n)
                .collect();
            return format!("It offers {}.", modes.join(", "));
        }
        "It switches when this block has been sent.".into()
    }
}

const ERRORS: [(Status, &str); 8] = [
    (Status::OUT_OF_RANGE, "the address is beyond its end"),
    (Status::ADDRESS_ERROR, "the address is not aligned to a block"),
    (Status::ILLEGAL_COMMAND, "the previous command was illegal"),
    (Status::COM_CRC_ERROR, "the previous command had a wrong checksum"),
    (Status::WP_VIOLATION, "a write addressed a protected block"),
    (Status::CARD_ECC_FAILED, "data could not be corrected"),
    (Status::ERROR, "an error"),
    (Status::CARD_IS_LOCKED, "it is locked"),
];

fn state(state: State) -> &'static str {
    match state {
        State::Idle => "the idle state",
        State::Ready => "the ready state",
        State::Identification => "the identification state",
        State::StandBy => "the stand-by state",
        State::Transfer => "the transfer state",
        State::SendingData => "the sending-data state",
        State::ReceiveData => "the receive-data state",
        State::Programming => "the programming state",
        State::Disconnect => "the disconnect state",
        State::Inactive => "the inactive state",
    }
}

fn classes(classes: u16) -> String {
    let numbers: Vec<String> =
        (0..12).filter(|class| classes >> class & 1 == 1).map(|class| class.to_string()).collect();
    numbers.join(", ")
}

fn switch(argument: u32) -> String {
    let check = argument >> 31 == 0;
    let chosen = (0..6).map(|group| (group, argument >> (4 * group) & 0xf)).find(|(_, value)| *value != 0xf);
    match (check, chosen) {
        (true, _) => "Which functions do you offer? Nothing is switched.".into(),
        (false, Some((0, mode))) => {
            let mode = ["SDR12", "high speed or SDR25", "SDR50", "SDR104", "DDR50"].get(mode as usize);
            format!("Switch to {}.", mode.unwrap_or(&"an unknown mode"))
        }
        (false, Some((3, limit))) => format!("Take up to {} mA.", 200 + 200 * limit),
        (false, _) => "Switch.".into(),
    }
}

fn configuration(card: &CardInfo) -> String {
    let scr = &card.scr;
    let version = match (scr.version, scr.version_3, scr.version_x) {
        (_, true, x @ 1..) => format!("{}", 4 + x),
        (_, true, _) => "3 or 4".into(),
        (2, ..) => "2".into(),
        _ => "1".into(),
    };
    let commands = [(1, "CMD20"), (2, "CMD23"), (4, "CMD48 and CMD49"), (8, "CMD58 and CMD59")];
    let known: Vec<&str> =
        commands.iter().filter(|(bit, _)| scr.commands & bit != 0).map(|(_, n)| *n).collect();
    let known = if known.is_empty() { "no optional commands".into() } else { known.join(", ") };
    format!("Version {version}, {} data lines, {known}.", if scr.four_lines { "1 or 4" } else { "1" })
}

fn sd_status(card: &CardInfo) -> String {
    match card.ssr.unit_sectors {
        0 => "It names no allocation unit.".into(),
        sectors if card.ssr.erase_ms > 0 => format!(
            "Allocation units of {}; an erase takes {} ms for each, plus {} ms once.",
            size(sectors.into()),
            card.ssr.erase_ms,
            card.ssr.erase_offset_ms
        ),
        sectors => format!("Allocation units of {}.", size(sectors.into())),
    }
}
