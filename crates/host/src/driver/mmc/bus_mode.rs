//! Bus mode, clock and width: CMD6, ACMD6, and the tuning of UHS-I.

use super::card::CardInfo;
use super::command::{
    CommandType, Data, Direction, MmcCommand, MmcRequest, MmcResponseType, SpiResponseType,
};
use super::decoded::{CsdFields, SwitchFields};
use super::log::Event;
use super::send::Bytes;
use super::{Error, Mmc};
use flashlab_sd::opcode;
use flashlab_sd::{Board, PHASES, Timing};
use flashlab_sim::Duration;

/// Group 1 of CMD6: bus modes.
const MODE_GROUP: u32 = 0;
/// Group 4 of CMD6: current limits.
const CURRENT_GROUP: u32 = 3;
const HIGH_SPEED: u8 = 1;

/// UHS-I modes in the order of preference of Linux: function of group 1, timing, and maximum clock.
const UHS_MODES: [(u8, Timing, u32); 5] = [
    (3, Timing::Sdr104, 208_000_000),
    (4, Timing::Ddr50, 50_000_000),
    (2, Timing::Sdr50, 100_000_000),
    (1, Timing::Sdr25, 50_000_000),
    (0, Timing::Sdr12, 25_000_000),
];

/// Tuning block that the card sends in response to CMD19: section 4.2.4.5 of the specification.
const TUNING_BLOCK: [u8; 64] = [
    0xff, 0x0f, 0xff, 0x00, 0xff, 0xcc, 0xc3, 0xcc, 0xc3, 0x3c, 0xcc, 0xff, 0xfe, 0xff, 0xfe, 0xef, //
    0xff, 0xdf, 0xff, 0xdd, 0xff, 0xfb, 0xff, 0xfb, 0xbf, 0xff, 0x7f, 0xff, 0x77, 0xf7, 0xbd, 0xef, //
    0xff, 0xf0, 0xff, 0xf0, 0x0f, 0xfc, 0xcc, 0x3c, 0xcc, 0x33, 0xcc, 0xcf, 0xff, 0xef, 0xff, 0xee, //
    0xff, 0xfd, 0xff, 0xfd, 0xdf, 0xff, 0xbf, 0xff, 0xbb, 0xff, 0xf7, 0xff, 0xf7, 0x7f, 0x7b, 0xde,
];

impl Mmc {
    /// Returns the UHS-I modes that the host supports. There are none without four data lines.
    pub(super) fn uhs(&self) -> &'static [Timing] {
        if self.controller.four_lines { self.controller.uhs } else { &[] }
    }

    /// Sends CMD6 for function `value` in `group`, with no influence on the other groups.
    fn switch(&mut self, card: &CardInfo, set: bool, group: u32, value: u8) -> Result<SwitchFields, Error> {
        let argument =
            u32::from(set) << 31 | (0x00ff_ffff & !(0xf << (4 * group))) | u32::from(value) << (4 * group);
        let cmd = MmcCommand::new(
            opcode::SWITCH_FUNC,
            argument,
            MmcResponseType::R1,
            CommandType::Data,
            SpiResponseType::R1,
        );
        let limit = card.limit(false, self.ios.clock_hz);
        self.read_register(cmd, limit).map(|raw| SwitchFields::of(&raw))
    }

    /// Reads with CMD6 which functions the card supports. Cards of version 1.0 have none.
    pub(super) fn read_switch(&mut self, card: &mut CardInfo) -> Result<(), Error> {
        if card.scr.version < 1 {
            return Ok(());
        }
        if card.csd.classes & CsdFields::SWITCH == 0 {
            self.note(|| Event::Warning("card lacks mandatory switch function, performance might suffer"));
            return Ok(());
        }
        card.switch = self.switch(card, false, MODE_GROUP, 0)?;
        Ok(())
    }

    /// Selects high speed if host and card support it, sets the clock, and selects four data lines if both support
    /// them.
    pub(super) fn enter_high_speed(&mut self, card: &CardInfo) -> Result<(), Error> {
        let mut clock = card.csd.clock_max;
        let can_switch = card.scr.version >= 1 && card.csd.classes & CsdFields::SWITCH != 0;
        if can_switch && self.controller.high_speed && card.switch.has_mode(HIGH_SPEED) {
            let switched = self.switch(card, true, MODE_GROUP, HIGH_SPEED)?;
            if switched.chosen[MODE_GROUP as usize] == HIGH_SPEED {
                self.set_ios(|ios| ios.timing = Timing::HighSpeed);
                clock = 50_000_000;
            } else {
                self.note(|| Event::Warning("Problem switching card into high-speed mode!"));
            }
        }
        self.set_clock(clock);
        self.widen(card)
    }

    /// Selects four data lines with ACMD6 if host and card support them.
    fn widen(&mut self, card: &CardInfo) -> Result<(), Error> {
        const FOUR: u32 = 2;
        if !self.controller.four_lines || !card.scr.four_lines {
            return Ok(());
        }
        let cmd = MmcCommand::new(
            opcode::app::SET_BUS_WIDTH,
            FOUR,
            MmcResponseType::R1,
            CommandType::Addressed,
            SpiResponseType::Nothing,
        );
        self.application(Some(card.address), cmd)?;
        self.set_ios(|ios| ios.width = 4);
        Ok(())
    }

    /// Enters UHS-I: four data lines, current limit, bus mode, clock, tuning.
    pub(super) fn enter_uhs(&mut self, card: &CardInfo) -> Result<(), Error> {
        if !card.scr.version_3 || card.csd.classes & CsdFields::SWITCH == 0 {
            return Ok(());
        }
        self.widen(card)?;
        let uhs = self.uhs();
        // A host with SDR104 also supports SDR50 and the slower SDR modes.
        let drives = |timing| {
            uhs.contains(&timing)
                || timing != Timing::Ddr50 && uhs.iter().any(|t| sdr_rank(*t) > sdr_rank(timing))
        };
        let chosen = UHS_MODES.into_iter().find(|(n, timing, _)| card.switch.has_mode(*n) && drives(*timing));
        let Some((function, timing, clock)) = chosen else { return Ok(()) };
        self.limit_current(card, timing)?;
        let switched = self.switch(card, true, MODE_GROUP, function)?;
        if switched.chosen[MODE_GROUP as usize] == function {
            self.set_ios(|ios| ios.timing = timing);
            self.set_clock(clock);
        } else {
            self.note(|| Event::Warning("Problem setting bus speed mode!"));
        }
        if matches!(self.ios.timing, Timing::Sdr50 | Timing::Ddr50 | Timing::Sdr104) {
            let tuned = self.tune();
            if tuned.is_err() && timing == Timing::Ddr50 {
                self.note(|| Event::Warning("ddr50 tuning failed"));
            } else {
                tuned?;
            }
        }
        Ok(())
    }

    /// In SDR50, SDR104 and DDR50, selects the highest current limit that both host and card support.
    fn limit_current(&mut self, card: &CardInfo, timing: Timing) -> Result<(), Error> {
        const LIMITS: [(u32, u8); 4] = [(800, 3), (600, 2), (400, 1), (200, 0)];
        if !matches!(timing, Timing::Sdr50 | Timing::Sdr104 | Timing::Ddr50) {
            return Ok(());
        }
        let most = self.controller.current_max_ma;
        let limit = LIMITS.into_iter().find(|(ma, n)| most >= *ma && card.switch.currents >> n & 1 == 1);
        let Some((_, function)) = limit else { return Ok(()) };
        let switched = self.switch(card, true, CURRENT_GROUP, function)?;
        if switched.chosen[CURRENT_GROUP as usize] != function {
            self.note(|| Event::Warning("Problem setting current limit!"));
        }
        Ok(())
    }

    /// Sends CMD19 at each sampling point, and selects the middle of the longest run of points at which the block
    /// arrives intact. The controller's driver sends these commands, so they do not appear in the core's log.
    fn tune(&mut self) -> Result<(), Error> {
        let cmd = MmcCommand::new(
            opcode::SEND_TUNING_BLOCK,
            0,
            MmcResponseType::R1,
            CommandType::Data,
            SpiResponseType::Nothing,
        );
        let data = Data { direction: Direction::Read, block: 64, blocks: 1, limit: Duration::from_ms(150) };
        let board = *self.native.board();
        let begun = self.now();
        let (mut run, mut longest) = (0, 0..0);
        for phase in 0..PHASES {
            self.native.set_board(Board { phase, ..board });
            let mut block = [0; 64];
            let done = self.issue(&MmcRequest::with_data(cmd, data), &mut Bytes::Read(&mut block));
            run = if done.error().is_none() && block == TUNING_BLOCK { run + 1 } else { 0 };
            if run > longest.len() as u8 {
                longest = (phase + 1 - run)..(phase + 1);
            }
        }
        let found = !longest.is_empty();
        let phase = if found { (longest.start + longest.end) / 2 } else { board.phase };
        self.native.set_board(Board { phase, ..board });
        let took = self.now().since(begun);
        self.note(|| Event::Tuned { took, blocks: u32::from(PHASES), found });
        if found { Ok(()) } else { Err(Error::Failed) }
    }
}

/// Returns the rank of a single-edge UHS-I mode, slowest first; 0 for other timings.
fn sdr_rank(timing: Timing) -> u32 {
    match timing {
        Timing::Legacy | Timing::HighSpeed | Timing::Ddr50 => 0,
        Timing::Sdr12 => 1,
        Timing::Sdr25 => 2,
        Timing::Sdr50 => 3,
        Timing::Sdr104 => 4,
    }
}
