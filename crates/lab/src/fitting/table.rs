//! The numbers that a fit can estimate: one row each, in the order of their priority.
//!
//! A number enters a fit if the base profile has it, or its mechanism is optional, and the cells depend on it.

use super::forward::Access;
use flashlab_catalogue::units::Dimension;
use flashlab_fio::job::Direction;

/// A row of the table.
pub struct Row {
    /// Path of the number.
    pub path: &'static str,
    /// Dimension of the values.
    pub dimension: Dimension,
    /// Least and greatest value, in base units.
    pub bounds: (f64, f64),
    /// Factor of the numeric derivative's step, as a logarithm.
    pub step: f64,
    /// Path of the number that this one is a multiple of.
    pub multiple_of: Option<&'static str>,
    /// Start from closed forms of the measured cells; `None` if no cell can determine the number.
    pub start: fn(&[Access]) -> Option<f64>,
    /// True if a device without the mechanism lacks the number. It enters a fit only if the cells need it.
    pub optional: bool,
}

const NS: f64 = 1e9;
const MIB: f64 = 1_048_576.0;
/// Requests up to this size show the cost of a request, larger ones the cost of their bytes.
const SMALL: u64 = 16 << 10;

/// All rows. A parameter of the catalogue that a fit can estimate is one row here.
pub const TABLE: &[Row] = &[
    // A small random read takes t_read, the command and the bus.
    row("flash.t_read", (2e3, 50e6), |cells| {
        Some(0.7 * NS * least(cells, |c| c.direction == Direction::Read && c.block <= SMALL)?)
    }),
    // A long write takes t_prog for each page of 8 KiB, and hides the bus.
    row("flash.t_prog", (2e3, 100e6), |cells| {
        let long = |c: &&Access| c.direction == Direction::Write && c.block > SMALL;
        let rate = |c: &Access| c.block as f64 / c.seconds;
        let fastest = cells.iter().filter(long).map(rate).reduce(f64::max)?;
        Some(0.8 * NS * 8192.0 / fastest)
    }),
    // A small write on a fresh area takes a program and a commit.
    row("ftl.t_commit", (2e3, 1e9), |cells| {
        Some(0.6 * NS * least(cells, |c| c.direction == Direction::Write && c.random && c.block <= SMALL)?)
    }),
    // A small overwrite of data in sequence copies a rewrite unit. The start is the most common size.
    Row {
        step: 0.35,
        dimension: Dimension::Size,
        multiple_of: Some("ftl.map_unit"),
        ..row("ftl.rewrite_unit", (131_072.0, 268_435_456.0), |cells| {
            least(cells, |c| c.direction == Direction::Write && c.random).map(|_| 262_144.0)
        })
    },
    // The bytes of a long read leave the array at this rate.
    Row {
        dimension: Dimension::Rate,
        ..row("flash.read_rate", (2.0 * MIB, 2048.0 * MIB), |cells| {
            let long = |c: &&Access| c.direction == Direction::Read && c.block > SMALL;
            cells.iter().find(long).map(|_| 90.0 * MIB)
        })
    },
    // Random reads over a wide range miss the cache of the map.
    Row {
        step: 0.3,
        dimension: Dimension::Size,
        multiple_of: Some("ftl.map_page"),
        ..row("ftl.map_cache", (32_768.0, 67_108_864.0), |cells| {
            least(cells, |c| c.direction == Direction::Read && c.random).map(|_| 524_288.0)
        })
    },
    row("host.t_command", (1e3, 10e6), |cells| least(cells, |_| true).map(|_| 60e3)),
    row("host.t_block", (10.0, 1e6), |cells| least(cells, |_| true).map(|_| 1e3)),
    optional("ftl.t_write", (2e3, 1e9), |cells| {
        Some(0.3 * NS * least(cells, |c| c.direction == Direction::Write)?)
    }),
    optional("flash.t_prog_small", (2e3, 1e9), |cells| {
        Some(0.5 * NS * least(cells, |c| c.direction == Direction::Write && c.block <= SMALL)?)
    }),
    optional("ftl.t_switch", (2e3, 1e9), |cells| {
        Some(0.3 * NS * least(cells, |c| c.direction == Direction::Write && c.random)?)
    }),
];

const fn row(path: &'static str, bounds: (f64, f64), start: fn(&[Access]) -> Option<f64>) -> Row {
    Row { path, dimension: Dimension::Time, bounds, step: 0.04, multiple_of: None, start, optional: false }
}

const fn optional(path: &'static str, bounds: (f64, f64), start: fn(&[Access]) -> Option<f64>) -> Row {
    Row { optional: true, ..row(path, bounds, start) }
}

/// Returns the shortest time of a request among the cells that `of` selects.
fn least(cells: &[Access], of: impl Fn(&Access) -> bool) -> Option<f64> {
    cells.iter().filter(|cell| of(cell)).map(|cell| cell.seconds).reduce(f64::min)
}

impl Row {
    /// Returns true if the number belongs to the host, which several cards may share.
    pub fn is_of_host(&self) -> bool {
        self.path.starts_with("host.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_catalogue::profile::Parameter;

    #[test]
    fn every_path_is_a_parameter() {
        for row in TABLE {
            for path in [Some(row.path), row.multiple_of].into_iter().flatten() {
                assert!(Parameter::at(path).is_some(), "{path}");
            }
        }
    }
}
