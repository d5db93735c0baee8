//! Operation times of an array.
//!
//! The array time of a read is uniformly distributed around its mean. The time of a program depends on the page type;
//! the time of an erase is constant. A transfer consists of the command cycles and the bytes at the channel's rate. Not
//! modelled: cache reads and cache programs (a die's register is busy until its operation ends), and the command cycles
//! of an erase.

use super::Cell;
use crate::Impossible;
use alloc::format;
use flashlab_sim::Duration;
use serde::{Deserialize, Serialize};

/// Operation times of a flash array.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Timing {
    /// Cell type, which determines the number of page types.
    pub cell: Cell,
    /// Mean time from array to register, t_R.
    pub t_read: Duration,
    /// Half-width of the uniform distribution of t_R, in parts per million of the mean.
    pub t_read_spread_ppm: u32,
    /// Mean t_R of a block in SLC mode, with the same spread.
    pub t_read_slc: Duration,
    /// Time to program a page of each type, t_PROG, lower first. Only the first `cell.bits()` entries are used.
    pub t_prog: [Duration; 4],
    /// t_PROG of a block in SLC mode.
    pub t_prog_slc: Duration,
    /// Time to erase a block, t_BERS.
    pub t_bers: Duration,
    /// Channel rate in bytes per second.
    pub channel_rate: u64,
    /// Command and address cycles on the channel, once per transfer.
    pub t_command: Duration,
}

impl Timing {
    /// Checks the times.
    pub fn check(&self) -> Result<(), Impossible> {
        // A value that serves as the default of others is checked before them.
        let read = "reading a page takes time, for example \"60us\"";
        let program = "programming a page takes time, for example \"600us\"";
        let paths = ["nand.t_prog", "nand.t_prog_2", "nand.t_prog_3", "nand.t_prog_4"];
        let programs = paths.into_iter().zip(self.t_prog).take(self.cell.bits() as usize);
        let times = programs.map(|(path, t)| (path, t, program)).chain([
            ("nand.t_prog_slc", self.t_prog_slc, program),
            ("nand.t_read", self.t_read, read),
            ("nand.t_read_slc", self.t_read_slc, read),
            ("nand.t_bers", self.t_bers, "erasing a block takes time, for example \"5ms\""),
        ]);
        for (path, time, why) in times {
            if time == Duration::ZERO {
                return Err(Impossible::new(path, format!("is 0; {why}")));
            }
            if time > Duration::from_secs(3_600) {
                return Err(Impossible::new(path, format!("is {time}; expected at most an hour")));
            }
        }
        if self.t_read_spread_ppm >= 1_000_000 {
            return Err(Impossible::new(
                "nand.t_read_spread",
                format!("is {} ppm; from 1000000 on, times would become negative", self.t_read_spread_ppm),
            ));
        }
        if !(1_000..=1_000_000_000_000).contains(&self.channel_rate) {
            return Err(Impossible::new(
                "nand.channel_rate",
                format!("is {} B/s; expected 1 kB/s to 1 TB/s, for example \"1200MB/s\"", self.channel_rate),
            ));
        }
        if self.t_command > Duration::from_secs(1) {
            return Err(Impossible::new(
                "nand.t_command",
                format!("is {}; expected at most a second, for example \"300ns\"", self.t_command),
            ));
        }
        Ok(())
    }

    /// Returns the mean t_R.
    #[inline]
    pub fn read(&self, slc: bool) -> Duration {
        if slc { self.t_read_slc } else { self.t_read }
    }

    /// Returns t_R for a random number `draw`: the minimum for 0, the maximum for `u64::MAX`.
    #[inline]
    pub fn read_at(&self, slc: bool, draw: u64) -> Duration {
        let mean = self.read(slc).as_ns();
        if self.t_read_spread_ppm == 0 {
            return Duration::from_ns(mean);
        }
        // An hour is 2^42 ns, a million is 2^20.
        let spread = mean * u64::from(self.t_read_spread_ppm) / 1_000_000;
        let above = (u128::from(2 * spread + 1) * u128::from(draw)) >> 64;
        Duration::from_ns(mean - spread + above as u64)
    }

    /// Returns t_PROG of page `page` of a block.
    #[inline]
    pub fn program(&self, page: u32, slc: bool) -> Duration {
        if slc { self.t_prog_slc } else { self.t_prog[self.cell.page_type(page)] }
    }

    /// Returns the mean t_PROG over the page types.
    pub fn program_mean(&self) -> Duration {
        let types = &self.t_prog[..self.cell.bits() as usize];
        types.iter().copied().sum::<Duration>() / types.len() as u64
    }

    /// Returns the time of a transfer of `bytes` on the channel, including the command cycles. The time of
    /// the bytes is rounded to the nearest nanosecond; halves round up.
    #[inline]
    pub fn transfer(&self, bytes: u32) -> Duration {
        // 2^32 x 10^9 is below 2^62.
        let ns = (u64::from(bytes) * 1_000_000_000 + self.channel_rate / 2) / self.channel_rate;
        self.t_command + Duration::from_ns(ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    const TLC: Timing = Timing {
        cell: Cell::Tlc,
        t_read: Duration::from_us(50),
        t_read_spread_ppm: 250_000,
        t_read_slc: Duration::from_us(25),
        t_prog: [Duration::from_us(300), Duration::from_us(600), Duration::from_us(900), Duration::ZERO],
        t_prog_slc: Duration::from_us(200),
        t_bers: Duration::from_ms(5),
        channel_rate: 1_200_000_000,
        t_command: Duration::from_ns(300),
    };

    #[test]
    fn pages_of_a_tlc_block_take_the_time_of_their_type_and_slc_pages_another() {
        assert_eq!(TLC.check(), Ok(()));
        assert_eq!(TLC.program(4, false), Duration::from_us(600));
        assert_eq!(TLC.program(4, true), Duration::from_us(200));
        assert_eq!(TLC.program_mean(), Duration::from_us(600));
    }

    #[test]
    fn the_time_of_a_read_is_within_its_spread_including_the_ends() {
        assert_eq!(TLC.read_at(false, 0), Duration::from_ns(37_500));
        assert_eq!(TLC.read_at(false, u64::MAX), Duration::from_ns(62_500));
        assert_eq!(TLC.read_at(false, 1 << 63), Duration::from_us(50));
    }

    #[test]
    fn a_transfer_takes_the_command_time_and_the_bytes_at_the_channel_rate() {
        assert_eq!(TLC.transfer(4_096), Duration::from_ns(300 + 3_413));
        assert_eq!(TLC.transfer(0), Duration::from_ns(300));
        assert_eq!(TLC.transfer(u32::MAX), Duration::from_ns(300 + 3_579_139_413));
    }

    #[test]
    fn impossible_times_are_refused_with_the_number_and_its_place() {
        let two_types = [TLC.t_prog[0], TLC.t_prog[1], Duration::ZERO, Duration::ZERO];
        let wrong = [
            Timing { t_prog: two_types, ..TLC },
            Timing { t_bers: Duration::from_secs(7_200), ..TLC },
            Timing { t_read_spread_ppm: 1_000_000, ..TLC },
            Timing { channel_rate: 0, ..TLC },
            Timing { t_command: Duration::from_secs(2), ..TLC },
        ];
        let messages: alloc::vec::Vec<_> = wrong.iter().map(|t| t.check().unwrap_err().to_string()).collect();
        assert_eq!(
            messages,
            [
                "nand.t_prog_3 is 0; programming a page takes time, for example \"600us\"",
                "nand.t_bers is 7200s; expected at most an hour",
                "nand.t_read_spread is 1000000 ppm; from 1000000 on, times would become negative",
                "nand.channel_rate is 0 B/s; expected 1 kB/s to 1 TB/s, for example \"1200MB/s\"",
                "nand.t_command is 2s; expected at most a second, for example \"300ns\"",
            ]
        );
    }
}
