//! Detection of cells that depend on numbers that no measurement determines.
//!
//! The experiment runs again with other values of these numbers. A cell whose figure changes depends on an
//! assumption, and a note names the number. Endurance experiments take too long to run again, and a saved
//! state contains its numbers; in both cases, a note names the undetermined numbers without a test.

use super::definition::{Kind, RoleDefinition};
use super::measured::MeasuredCell;
use super::{Experiment, ExperimentError, Outcome, Place, cell_name};
use crate::progress::Progress;
use crate::results::UNDETERMINED;
use flashlab_catalogue::device::{Alternative, Device};
use flashlab_catalogue::library::Library;
use std::collections::BTreeMap;

/// Relative difference above which a cell depends on a number. Another value also changes which erase blocks a run
/// uses, and the times of different erase blocks vary by about this much.
const DIFFERENCE: f64 = 5e-3;

/// Returns true if a cell depends on a number: with another value of the number, the cell's figure changes from
/// `simulated` to `other`.
fn differs(simulated: f64, other: f64) -> bool {
    (simulated - other).abs() > simulated.abs().max(other.abs()) * DIFFERENCE
}

/// Returns the names of `cells`, which are pairs of a name and a column. In the kinds [`Kind::Recorded`] and
/// [`Kind::Rootfs`], whose columns have hundreds of cells, returns the number of cells in each column instead.
fn list(kind: Kind, cells: &[(String, String)]) -> String {
    if !matches!(kind, Kind::Recorded | Kind::Rootfs) {
        return cells.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
    }
    let mut columns: BTreeMap<&str, usize> = BTreeMap::new();
    cells.iter().for_each(|(_, column)| *columns.entry(column).or_default() += 1);
    columns.iter().map(|(column, count)| format!("{count} in column {column}")).collect::<Vec<_>>().join(", ")
}

/// Another value for a number that devices of an experiment share.
#[derive(Clone, Debug)]
pub(super) struct OtherValue {
    number: String,
    path: &'static str,
    value: String,
    /// Columns whose devices have the number.
    columns: Vec<String>,
}

impl OtherValue {
    /// Returns true if the value changes the device of a column.
    pub(super) fn changes(&self, column: &str) -> bool {
        self.columns.iter().any(|changed| changed == column)
    }

    /// Returns `device` with this value if the device has the number, and `device` itself otherwise.
    pub(super) fn apply_to(&self, device: Device, library: &Library) -> Device {
        let found = device.alternatives(library).into_iter().find(|other| {
            (&other.number, other.path, &other.value) == (&self.number, self.path, &self.value)
        });
        found.and_then(|other| other.device).unwrap_or(device)
    }
}

impl Experiment {
    /// Marks the cells of `outcome` that depend on undetermined numbers.
    pub(super) fn mark_undetermined(
        &self,
        outcome: &mut Outcome,
        library: &Library,
        seed: u64,
        progress: &Progress,
    ) -> Result<(), ExperimentError> {
        let alternatives = outcome.devices.iter().flat_map(|place| place.device.alternatives(library));
        let alternatives: Vec<Alternative> = alternatives.collect();
        let mut numbers: Vec<&String> = alternatives.iter().map(|other| &other.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        for number in numbers {
            let others: Vec<&Alternative> =
                alternatives.iter().filter(|other| other.number == *number).collect();
            if self.kind() == Kind::Endurance || others.iter().any(|other| other.device.is_none()) {
                outcome.notes.push(format!(
                    "{UNDETERMINED}{number}. It was not tested whether cells depend on this number."
                ));
                continue;
            }
            let mut values: Vec<&String> = others.iter().map(|other| &other.value).collect();
            values.sort_unstable();
            values.dedup();
            let mut dependent = Vec::new();
            for value in values {
                let has_value = |place: &&Place| {
                    let there = place.device.alternatives(library);
                    there.iter().any(|other| other.number == *number && other.value == *value)
                };
                let columns = outcome.devices.iter().filter(has_value).map(|place| place.column.clone());
                let other = OtherValue {
                    number: number.clone(),
                    path: others[0].path,
                    value: value.clone(),
                    columns: columns.collect(),
                };
                let again = Experiment { other_value: Some(other), ..self.clone() };
                let again = again.outcome(library, seed, &progress.unplanned())?;
                let name = |cell: &MeasuredCell| cell_name(&cell.table, &cell.row, &cell.column);
                let figures: BTreeMap<String, f64> =
                    again.cells.iter().map(|cell| (name(cell), cell.simulated.mean)).collect();
                for cell in &mut outcome.cells {
                    if figures.get(&name(cell)).is_some_and(|other| differs(cell.simulated.mean, *other)) {
                        cell.role = Some(RoleDefinition::Assumed);
                        dependent.push((name(cell), cell.column.clone()));
                    }
                }
            }
            dependent.sort_unstable();
            dependent.dedup();
            if !dependent.is_empty() {
                outcome.notes.push(format!(
                    "{UNDETERMINED}{number}. These cells depend on this number and count as assumed: {}.",
                    list(self.kind(), &dependent)
                ));
            }
        }
        Ok(())
    }
}
