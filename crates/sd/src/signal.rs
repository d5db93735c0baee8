//! Bit errors that occur when the clock is too fast for the bus speed mode and a bit is sampled before it has settled.
//!
//! In default speed, a card drives its lines no later than 14 ns after the falling edge. The host samples at
//! the rising edge, half a clock later (SD Physical Layer Specification, section 6.7.1). In high speed the
//! card drives at the rising edge, a whole clock before the host samples (section 6.7.2). In SDR104 the host
//! searches for a sampling point that works (CMD19). The card samples the host's signals half a clock after
//! the host drives them, or a whole clock in SDR50 and SDR104.
//!
//! The margin is the time that remains after all delays are subtracted. Edges jitter. The share of bits that are
//! sampled too early is therefore the tail of a normal distribution beyond the margin. A bit that is sampled too early
//! reads as the previous bit on its line. Lines that switch at the same time delay one another.
//!
//! The default board stands for the AT91RM9200 board of the published figures. On that board, 30 MHz without
//! high speed worked with one data line. With four lines, about a fifth of the data from an old card was
//! wrong. From a new card, only a few bits in a few KiB were wrong. Set-up time, crosstalk and jitter are
//! plausible values, not measurements. The output delays of the cards follow from the observed errors. Half a
//! clock takes 16.7 ns. A set-up time of 3.0 ns and crosstalk of 2.1 ns from three lines leave a margin of
//! 0.17 ns for a card with an output delay of 11.4 ns, and of 0.37 ns for a card with an output delay of 11.2
//! ns. These margins are 1.7 and 3.7 standard deviations. The slowest card that the specification allows has
//! no errors at 25 MHz.

use crate::native::{Ios, Timing};
use crate::register::Identity;
use alloc::boxed::Box;
use flashlab_sim::Rng;

/// Signal timing of the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Board {
    /// Set-up time in picoseconds: how long a line must be stable at the host before the clock edge.
    pub t_setup_ps: u32,
    /// Delay in picoseconds from the clock edge until the host's data is on the wires.
    pub t_output_ps: u32,
    /// Delay in picoseconds that each additional switching line adds to the other lines.
    pub t_crosstalk_ps: u32,
    /// Standard deviation of the time of an edge in picoseconds.
    pub t_jitter_ps: u32,
    /// Sampling point of the host in tuned modes, in 32nds of a clock after the edge.
    pub phase: u8,
    /// True if the host checks the CRC16 of the data that it reads. Drivers of some controllers did not check
    /// it.
    pub checks_crc: bool,
}

impl Default for Board {
    fn default() -> Self {
        Board {
            t_setup_ps: 3_000,
            t_output_ps: 1_000,
            t_crosstalk_ps: 700,
            t_jitter_ps: 100,
            phase: 16,
            checks_crc: true,
        }
    }
}

/// Number of steps of [`Board::phase`].
pub const PHASES: u8 = 32;

/// Set-up time of a host with 1.8 V signals. At a tuned sampling point, the hold time has the same value.
const TUNED_SETUP_PS: i64 = 700;
/// Set-up time that a card needs (t_ISU) in default speed, high speed, and UHS-I.
const CARD_SETUP_PS: i64 = 5_000;
const CARD_SETUP_HIGH_SPEED_PS: i64 = 6_000;
const CARD_SETUP_UHS_PS: i64 = 1_400;
/// Margin in standard deviations above which no bit is wrong.
const SAFE: f64 = 8.0;

/// Random bit errors of lines that are sampled too early.
#[derive(Clone, Debug)]
pub(crate) struct Noise {
    /// Shares of wrong bits: `read` on the data lines to the host, `response` on the command line to the host, `write`
    /// on the lines to the card.
    read: f64,
    response: f64,
    write: f64,
    rng: Rng,
}

impl Noise {
    /// Returns the bit errors between `board` and a card in `access_mode`, or `None` if there are none. The
    /// first errors come from a generator with `seed`. Later errors continue the generator of the previous
    /// `Noise`, which is taken out of `rng`.
    pub(crate) fn new(
        board: &Board,
        ios: &Ios,
        access_mode: u8,
        identity: &Identity,
        seed: u64,
        rng: &mut Option<Rng>,
    ) -> Option<Box<Noise>> {
        if ios.clock_hz == 0 {
            return None;
        }
        let period = 1_000_000_000_000 / i64::from(ios.clock_hz);
        let low_voltage = ios.signal == crate::Signal::V1_8;
        let jitter = f64::from(board.t_jitter_ps.max(1));
        let tail = |margin: i64| {
            let deviations = margin as f64 / jitter;
            if deviations > SAFE {
                0.0
            } else {
                0.5 * libm::erfc(deviations * core::f64::consts::FRAC_1_SQRT_2)
            }
        };
        let uhs = access_mode > 1;
        let output = i64::from(identity.t_output_ps) / if low_voltage { 2 } else { 1 };
        let to_host = |lines: i64| {
            let crosstalk = if low_voltage { 0 } else { i64::from(board.t_crosstalk_ps) * (lines - 1) };
            let setup = if low_voltage { TUNED_SETUP_PS } else { i64::from(board.t_setup_ps) };
            let arrives = output + crosstalk;
            if ios.timing == Timing::Sdr104 {
                let point = period * i64::from(board.phase % PHASES) / i64::from(PHASES);
                let after = (point - arrives).rem_euclid(period);
                return tail((after - setup).min(period - after - setup));
            }
            // In default speed the card drives at the falling edge. In DDR50 a bit lasts half a clock.
            let half = access_mode == 0 && !low_voltage || ios.timing == Timing::Ddr50;
            tail(if half { period / 2 } else { period } - arrives - setup)
        };
        let (window, setup) = match access_mode {
            0 => (period / 2, CARD_SETUP_PS),
            1 => (period / 2, CARD_SETUP_HIGH_SPEED_PS),
            4 => (period / 2, CARD_SETUP_UHS_PS),
            _ => (period, CARD_SETUP_UHS_PS),
        };
        let setup = if low_voltage && !uhs { CARD_SETUP_UHS_PS } else { setup };
        let (read, response) = (to_host(i64::from(ios.width)), to_host(1));
        let write = tail(window - i64::from(board.t_output_ps) - setup);
        if read + response + write == 0.0 {
            return None;
        }
        let rng = rng.take().unwrap_or_else(|| Rng::for_purpose(seed, u64::from_le_bytes(*b"signals!")));
        Some(Box::new(Noise { read, response, write, rng }))
    }

    pub(crate) fn into_rng(self) -> Rng {
        self.rng
    }

    /// Draws the number of correct bits before the next wrong one. Returns `None` if the wrong bit is beyond
    /// `bits`.
    fn next(&mut self, share: f64, bits: u64) -> Option<u64> {
        if share <= 0.0 {
            return None;
        }
        if share >= 1.0 {
            return (bits > 0).then_some(0);
        }
        let gap = libm::log(1.0 - self.rng.unit()) / libm::log1p(-share);
        (gap < bits as f64).then_some(gap as u64)
    }

    /// Corrupts the bits of `bytes` that are sampled too early on each of `width` lines.
    fn corrupt(&mut self, bytes: &mut [u8], width: u8, share: f64) {
        let lines = usize::from(width.max(1));
        let (original, clocks) = (bytes.to_vec(), bytes.len() * 8 / lines);
        for line in 0..lines {
            let bit = |clock: usize| {
                let place = clock * lines + (lines - 1 - line);
                (place / 8, 7 - place % 8)
            };
            let mut at = 0;
            while let Some(gap) = self.next(share, (clocks - at) as u64) {
                at += gap as usize;
                let (byte, shift) = bit(at);
                // The bit before the first data bit is the start bit, which is 0.
                let before = at.checked_sub(1).map_or(0, |clock| {
                    let (byte, shift) = bit(clock);
                    original[byte] >> shift & 1
                });
                bytes[byte] = bytes[byte] & !(1 << shift) | before << shift;
                at += 1;
            }
        }
    }

    /// Corrupts bits on their way to the host. With `width` 1, `bytes` are a frame on the command line or a block on
    /// the only data line.
    pub(crate) fn corrupt_to_host(&mut self, bytes: &mut [u8], width: u8) {
        let share = if width == 1 { self.response } else { self.read };
        self.corrupt(bytes, width, share);
    }

    /// Corrupts bits on their way to the card.
    pub(crate) fn corrupt_to_card(&mut self, bytes: &mut [u8], width: u8) {
        self.corrupt(bytes, width, self.write);
    }

    /// Returns true if the checksums of a block reach the host intact.
    pub(crate) fn checksums_intact_to_host(&mut self, width: u8) -> bool {
        self.bits_intact(16 * u64::from(width), self.read)
    }

    /// Returns true if a block without stored bytes reaches the host intact, with its checksums.
    pub(crate) fn block_to_host(&mut self, length: u32, width: u8) -> bool {
        self.bits_intact(u64::from(length) * 8 + 16 * u64::from(width), self.read)
    }

    /// Returns true if a block without stored bytes reaches the card intact, with its checksums.
    pub(crate) fn block_to_card(&mut self, length: u32, width: u8) -> bool {
        self.bits_intact(u64::from(length) * 8 + 16 * u64::from(width), self.write)
    }

    /// Returns true if `bits` of unknown content arrive intact. A bit that is sampled too early equals the previous bit
    /// with a probability of one half, and is then correct.
    fn bits_intact(&mut self, bits: u64, share: f64) -> bool {
        let mut left = bits;
        while let Some(gap) = self.next(share, left) {
            if self.rng.below(2) == 0 {
                return false;
            }
            left -= gap + 1;
        }
        true
    }
}
