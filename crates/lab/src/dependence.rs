//! Finds results that depend on numbers of a device that no measurement determines.

use crate::bench::BenchError;
use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_fio::job::Direction;
use flashlab_fio::stats::Report;

/// Returns one sentence for each undetermined number of `device` that `reports` depend on. `again` runs the
/// same jobs on a device with another value of such a number. A run that fails with that value counts as a
/// different result. If such a run was stopped, or if the device starts from a saved state, the sentence says
/// that the results may depend on the number.
pub fn dependence(
    device: &Device,
    library: &Library,
    reports: &[Report],
    again: &dyn Fn(&Device) -> Result<Figures, BenchError>,
) -> Vec<String> {
    let figures = figures(reports);
    let mut found: Vec<String> = Vec::new();
    for other in device.alternatives(library) {
        let sentence = match other.device.as_ref().map(again) {
            Some(Ok(others)) if others == figures => continue,
            None | Some(Err(BenchError::Stopped)) => format!("may depend on {}", other.number),
            Some(_) => format!("depends on {}", other.number),
        };
        if !found.contains(&sentence) {
            found.push(sentence);
        }
    }
    found
}

/// Figures that distinguish two outcomes: bytes, requests and times by job and direction.
pub type Figures = Vec<(u64, u64, u64, u128)>;

/// Returns the figures of `reports`.
pub fn figures(reports: &[Report]) -> Figures {
    let of = |report: &Report| {
        Direction::ALL.map(|direction| {
            let stats = report.stats.direction(direction);
            (stats.io_bytes, stats.total_ios(), stats.runtime_ms, stats.clat.sum_ns())
        })
    };
    reports.iter().flat_map(of).collect()
}
