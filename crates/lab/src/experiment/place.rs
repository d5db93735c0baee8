//! Runs single places of a matrix with numbers other than those of the profiles. A place is a column in a
//! row.
//!
//! A search over the numbers of an experiment's profiles needs the cells of a few places for many sets of numbers.
//! These cells equal those that [`Experiment::run`] gives with the same numbers.

use super::matrix::{self, Extent, Matrix};
use super::pattern::cell_name;
use super::{Experiment, ExperimentError, Kind, Place};
use crate::progress::Progress;
use crate::results::{Figure, Published};
use flashlab_catalogue::device::{Device, Filesystem};
use flashlab_catalogue::library::Library;

/// Numbers as in an argument, `flash.t_read=200us`, that replace numbers of a device and of its filesystems.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct NumbersByKey {
    pub(crate) device: Vec<String>,
    pub(crate) filesystem: Vec<String>,
}

/// A cell of a place with its published mean and deviation.
#[derive(Clone, Debug)]
pub(crate) struct PublishedCell {
    pub(crate) name: String,
    pub(crate) published: Option<(f64, Option<f64>)>,
}

/// A column in a row of a matrix.
#[derive(Clone, Debug)]
pub(crate) struct MatrixPlace {
    column: String,
    row: String,
    keys: String,
    pub(crate) device: Device,
    pub(crate) filesystems: Vec<Filesystem>,
    /// The cells, in the order of the steps.
    pub(crate) cells: Vec<PublishedCell>,
}

impl Experiment {
    /// Returns the places that have cells; none if the experiment is not a matrix.
    pub(crate) fn matrix_places(&self, library: &Library) -> Result<Vec<MatrixPlace>, ExperimentError> {
        if self.kind() != Kind::Matrix {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for place in matrix::places(self, library)? {
            let row = place.row().to_owned();
            let keys = self.definition.rows.iter().find(|known| known.name == row);
            let (mut cells, mut filesystems) = (Vec::new(), Vec::<Filesystem>::new());
            let steps = self.definition.steps.iter();
            for step in steps.filter(|step| step.is_on(&place.column) && step.is_in(&row)) {
                let published = match self.published.cell(&step.table, &row, &place.column) {
                    Some((Published::Figure { mean, sd }, _)) => Some((mean, sd)),
                    _ => None,
                };
                let name = cell_name(&step.table, &row, &place.column);
                cells.push(PublishedCell { name, published });
                let filesystem = self.filesystem(step, "", library)?;
                let is_new = |f: &Filesystem| filesystems.iter().all(|known| known.argument != f.argument);
                filesystems.extend(filesystem.filter(is_new));
            }
            if !cells.is_empty() {
                let keys = keys.map(|row| row.keys.clone()).unwrap_or_default();
                let Place { column, device, .. } = place;
                found.push(MatrixPlace { column, row, keys, device, filesystems, cells });
            }
        }
        Ok(found)
    }

    /// Returns the number of runs of each step.
    pub(crate) fn runs(&self) -> u32 {
        self.definition.runs
    }

    /// Runs the first `steps` steps of a place with other numbers, and returns the figures of their cells.
    pub(crate) fn run_place(
        &self,
        place: &MatrixPlace,
        steps: usize,
        numbers: &NumbersByKey,
        library: &Library,
        seed: u64,
        progress: &Progress,
    ) -> Result<Vec<Figure>, ExperimentError> {
        let own = Some(&place.keys).filter(|keys| !keys.is_empty());
        let keys: Vec<&str> = own.into_iter().chain(&numbers.device).map(String::as_str).collect();
        let device = self.device(&place.column, &keys.join(","), library)?;
        let matrix = Matrix::of(self, &numbers.filesystem.join(","), library, seed, progress)?;
        let place = Place { column: place.column.clone(), row: Some(place.row.clone()), device };
        let (cells, _) = matrix.run_place(&place, Extent::Steps(steps))?;
        Ok(cells.into_iter().map(|cell| cell.simulated).collect())
    }
}
