//! Runs of a part of an experiment: some of its columns, such as one card of a table.

use super::bounds::compares_columns;
use super::definition::{BoundDefinition, Kind};
use super::error::ExperimentError;
use super::{Experiment, cell_name};
use crate::results::Cell;
use flashlab_catalogue::profile::{did_you_mean, suggest};

impl Experiment {
    /// Restricts the run to the columns with these names. Unless a budget limits the run, a run of all
    /// columns gives these columns the same cells.
    pub fn choose_columns(&mut self, chosen: &[String]) -> Result<(), ExperimentError> {
        if !matches!(self.kind(), Kind::Matrix | Kind::Sweep | Kind::Wear | Kind::Endurance | Kind::Gc) {
            return Err(ExperimentError::Inseparable(self.name().to_owned()));
        }
        chosen.iter().try_for_each(|name| self.check_column(name))?;
        let definition = &mut self.definition;
        let is_chosen = |column: &str| chosen.iter().any(|name| name == column);
        definition.columns.retain(|column, _| is_chosen(column));
        definition.variants.retain(|column| is_chosen(column));
        for columns in definition.steps.iter_mut().filter_map(|step| step.columns.as_mut()) {
            columns.retain(|column| is_chosen(column));
        }
        definition.steps.retain(|step| step.columns.as_ref().is_none_or(|columns| !columns.is_empty()));
        self.is_part = true;
        Ok(())
    }

    /// Returns an error with the known columns if the experiment has no column of this name.
    pub(super) fn check_column(&self, name: &str) -> Result<(), ExperimentError> {
        if self.definition.has_column(name) {
            return Ok(());
        }
        let known: Vec<&str> = self.definition.columns.keys().map(String::as_str).collect();
        let nearest = did_you_mean(suggest(name, known.iter().copied()));
        Err(ExperimentError::NoColumn(format!(
            "{} has no column {name}; its columns are {}{nearest}",
            self.name(),
            known.join(", ")
        )))
    }

    /// Returns the bounds that apply to the cells of a run. In a part of an experiment, these are the bounds
    /// that concern one of its cells and do not compare columns.
    pub(super) fn bounds_on<'a>(&'a self, cells: &'a [Cell]) -> impl Iterator<Item = &'a BoundDefinition> {
        let concerns = |bound: &BoundDefinition| {
            let mut names = cells.iter().map(|cell| cell_name(&cell.table, &cell.row, &cell.column));
            names.any(|name| bound.cells.iter().any(|pattern| pattern.matches(&name)))
        };
        self.definition
            .bounds
            .iter()
            .filter(move |bound| !self.is_part || (concerns(bound) && !compares_columns(bound)))
    }
}
