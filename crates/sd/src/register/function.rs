//! Switchable functions of CMD6, section 4.3.10: six groups of sixteen functions. One function of each group is
//! selected.

use super::set_bits;
use crate::Mode;

/// A function group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(usize)]
pub enum Group {
    /// Group 1: default speed or SDR12, high speed or SDR25, SDR50, SDR104, DDR50.
    AccessMode,
    /// Group 2: the command system.
    CommandSystem,
    /// Group 3: the driver strength.
    DriverStrength,
    /// Group 4: the power limit, which the access mode may not exceed.
    PowerLimit,
}

/// The functions that a card supports, and its current consumption in each access mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Functions {
    /// A bit for each function of each group, indexed by the group number minus one.
    pub supported: [u16; 6],
    /// Current in milliamperes in each access mode.
    pub current_ma: [u16; 5],
}

/// A function number for each group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Selection(pub [u8; 6]);

impl Selection {
    /// "No influence" in a CMD6; "not available" in its response.
    pub const NONE: u8 = 0xf;

    /// Returns the functions that a CMD6 requests.
    pub fn of_argument(argument: u32) -> Self {
        Selection(core::array::from_fn(|group| (argument >> (4 * group) & 0xf) as u8))
    }
}

impl Functions {
    /// Creates the functions of a card with these bus modes.
    pub fn new(modes: &[Mode]) -> Self {
        let access = modes.iter().fold(1, |bits, mode| bits | 1 << access_mode(*mode));
        let uhs = access >> 2 != 0;
        let strengths = if uhs { 0b1111 } else { 1 };
        Functions {
            supported: [0x8000 | access, 0x8001, 0x8000 | strengths, 0x8001, 0x8001, 0x8001],
            // At 3.6 V: 0.36 W in default speed and 0.72 W in high speed (sections 6.6.3 and 3.9.3). UHS-I: 400 mA.
            current_ma: [100, 200, 400, 400, 400],
        }
    }

    /// Returns the available functions with or without 1.8 V signals. The UHS-I access modes need 1.8 V.
    pub fn available(&self, low_voltage: bool) -> [u16; 6] {
        let mut available = self.supported;
        if !low_voltage {
            available[Group::AccessMode as usize] &= 0x8003;
        }
        available
    }

    /// Returns the selection after a request for `asked` with the current selection `now`. A group whose requested
    /// function is not available has [`Selection::NONE`].
    pub fn choose(&self, now: Selection, asked: Selection, low_voltage: bool) -> Selection {
        let available = self.available(low_voltage);
        Selection(core::array::from_fn(|group| match asked.0[group] {
            Selection::NONE => now.0[group],
            function if available[group] >> function & 1 == 1 => function,
            _ => Selection::NONE,
        }))
    }

    /// Returns the 64-byte switch function status that CMD6 sends for `chosen`.
    pub fn status(&self, chosen: Selection, low_voltage: bool) -> [u8; 64] {
        let mut status = [0; 64];
        let possible = !chosen.0.contains(&Selection::NONE);
        let mode = usize::from(chosen.0[Group::AccessMode as usize]);
        let current = if possible { self.current_ma.get(mode).copied().unwrap_or(0) } else { 0 };
        set_bits(&mut status, 511, 496, u64::from(current));
        for (group, bits) in (0..).zip(self.available(low_voltage)) {
            set_bits(&mut status, 415 + 16 * group, 400 + 16 * group, u64::from(bits));
            set_bits(&mut status, 379 + 4 * group, 376 + 4 * group, u64::from(chosen.0[group as usize]));
        }
        status
    }
}

/// Returns the function number of a mode in group 1. The modes of eMMC are selected by its HS_TIMING register instead,
/// and count as high speed here.
pub(crate) fn access_mode(mode: Mode) -> u8 {
    match mode {
        Mode::DefaultSpeed => 0,
        Mode::HighSpeed | Mode::Hs52 | Mode::Ddr52 | Mode::Hs200 | Mode::Hs400 => 1,
        Mode::Sdr50 => 2,
        Mode::Sdr104 => 3,
        Mode::Ddr50 => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cmd6_checks_functions_and_switches_to_high_speed() {
        let functions = Functions::new(&Mode::ALL);
        let now = Selection::default();
        let check = functions.choose(now, Selection::of_argument(0x00ff_fff0), false);
        assert_eq!(check, now);
        let status = functions.status(check, false);
        assert_eq!(status[12..14], [0x80, 0x03], "UHS-I modes need 1.8 V");
        assert_eq!(functions.status(check, true)[12..14], [0x80, 0x1f]);
        let switch = functions.choose(now, Selection::of_argument(0x80ff_fff1), false);
        assert_eq!(switch.0, [1, 0, 0, 0, 0, 0]);
        assert_eq!(functions.status(switch, false)[16], 0x01);
        let refused = functions.choose(now, Selection::of_argument(0x80ff_fff3), false);
        let status = functions.status(refused, false);
        assert_eq!((status[16], status[0], status[1]), (0x0f, 0, 0));
    }
}
