//! Execution of the commands.

use super::state::legality;
use super::volatile::{BlockPurpose, BusMode, Lines, Volatile};
use super::{Card, State};
use crate::Signal;
use crate::command::{Command, Response, Status};
use crate::opcode;
use crate::register::{CsdVersion, Ocr, Selection, TUNING};
use flashlab_sim::{Duration, Instant};

/// Mode bit of CMD6: switch function if set, check function otherwise.
const SWITCH: u32 = 1 << 31;

impl Card {
    /// Executes a command and returns the response.
    pub(super) fn execute(&mut self, now: Instant, command: Command) -> Option<Response> {
        let application = core::mem::take(&mut self.volatile.prefix.application);
        self.volatile.full = self.volatile.state == State::ReceiveData && self.busy_until(now).is_some();
        let is_application = application && legality(command.index, true).exists(self.volatile.spi);
        if self.is_for_another(&command, is_application) {
            return None;
        }
        if !self.is_legal(&command, is_application) {
            return self.illegal();
        }
        self.volatile.prefix.drop_block_count_before(command.index);
        if !is_application
            && !matches!(
                command.index,
                opcode::SEND_STATUS
                    | opcode::ADDRESS_EXTENSION
                    | opcode::ERASE_WR_BLK_START
                    | opcode::ERASE_WR_BLK_END
                    | opcode::ERASE
            )
        {
            self.reset_erase();
        }
        let response = if is_application {
            self.application_command(now, command)
        } else {
            self.plain_command(now, command)
        };
        // Clear condition B: the card received a legal command.
        self.volatile.errors =
            self.volatile.errors.without(Status(Status::COM_CRC_ERROR.0 | Status::ILLEGAL_COMMAND.0));
        response
    }

    /// Returns true if the command contains the address of another card.
    fn is_for_another(&self, command: &Command, application: bool) -> bool {
        let v = &self.volatile;
        let addressed = matches!(
            command.index,
            opcode::SEND_CSD
                | opcode::SEND_CID
                | opcode::SEND_STATUS
                | opcode::GO_INACTIVE_STATE
                | opcode::APP_CMD
        ) && !application;
        addressed && !v.spi && !v.identification.is_addressed(command.argument)
    }

    fn is_legal(&self, command: &Command, application: bool) -> bool {
        let v = &self.volatile;
        let legality = legality(command.index, application);
        if !legality.in_state(v.state, v.spi) {
            return false;
        }
        // Every card supports class 0, even if its CSD omits it. In idle state, before a host can read the CSD, the
        // card accepts all classes.
        let classes = self.csd.classes() | 1;
        if legality.classes != 0 && classes & legality.classes == 0 && v.state != State::Idle {
            return false;
        }
        let scr = &self.identity.scr;
        let known = application
            || match command.index {
                opcode::SEND_IF_COND => scr.version() >= 2,
                opcode::VOLTAGE_SWITCH => v.identification.may_switch,
                opcode::SEND_TUNING_BLOCK => v.bus.signal == Signal::V1_8,
                opcode::SPEED_CLASS_CONTROL => scr.has_speed_class_control(),
                opcode::ADDRESS_EXTENSION => self.csd.version() == Some(CsdVersion::V3),
                opcode::SET_BLOCK_COUNT => scr.has_set_block_count(),
                opcode::SET_WRITE_PROT..=opcode::SEND_WRITE_PROT => self.protection.has_groups(),
                opcode::READ_EXTR_SINGLE | opcode::WRITE_EXTR_SINGLE => scr.has_extension_registers(),
                // A selected card accepts CMD7 only to be deselected.
                opcode::SELECT_CARD => {
                    matches!(v.state, State::StandBy | State::Disconnect)
                        || !v.identification.is_addressed(command.argument)
                }
                _ => true,
            };
        // A locked card accepts classes 0 and 7, ACMD41, ACMD42, and the commands that these need.
        let locked = v.locked && {
            let plain = legality.classes & 0b1000_0001 != 0
                || matches!(
                    command.index,
                    opcode::SET_BLOCKLEN | opcode::APP_CMD | opcode::READ_OCR | opcode::CRC_ON_OFF
                );
            !(if application {
                matches!(command.index, opcode::app::SD_SEND_OP_COND | opcode::app::SET_CLR_CARD_DETECT)
            } else {
                plain
            })
        };
        known && !locked
    }

    /// Records an illegal command. In native mode the card does not respond, and reports the error later.
    pub(super) fn illegal(&mut self) -> Option<Response> {
        self.volatile.errors = self.volatile.errors.with(Status::ILLEGAL_COMMAND);
        if !self.volatile.spi {
            return None;
        }
        // In SPI mode the card responds to every command, and reports the error at once.
        let response = self.r1();
        self.volatile.errors = self.volatile.errors.without(Status::ILLEGAL_COMMAND);
        Some(response)
    }

    /// Sets error bits.
    pub(super) fn error(&mut self, status: Status) {
        self.volatile.errors = self.volatile.errors.with(status);
    }

    /// Returns R1 with the status, and clears the error bits.
    pub(super) fn r1(&mut self) -> Response {
        let status = self.status();
        self.volatile.errors = Status::default();
        Response::R1(status)
    }

    fn status(&self) -> Status {
        let v = &self.volatile;
        let mut status = v.errors.in_state(v.state);
        if !matches!(v.state, State::Programming | State::Disconnect) && !v.full {
            status = status.with(Status::READY_FOR_DATA);
        }
        if v.prefix.application {
            status = status.with(Status::APP_CMD);
        }
        if v.locked {
            status = status.with(Status::CARD_IS_LOCKED);
        }
        status
    }

    /// Returns R1 with the status, and changes the state.
    pub(super) fn r1_then(&mut self, state: State) -> Option<Response> {
        let response = self.r1();
        self.volatile.state = state;
        Some(response)
    }

    fn plain_command(&mut self, now: Instant, command: Command) -> Option<Response> {
        let argument = command.argument;
        match command.index {
            opcode::GO_IDLE_STATE => self.go_idle(now),
            opcode::SEND_OP_COND => self.initialise(now, argument | Ocr::WINDOW_2_7_TO_3_6),
            opcode::ALL_SEND_CID => {
                self.volatile.state = State::Identification;
                Some(Response::R2(self.identity.cid.with_crc()))
            }
            opcode::SEND_RELATIVE_ADDR => self.publish_address(),
            opcode::SET_DSR => {
                if self.csd.has_dsr() {
                    self.volatile.dsr = (argument >> 16) as u16;
                }
                None
            }
            opcode::SWITCH_FUNC => self.switch_function(argument),
            opcode::SELECT_CARD => self.select(now, argument),
            opcode::SEND_IF_COND => self.check_conditions(argument),
            opcode::SEND_CSD => self.send_wide(self.csd.with_crc()),
            opcode::SEND_CID => self.send_wide(self.identity.cid.with_crc()),
            opcode::VOLTAGE_SWITCH => {
                self.volatile.bus.switching = true;
                Some(self.r1())
            }
            opcode::STOP_TRANSMISSION => self.stop(now),
            opcode::SEND_STATUS => Some(self.r1()),
            opcode::GO_INACTIVE_STATE => self.go_inactive(now),
            opcode::SET_BLOCKLEN => self.set_block_length(argument),
            opcode::READ_SINGLE_BLOCK => self.read(now, argument, Some(1)),
            opcode::READ_MULTIPLE_BLOCK => {
                let blocks = self.volatile.prefix.block_count.take();
                self.read(now, argument, blocks)
            }
            opcode::SEND_TUNING_BLOCK => self.send(&TUNING),
            opcode::SPEED_CLASS_CONTROL => Some(self.r1()),
            opcode::ADDRESS_EXTENSION => {
                self.volatile.prefix.address_extension = u64::from(argument & 0x3f) << 32;
                Some(self.r1())
            }
            opcode::SET_BLOCK_COUNT => self.set_block_count(now, argument),
            opcode::WRITE_BLOCK => self.begin_write(now, argument, Some(1)),
            opcode::WRITE_MULTIPLE_BLOCK => {
                let blocks = self.volatile.prefix.block_count.take();
                self.begin_write(now, argument, blocks)
            }
            opcode::PROGRAM_CSD => self.receive_block_for(16, BlockPurpose::Csd),
            opcode::SET_WRITE_PROT => self.protect(now, argument, true),
            opcode::CLR_WRITE_PROT => self.protect(now, argument, false),
            opcode::SEND_WRITE_PROT => self.send_protection(argument),
            opcode::ERASE_WR_BLK_START => {
                self.end_idle(now);
                self.erase_from(argument, true)
            }
            opcode::ERASE_WR_BLK_END => self.erase_from(argument, false),
            opcode::ERASE => self.erase(now, argument),
            opcode::LOCK_UNLOCK => {
                let length = self.volatile.block_length;
                self.receive_block_for(length, BlockPurpose::Lock)
            }
            opcode::READ_EXTR_SINGLE => self.read_extension(argument),
            opcode::WRITE_EXTR_SINGLE => self.write_extension(argument),
            opcode::APP_CMD => {
                self.volatile.prefix.application = true;
                Some(self.r1())
            }
            opcode::GEN_CMD if argument & 1 == 1 => {
                let page = self.health().to_page();
                self.send(&page)
            }
            opcode::GEN_CMD => self.receive_block_for(512, BlockPurpose::Vendor),
            opcode::READ_OCR => Some(Response::R3(self.conditions())),
            opcode::CRC_ON_OFF => Some(self.r1()),
            _ => None,
        }
    }

    /// Executes CMD8: responds if the card supports the voltage.
    fn check_conditions(&mut self, argument: u32) -> Option<Response> {
        let v = &mut self.volatile;
        match v.identification.check_voltage(argument) {
            true => Some(Response::R7(argument & 0xfff)),
            // In SPI mode the card responds to every command. Here it reports that it accepts no voltage.
            false => v.spi.then_some(Response::R7(argument & 0xff)),
        }
    }

    /// Executes CMD0: resets the volatile state as after power-up, except for SPI mode and the signal
    /// voltage. A program in progress continues.
    fn go_idle(&mut self, now: Instant) -> Option<Response> {
        self.end_transfer(now);
        self.csd.set_tran_speed(self.identity.csd.tran_speed());
        self.commit_cache();
        let v = &mut self.volatile;
        *v = Volatile { spi: v.spi, busy: v.busy, bus: BusMode::of_signal(v.bus.signal), ..Volatile::new() };
        v.locked = self.lock.is_set();
        if v.spi { Some(self.r1()) } else { None }
    }

    /// Executes CMD15: the card ignores all commands until the next power cycle.
    fn go_inactive(&mut self, now: Instant) -> Option<Response> {
        self.end_transfer(now);
        self.volatile.state = State::Inactive;
        None
    }

    /// Executes CMD23: announces the number of blocks of the next CMD18 or CMD25. A count of 0 announces nothing.
    fn set_block_count(&mut self, now: Instant, blocks: u32) -> Option<Response> {
        self.end_idle(now);
        self.volatile.prefix.block_count = (blocks > 0).then_some(blocks);
        Some(self.r1())
    }

    /// Executes ACMD41, or CMD1 in SPI mode.
    pub(super) fn initialise(&mut self, now: Instant, argument: u32) -> Option<Response> {
        let ocr = self.identity.ocr.0;
        let window = argument & 0x00ff_ff00;
        let v = &mut self.volatile;
        if window != 0 || v.spi {
            if !v.spi && window & ocr == 0 {
                v.state = State::Inactive;
                return None;
            }
            let over_2tb = ocr & Ocr::OVER_2TB != 0;
            if over_2tb && !v.spi && argument & Ocr::OVER_2TB == 0 {
                // The host cannot address an SDUC card: the card does not respond, and the host sees a time-out.
                return None;
            }
            let high_capacity = ocr & Ocr::HIGH_CAPACITY != 0;
            // A high-capacity card waits for a host that supports high capacities and has sent CMD8. SPI mode
            // has no HO2T, so an SDUC card stays idle in SPI mode.
            let host_has_high_capacity = argument & Ocr::HIGH_CAPACITY != 0;
            let understood =
                !(over_2tb && v.spi) && v.identification.is_understood(high_capacity, host_has_high_capacity);
            if understood {
                let end = now.max(v.busy).saturating_add(self.identity.t_init);
                if v.identification.initialise(now, end) && v.state == State::Idle {
                    let is_high = v.bus.signal == Signal::V3_3;
                    v.identification.may_switch =
                        !v.spi && is_high && argument & ocr & Ocr::LOW_VOLTAGE_SIGNALS != 0;
                    v.state = if v.spi { State::Transfer } else { State::Ready };
                }
            }
        }
        if self.volatile.spi { Some(self.r1()) } else { Some(Response::R3(self.conditions())) }
    }

    /// Returns the current OCR.
    fn conditions(&self) -> u32 {
        let (v, ocr) = (&self.volatile, self.identity.ocr.0);
        if v.state == State::Idle {
            return ocr & Ocr::WINDOW;
        }
        let agreed = if v.identification.may_switch { Ocr::LOW_VOLTAGE_SIGNALS } else { 0 };
        Ocr::POWERED_UP | ocr & (Ocr::WINDOW | Ocr::HIGH_CAPACITY | Ocr::OVER_2TB) | agreed
    }

    /// Executes CMD3: publishes a new address each time. The first address is that of the identity.
    fn publish_address(&mut self) -> Option<Response> {
        let errors = self.status();
        let v = &mut self.volatile;
        let address = v.identification.publish_address(self.identity.relative_address, self.seed);
        v.state = State::StandBy;
        // R6 reports three error bits. `execute` clears the other two.
        v.errors = v.errors.without(Status::ERROR);
        Some(Response::R6(u32::from(address) << 16 | u32::from(errors.short())))
    }

    /// Executes CMD7.
    fn select(&mut self, now: Instant, argument: u32) -> Option<Response> {
        let v = &self.volatile;
        let me = v.identification.is_addressed(argument) && v.identification.address != 0;
        match (v.state, me) {
            (State::StandBy, true) => self.r1_then(State::Transfer),
            (State::Disconnect, true) => self.r1_then(State::Programming),
            (State::Transfer | State::SendingData, false) => {
                self.end_transfer(now);
                self.volatile.state = State::StandBy;
                None
            }
            (State::Programming, false) => {
                self.volatile.state = State::Disconnect;
                None
            }
            _ => None,
        }
    }

    /// Executes CMD9 or CMD10: sends the register on the command line, or as a block in SPI mode.
    fn send_wide(&mut self, register: [u8; 16]) -> Option<Response> {
        if self.volatile.spi { self.send(&register) } else { Some(Response::R2(register)) }
    }

    /// Sends `bytes` as a block.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Option<Response> {
        let v = &mut self.volatile;
        v.register[..bytes.len()].copy_from_slice(bytes);
        v.lines = Lines::Register(bytes.len() as u32);
        // Discards the selection of a CMD6 whose data was interrupted.
        v.bus.chosen = None;
        self.r1_then(State::SendingData)
    }

    /// Starts to receive a block that is not user data.
    fn receive_block_for(&mut self, length: u32, purpose: BlockPurpose) -> Option<Response> {
        self.volatile.lines = Lines::ReceiveOther(length, purpose);
        self.r1_then(State::ReceiveData)
    }

    /// Executes CMD6.
    fn switch_function(&mut self, argument: u32) -> Option<Response> {
        let v = &self.volatile;
        let low_voltage = v.bus.signal == Signal::V1_8;
        let chosen =
            self.identity.functions.choose(v.bus.selection, Selection::of_argument(argument), low_voltage);
        let status = self.identity.functions.status(chosen, low_voltage);
        let possible = !chosen.0.contains(&Selection::NONE);
        let switches = argument & SWITCH != 0 && possible;
        let response = self.send(&status);
        self.volatile.bus.chosen = switches.then_some(chosen);
        response
    }

    /// Ends the transfer on the data lines. The data of a write is programmed.
    fn end_transfer(&mut self, now: Instant) {
        match self.volatile.lines {
            Lines::Write => self.end_write(now, Duration::ZERO),
            Lines::Read(_) => self.end_read(now),
            _ => self.volatile.lines = Lines::Idle,
        }
    }

    /// Executes CMD12.
    fn stop(&mut self, now: Instant) -> Option<Response> {
        let response = self.r1();
        if matches!(self.volatile.lines, Lines::Write) {
            self.end_write(now, self.command_time);
        } else {
            self.end_transfer(now);
            self.volatile.state = State::Transfer;
        }
        Some(response)
    }

    /// Makes the card busy until `until`.
    pub(super) fn be_busy(&mut self, now: Instant, until: Instant) {
        self.volatile.busy = until;
        self.volatile.state = if until > now { State::Programming } else { State::Transfer };
    }

    /// Executes CMD48.
    fn read_extension(&mut self, argument: u32) -> Option<Response> {
        let function = (argument >> 27 & 0xf) as u8;
        let (address, length) = ((argument >> 9 & 0x1_ffff) as usize, (argument & 0x1ff) as usize + 1);
        let mut data = [0; 512];
        // Each function has one page. The card has only memory functions.
        if argument >> 31 == 0 && address < 512 {
            let settings = self.volatile.settings;
            let health = || self.health();
            let page = self.identity.extensions.page(function, settings, health);
            let end = (address + length).min(512);
            data[..end - address].copy_from_slice(&page[address..end]);
        }
        self.send(&data)
    }

    /// Executes CMD49.
    fn write_extension(&mut self, argument: u32) -> Option<Response> {
        let function = (argument >> 27 & 0xf) as u8;
        let (offset, length) = ((argument >> 9 & 0x1_ffff) as usize, (argument & 0x1ff) as usize + 1);
        let length = match (argument >> 31, argument >> 26 & 1) {
            (0, 0) => length,
            // In a mask write, the length field is a mask for one byte. Only bit 0 of a register is writable.
            (0, _) => (argument & 1) as usize,
            // The card has no I/O functions.
            _ => 0,
        };
        self.receive_block_for(512, BlockPurpose::Extension { function, offset, length })
    }
}
