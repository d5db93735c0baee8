//! Whether a bit is sampled after it has settled: what a clock too fast for its mode does to data.
//!
//! In default speed a card drives its lines at the falling edge, no later than 14 ns after it, and the host samples at the
//! rising edge, half a clock later (SD Physical Layer Specification, section 6.7.1). In high speed the card drives at the
//! rising edge, a whole clock before it is sampled (section 6.7.2); in SDR104 the host looks for a sampling point that fits
//! (CMD19). The card samples what the host drives half a clock before, or a whole one in the UHS-I modes.
//!
//! The time that is left when all delays are taken off is the margin. Edges jitter, so the share of bits that are sampled
//! too early is the tail of a normal distribution beyond the margin; such a bit reads as the one before it on its line. Lines
//! that switch together delay one another.
//!
//! The default board stands for the AT91RM9200 board of the published figures, on which 30 MHz without high speed worked with
//! one line, and with four got about a fifth of an old card's data wrong and a few bits in a few KiB of a new one's. Set-up
//! time, crosstalk and jitter are plausible, not measured; the cards' output delays then follow from what was seen: at
//! 16.7 ns half a clock, 3.0 ns set-up and 2.1 ns crosstalk of three lines leave 0.16 ns to a card of 11.4 ns and 0.35 ns to
//! one of 11.2 ns, 1.6 and 3.5 deviations. The slowest card that the specification allows is clean at 25 MHz.

use crate::native::{Ios, Timing};
use crate::register::Identity;
use alloc::boxed::Box;
use flashlab_sim::Rng;

/// The host's half of the signals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Board {
    /// How long before the clock's edge a line must stand at the host, in picoseconds.
    pub t_setup_ps: u32,
    /// From the clock's edge to the host's data on the wires.
    pub t_output_ps: u32,
    /// By how much each further line that switches delays the others.
    pub t_crosstalk_ps: u32,
    /// The deviation of an edge.
    pub t_jitter_ps: u32,
    /// Where the host samples in modes that are tuned, in 32ths of a clock behind the edge.
    pub phase: u8,
    /// Whether the host checks the CRC16 of what it reads; some controllers' drivers did not.
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

/// Steps of [`Board::phase`].
pub const PHASES: u8 = 32;

/// What a host needs before and after a sampling point that is tuned, and a card after an edge of 1.8 V signals.
const TUNED_SETUP_PS: i64 = 700;
/// What a card needs: t_ISU of default speed, high speed, and of UHS-I.
const CARD_SETUP_PS: i64 = 5_000;
const CARD_SETUP_HIGH_SPEED_PS: i64 = 6_000;
const CARD_SETUP_UHS_PS: i64 = 1_400;
/// Margins of so many deviations are as good as any.
const SAFE: f64 = 8.0;

/// Bits that are sampled too early.
#[derive(Clone, Debug)]
pub(crate) struct Noise {
    /// The share of bits to the host on data lines, on the command line, and to the card on data lines.
    read: f64,
    response: f64,
    write: f64,
    rng: Rng,
}

impl Noise {
    /// What is wrong between `board` and a card in `access_mode`; `None` where nothing is. `rng` goes on where one before
    /// ended.
    pub(crate) fn new(
        board: &Board,
        ios: &Ios,
        access_mode: u8,
        identity: &Identity,
        seed: u64,
        rng: Option<Rng>,
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
            // At the falling edge by default, at the edge of a bit of half a clock with both.
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
        let rng = rng.unwrap_or_else(|| Rng::for_purpose(seed, u64::from_le_bytes(*b"signals!")));
        Some(Box::new(Noise { read, response, write, rng }))
    }

    pub(crate) fn into_rng(self) -> Rng {
        self.rng
    }

    /// The next bit that is sampled too early, counted from the last one; `None` beyond `bits`.
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

    /// Samples some bits of `bytes` too early, on each of `width` lines.
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
                // Before the first bit of a frame lies its start bit.
                let before = at.checked_sub(1).map_or(0, |clock| {
                    let (byte, shift) = bit(clock);
                    original[byte] >> shift & 1
                });
                bytes[byte] = bytes[byte] & !(1 << shift) | before << shift;
                at += 1;
            }
        }
    }

    /// Bits to the host: on the command line where `width` is 1 and `bytes` are a frame.
    pub(crate) fn reaches_host(&mut self, bytes: &mut [u8], width: u8) {
        let share = if width == 1 { self.response } else { self.read };
        self.corrupt(bytes, width, share);
    }

    /// Bits to the card.
    pub(crate) fn reaches_card(&mut self, bytes: &mut [u8], width: u8) {
        self.corrupt(bytes, width, self.write);
    }

    /// Whether the checksums of a block arrive at the host as they were sent.
    pub(crate) fn sums_to_host(&mut self, width: u8) -> bool {
        self.arrive(16 * u64::from(width), self.read)
    }

    /// Whether a block without bytes arrives at the host as it was sent, with its checksums.
    pub(crate) fn block_to_host(&mut self, length: u32, width: u8) -> bool {
        self.arrive(u64::from(length) * 8 + 16 * u64::from(width), self.read)
    }

    /// Whether one arrives at the card so.
    pub(crate) fn block_to_card(&mut self, length: u32, width: u8) -> bool {
        self.arrive(u64::from(length) * 8 + 16 * u64::from(width), self.write)
    }

    /// Whether `bits` of any content are right, though some are sampled too early: half of them are what they were before.
    fn arrive(&mut self, bits: u64, share: f64) -> bool {
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
