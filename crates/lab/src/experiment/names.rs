//! Checks of the names in bounds: each name must belong to a cell, a row or a table of the experiment.
//!
//! The cells of a matrix or a sweep are known before the run. The cells of the other kinds are known only
//! afterwards.

use super::definition::BoundDefinition;
use super::error::ExperimentError;
use super::pattern::{CellPattern, cell_name};
use super::{Experiment, Outcome};
use flashlab_catalogue::profile::{did_you_mean, suggest};

/// Maximum number of cell names that an error lists.
const CELLS_SHOWN: usize = 12;

/// Table, row and column of a cell.
pub(super) type CellPlace = [String; 3];

fn name([table, row, column]: &CellPlace) -> String {
    cell_name(table, row, column)
}

impl Experiment {
    /// Checks names before the run of a matrix or a sweep. Rejects two cells with equal names, and the first
    /// pattern, row or table in a bound that belongs to no cell. Does not check parts of an experiment.
    pub(super) fn check_names_early(&self) -> Result<(), ExperimentError> {
        let Some(cells) = self.definition.cells().filter(|_| !self.is_part) else { return Ok(()) };
        if let Some((_, twice)) = cells.iter().enumerate().find(|(n, cell)| cells[..*n].contains(cell)) {
            let what = format!("two steps have the cell \"{}\"; give each a table of its own", name(twice));
            return Err(self.wrong(what));
        }
        let patterns = self.definition.bounds.iter().flat_map(|bound| {
            bound.cells.iter().map(|pattern| (bound.name.as_str(), std::slice::from_ref(pattern)))
        });
        self.check_matches(patterns, &cells)?;
        self.definition.bounds.iter().try_for_each(|bound| self.check_places(bound, &cells))
    }

    /// Rejects the first bound that matches no cell of a run, and the first name of a row or a table that the
    /// cells lack. Does not check parts of an experiment or runs with the user's own devices, which may lack
    /// the cells of a bound.
    pub(super) fn check_names(&self, outcome: &Outcome) -> Result<(), ExperimentError> {
        if self.is_part || self.endurance.devices.is_some() {
            return Ok(());
        }
        let cells = outcome.cells.iter();
        let cells: Vec<CellPlace> =
            cells.map(|cell| [&cell.table, &cell.row, &cell.column].map(String::clone)).collect();
        let bounds = || self.definition.bounds.iter();
        self.check_matches(bounds().map(|bound| (bound.name.as_str(), bound.cells.as_slice())), &cells)?;
        bounds().try_for_each(|bound| self.check_places(bound, &cells))
    }

    fn check_matches<'a>(
        &self,
        mut bounds: impl Iterator<Item = (&'a str, &'a [CellPattern])>,
        cells: &[CellPlace],
    ) -> Result<(), ExperimentError> {
        let names: Vec<String> = cells.iter().map(name).collect();
        let matches = |patterns: &[CellPattern]| {
            patterns.iter().any(|pattern| names.iter().any(|name| pattern.matches(name)))
        };
        let Some((bound, patterns)) = bounds.find(|(_, patterns)| !matches(patterns)) else { return Ok(()) };
        let patterns: Vec<String> =
            patterns.iter().map(|pattern| format!("{:?}", pattern.as_str())).collect();
        let mut known = names.iter().take(CELLS_SHOWN).cloned().collect::<Vec<_>>().join(", ");
        if names.len() > CELLS_SHOWN {
            known += &format!(" and {} more", names.len() - CELLS_SHOWN);
        }
        let patterns = patterns.join(", ");
        Err(self
            .wrong(format!("bound \"{bound}\": cells = [{patterns}] matches no cell; the cells are {known}")))
    }

    /// Rejects the first row or table that a bound names although no cell has it.
    fn check_places(&self, bound: &BoundDefinition, cells: &[CellPlace]) -> Result<(), ExperimentError> {
        let row = |key: &'static str, row| (key, "row", row, 1);
        let rows = [("from", &bound.from), ("ratio_to", &bound.ratio_to), ("knee", &bound.knee)];
        let rows = rows.into_iter().filter_map(|(key, name)| Some(row(key, name.as_deref()?)));
        let expected = bound.expected.iter().flat_map(toml::Table::keys).map(|name| row("expected", name));
        let table = bound.against.as_deref().map(|name| ("against", "table", name, 0));
        for (key, noun, wanted, place) in rows.chain(expected).chain(table) {
            let known = || cells.iter().map(|cell| cell[place].as_str());
            if !known().any(|known| known == wanted) {
                let nearest = did_you_mean(suggest(wanted, known()));
                let name = &bound.name;
                return Err(
                    self.wrong(format!("bound \"{name}\": {key}: there is no {noun} \"{wanted}\"{nearest}"))
                );
            }
        }
        Ok(())
    }

    fn wrong(&self, what: String) -> ExperimentError {
        ExperimentError::Wrong { path: self.folder.path_of("experiment.toml"), what }
    }
}
