//! The numbers that a fit can estimate: one row each, in the order of their priority.
//!
//! A number enters a fit if the base profile has it and the cells depend on it. An optional number that the base
//! profile lacks enters with a mechanism of [`super::mechanisms`] that the cells need.

use super::forward::Access;
use flashlab_catalogue::units::Dimension;
use flashlab_fio::job::Direction;

/// A row of the table.
pub(super) struct Row {
    /// Path of the number.
    pub path: &'static str,
    /// Dimension of the values. A count has none.
    pub dimension: Option<Dimension>,
    /// Least and greatest value, in base units.
    pub bounds: (f64, f64),
    /// Step of the numeric derivative, as the logarithm of a factor.
    pub step: f64,
    /// Values that the number can have.
    pub grid: Grid,
    /// Paths of numbers that always have the same value.
    pub tied: &'static [&'static str],
    /// Computes the start in closed form from the measured cells and the number of bytes that the base profile programs
    /// at a time; `None` if no cell can determine the number. An optional number of a mechanism starts from the
    /// mechanism's values.
    pub start: fn(&[Access], f64) -> Option<f64>,
    /// True if cards without the number exist. Such a number enters a fit with a mechanism, or from a base profile that
    /// has it.
    pub optional: bool,
}

/// The values that a number can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Grid {
    /// Any value.
    Any,
    /// Multiples of the number at this path.
    MultiplesOf(&'static str),
    /// Powers of two.
    PowersOfTwo,
    /// Whole numbers.
    Whole,
}

const NS: f64 = 1e9;
const KIB: f64 = 1024.0;
const MIB: f64 = 1_048_576.0;
/// Requests up to this size show the cost of a request. Larger requests show the cost of their bytes.
const SMALL: u64 = 16 << 10;

/// All rows. A parameter of the catalogue that a fit can estimate is one row here.
pub(super) const TABLE: &[Row] = &[
    // A small random read takes t_read, the command and the bus.
    row("flash.t_read", (2e3, 50e6), |cells, _| {
        Some(0.7 * NS * least(cells, |c| c.direction == Direction::Read && c.block <= SMALL)?)
    }),
    // A long write takes t_prog for each page or stripe, and hides the bus.
    row("flash.t_prog", (2e3, 100e6), |cells, program| {
        Some(0.8 * NS * program / fastest_long(cells, Direction::Write)?)
    }),
    // A small write on a fresh area takes a program and a commit.
    row("ftl.t_commit", (2e3, 1e9), |cells, _| {
        Some(0.6 * NS * least(cells, |c| c.direction == Direction::Write && c.random && c.block <= SMALL)?)
    }),
    // A small overwrite of data written in sequence copies a rewrite unit, which takes somewhat longer than a long write of
    // this size. If no small write is slower than another one, the start is the most common size.
    Row {
        step: 0.35,
        dimension: Some(Dimension::Size),
        grid: Grid::MultiplesOf("ftl.map_unit"),
        ..row("ftl.rewrite_unit", (16.0 * KIB, 256.0 * MIB), |cells, _| {
            least(cells, |c| c.direction == Direction::Write && c.random)?;
            let small = |c: &Access| c.direction == Direction::Write && c.random && c.block <= SMALL;
            let copied = || {
                let slowest = cells.iter().filter(|c| small(c)).map(|c| c.seconds).reduce(f64::max)?;
                Some(0.7 * (slowest - least(cells, small)?) * fastest_long(cells, Direction::Write)?)
            };
            Some(copied().filter(|bytes| *bytes > 128.0 * KIB).unwrap_or(256.0 * KIB))
        })
    },
    // The bytes of a long read leave the array at this rate, which is not far above the fastest read.
    Row {
        dimension: Some(Dimension::Rate),
        ..row("flash.read_rate", (2.0 * MIB, 2048.0 * MIB), |cells, _| {
            Some(1.5 * fastest_long(cells, Direction::Read)?)
        })
    },
    // Random reads over a wide range miss the cache of the map.
    Row {
        step: 0.3,
        dimension: Some(Dimension::Size),
        grid: Grid::MultiplesOf("ftl.map_page"),
        ..row("ftl.map_cache", (32_768.0, 67_108_864.0), |cells, _| {
            least(cells, |c| c.direction == Direction::Read && c.random).map(|_| 524_288.0)
        })
    },
    row("host.t_command", (1e3, 10e6), |cells, _| least(cells, |_| true).map(|_| 60e3)),
    row("host.t_block", (10.0, 1e6), |cells, _| least(cells, |_| true).map(|_| 1e3)),
    optional("ftl.t_write", (2e3, 1e9)),
    optional("ftl.t_switch", (2e3, 1e9)),
    // The smallest program: a smaller write costs as much, and leaves no part of the page to be programmed later.
    Row { tied: &["ftl.program_unit"], ..powers("flash.page", (4.0 * KIB, 64.0 * KIB)) },
    powers("flash.stripe", (16.0 * KIB, 1024.0 * KIB)),
    powers("card.write_buffer", (16.0 * KIB, 1024.0 * KIB)),
    powers("card.read_ahead", (4.0 * KIB, 1024.0 * KIB)),
    optional("card.t_command", (1e3, 10e6)),
    powers("ftl.small_max", (KIB, 64.0 * KIB)),
    // A small random write takes one program in the area for small writes.
    Row {
        start: |cells, _| {
            let small = |c: &Access| c.direction == Direction::Write && c.random && c.block <= SMALL;
            Some(0.6 * NS * least(cells, small)?)
        },
        ..optional("flash.t_prog_small", (2e3, 1e9))
    },
    powers("ftl.small_page", (4.0 * KIB, 64.0 * KIB)),
    powers("ftl.small_size", (256.0 * KIB, 4096.0 * MIB)),
    optional("ftl.t_copy", (100e3, 9e9)),
    Row { grid: Grid::Whole, dimension: None, ..optional("ftl.open_units", (1.0, 64.0)) },
    optional("card.t_access_high_speed", (1e3, 50e6)),
    optional("card.t_access_sdr50", (1e3, 50e6)),
    optional("card.t_access_ddr50", (1e3, 50e6)),
    optional("card.t_access_sdr104", (1e3, 50e6)),
    Row { grid: Grid::Whole, dimension: None, ..optional("flash.dies", (1.0, 32.0)) },
    Row { grid: Grid::Whole, dimension: None, ..optional("card.queue_buffers", (1.0, 32.0)) },
    powers("card.drain", (4.0 * KIB, 1024.0 * KIB)),
    optional("card.t_command_write", (1e3, 10e6)),
    powers("card.cache", (64.0 * KIB, 1024.0 * MIB)),
];

const fn row(path: &'static str, bounds: (f64, f64), start: fn(&[Access], f64) -> Option<f64>) -> Row {
    let dimension = Some(Dimension::Time);
    Row { path, dimension, bounds, step: 0.04, grid: Grid::Any, tied: &[], start, optional: false }
}

const fn optional(path: &'static str, bounds: (f64, f64)) -> Row {
    Row { optional: true, ..row(path, bounds, |_, _| None) }
}

const fn powers(path: &'static str, bounds: (f64, f64)) -> Row {
    Row { dimension: Some(Dimension::Size), grid: Grid::PowersOfTwo, ..optional(path, bounds) }
}

/// Returns the shortest time of a request among the cells that `of` selects.
pub(super) fn least(cells: &[Access], of: impl Fn(&Access) -> bool) -> Option<f64> {
    cells.iter().filter(|cell| of(cell)).map(|cell| cell.seconds).reduce(f64::min)
}

/// Returns the highest rate of long requests in bytes per second.
fn fastest_long(cells: &[Access], direction: Direction) -> Option<f64> {
    let long = cells.iter().filter(|c| c.direction == direction && c.block > SMALL);
    long.map(|c| c.block as f64 / c.seconds).reduce(f64::max)
}

impl Row {
    /// Returns the row of a number.
    pub(super) fn at(path: &str) -> Option<&'static Row> {
        TABLE.iter().find(|row| row.path == path)
    }

    /// Returns the path of the number that this one is a multiple of.
    pub(super) fn multiple_of(&self) -> Option<&'static str> {
        match self.grid {
            Grid::MultiplesOf(path) => Some(path),
            _ => None,
        }
    }

    /// Returns true if the number belongs to the host, which several cards may share.
    pub(super) fn is_of_host(&self) -> bool {
        self.path.starts_with("host.")
    }

    /// Returns a value as a profile writes it.
    pub(super) fn print(&self, value: f64) -> String {
        let value = value.round() as u64;
        self.dimension.map_or(value.to_string(), |dimension| dimension.print(value))
    }

    /// Parses a value of a profile.
    pub(super) fn parse(&self, text: &str) -> Option<f64> {
        match self.dimension {
            Some(dimension) => dimension.parse(text).ok().map(|value| value as f64),
            None => text.parse().ok(),
        }
    }

    /// Returns the base unit of the values; empty for a count.
    pub(super) fn unit(&self) -> String {
        let one = self.dimension.map(|dimension| dimension.print(1));
        one.map_or(String::new(), |one| one.trim_start_matches('1').to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_catalogue::profile::Parameter;

    #[test]
    fn every_path_is_a_parameter() {
        for row in TABLE {
            for path in [row.path].into_iter().chain(row.multiple_of()).chain(row.tied.iter().copied()) {
                assert!(Parameter::at(path).is_some(), "{path}");
            }
        }
    }

    #[test]
    fn bounds_of_powers_of_two_are_powers_of_two() {
        for row in TABLE.iter().filter(|row| row.grid == Grid::PowersOfTwo) {
            let (low, high) = row.bounds;
            assert!([low, high].iter().all(|bound| bound.log2().fract() == 0.0), "{}", row.path);
        }
    }
}
