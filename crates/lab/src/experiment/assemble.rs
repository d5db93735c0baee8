//! Assembles [`Results`] from the measured cells: roles, errors, bounds, parameters, hashes, notes and
//! curves.

use super::definition::{Kind, Step};
use super::measured::MeasuredCell;
use super::published::{PublishedTable, Shape};
use super::{Experiment, Outcome, bounds, cell_name, digest, pattern, sweep, tiering};
use crate::results::{
    self, Bound, Cell, Mechanisms, Published, Reference, ReferenceKind, Results, Role, Tail,
};
use flashlab_catalogue::device::{Device, Filesystem, free_parameters};
use flashlab_catalogue::profile::Source;
use flashlab_sim::{Histogram, Mechanism};

impl Experiment {
    pub(super) fn results(&self, outcome: Outcome, seed: u64) -> Results {
        let devices: Vec<&Device> = outcome.devices.iter().map(|place| &place.device).collect();
        let mut filesystems: Vec<&Filesystem> = Vec::new();
        for filesystem in &outcome.filesystems {
            if !filesystems.iter().any(|f| f.argument == filesystem.argument) {
                filesystems.push(filesystem);
            }
        }
        let mut parameters = free_parameters(&devices, &filesystems);
        parameters.extend(outcome.parameters.iter().cloned());
        let fitted: Vec<&String> = parameters.iter().flat_map(|p| &p.fitted_on).collect();
        let ordered = self.in_order(&outcome.cells);
        let cells: Vec<Cell> = ordered
            .iter()
            .map(|cell| self.cell(cell, self.role(cell, &fitted, &outcome), &outcome))
            .collect();
        let mut bounds: Vec<Bound> = self.bounds_on(&cells).map(|b| bounds::judge(b, &cells)).collect();
        if let Some(at_most) = self.definition.parameters.at_most {
            bounds.push(Bound {
                name: "free parameters, fitted and chosen".into(),
                limit: format!("{at_most} in all"),
                cells: Vec::new(),
                worst_cell: format!("for {} cells", cells.len()),
                worst: parameters.len() as f64,
                held: parameters.len() <= at_most,
                missed: Vec::new(),
            });
        }
        let named = |cell: &&MeasuredCell| cell_name(&cell.table, &cell.row, &cell.column);
        let mut shown: Vec<results::Device> = Vec::new();
        for report in devices.iter().map(|d| d.report()).chain(filesystems.iter().map(|f| f.report())) {
            if !shown.iter().any(|s| s.name == report.name) {
                shown.push(report);
            }
        }
        let mut inputs: Vec<String> = shown
            .iter()
            .flat_map(|device| {
                device.numbers.iter().map(|n| format!("{} {} {}", device.name, n.path, n.value))
            })
            .collect();
        inputs.extend(self.further_inputs(&devices));
        let mut curves = sweep::curves(self, &cells, &outcome.statistics);
        curves.extend(tiering::curves(self, &cells));
        Results {
            experiment: self.folder.name.clone(),
            title: self.definition.title.clone(),
            seed,
            version: env!("CARGO_PKG_VERSION").into(),
            commit: None,
            inputs: digest::of_inputs(&self.folder, &inputs, seed),
            digest: digest::of_cells(ordered.iter().map(|cell| (named(cell), cell.runs.as_slice()))),
            parameters,
            cells,
            bounds,
            devices: shown,
            notes: {
                let notes = self.notes().into_iter().chain(self.shapes()).chain(outcome.notes);
                // The notes on unwritten data and buffered jobs are for a user's own experiments. Shipped
                // experiments repeat the jobs of their publications.
                let is_own = !self.base.as_os_str().is_empty();
                let own = unwritten(&outcome.cells).into_iter().chain(self.buffered());
                notes.chain(own.filter(|_| is_own)).collect()
            },
            curves,
            wear: outcome.wear,
            series: outcome.series,
            statistics: outcome.statistics,
            answers: outcome.answers,
            purchases: outcome.purchases,
        }
    }

    /// Returns a note on the tables whose jobs are buffered.
    fn buffered(&self) -> Option<String> {
        let is_buffered = |step: &&Step| {
            // A job with `{range}` is not a valid command line, so the note omits such jobs of a sweep.
            let jobs = self.read_job(&step.table, &step.job).unwrap_or_default();
            jobs.iter().any(|job| job.buffered && job.read_iolog.is_none())
        };
        let tables: Vec<&str> =
            self.definition.steps.iter().filter(is_buffered).map(|step| &*step.table).collect();
        (!tables.is_empty()).then(|| {
            format!(
                "{}the jobs of these tables have no direct=1, so they go through a model of Linux's page cache: {}.",
                results::BUFFERED,
                tables.join(", ")
            )
        })
    }

    /// Sorts cells for a reader. The tables and rows of a matrix are in the order of the publication, and its columns
    /// in the order of the experiment. In all other kinds, steps, rows and columns are in the order of the experiment.
    fn in_order<'a>(&self, measured: &'a [MeasuredCell]) -> Vec<&'a MeasuredCell> {
        let mut ordered: Vec<&MeasuredCell> = measured.iter().collect();
        let column = |cell: &MeasuredCell| self.definition.columns.keys().position(|c| *c == cell.column);
        if self.definition.kind == Kind::Matrix {
            let table = |cell: &MeasuredCell| {
                let same = |t: &PublishedTable| t.name == cell.table && t.row == cell.row;
                self.published.tables.iter().position(same).unwrap_or(usize::MAX)
            };
            ordered.sort_by_key(|cell| (table(cell), column(cell)));
            return ordered;
        }
        let mut places: Vec<(&str, &str)> = Vec::new();
        for cell in measured {
            if !places.contains(&(&cell.table, &cell.row)) {
                places.push((&cell.table, &cell.row));
            }
        }
        let step = |cell: &MeasuredCell| {
            let known = self.definition.steps.iter().position(|step| step.table == cell.table);
            known.or_else(|| places.iter().position(|(table, _)| *table == cell.table))
        };
        let row = |cell: &MeasuredCell| match &self.definition.range {
            Some(range) => range.values.iter().position(|value| sweep::row(*value, range) == cell.row),
            None => places.iter().position(|place| *place == (&cell.table, &cell.row)),
        };
        ordered.sort_by_key(|cell| (step(cell), row(cell), column(cell)));
        ordered
    }

    /// Returns the role of a cell. If the experiment assigns no role, the role follows from the sources of
    /// the numbers that the cell depends on.
    fn role(&self, cell: &MeasuredCell, fitted: &[&String], outcome: &Outcome) -> Role {
        if let Some(role) = cell.role {
            return role.into();
        }
        let name = cell_name(&cell.table, &cell.row, &cell.column);
        let mut devices = outcome.devices.iter().filter(|place| place.gives(cell));
        let step = self.definition.steps.iter().find(|step| step.table == cell.table);
        let filesystem = step.and_then(|step| step.filesystem.as_ref());
        let mut filesystems = outcome.filesystems.iter().filter(|f| Some(&f.argument) == filesystem);
        if devices.any(|place| place.device.lacks_source()) || filesystems.any(Filesystem::lacks_source) {
            Role::Unsourced
        } else if fitted.iter().any(|f| pattern::is_fitted_cell(f, &name))
            || self.is_measured_by(cell, outcome)
        {
            Role::Fitted
        } else {
            Role::Predicted
        }
    }

    /// Returns true if a number of the cell's device was fitted on the table and row of the cell, in any
    /// column of an experiment. The name of the column does not count, because the column that shows a fitted
    /// profile may differ from the column that the profile was fitted on.
    fn is_measured_by(&self, cell: &MeasuredCell, outcome: &Outcome) -> bool {
        let table = cell_name(&cell.table, &cell.row, "");
        let is_of_table = |fitted: &String| {
            let of = fitted.strip_prefix(&table);
            of.is_some_and(|of| of.contains(pattern::OF_EXPERIMENT))
        };
        let mut devices = outcome.devices.iter().filter(|place| place.gives(cell));
        devices.any(|place| {
            place.device.sourced_numbers().iter().any(|number| match &number.number.source {
                Source::Fitted(cells) => cells.iter().any(is_of_table),
                _ => false,
            })
        })
    }

    /// Returns the figure from theory or from a published simulation with which a cell is compared.
    fn reference(&self, cell: &MeasuredCell, outcome: &Outcome) -> Option<Reference> {
        let (table, row, column) = (&cell.table, &cell.row, &cell.column);
        let Some((mean, name)) = self.published.simulated(table, row, column) else {
            return outcome.references.get(&cell_name(table, row, column)).cloned();
        };
        let error_percent = 100.0 * (cell.simulated.mean - mean) / mean;
        Some(Reference {
            kind: ReferenceKind::Simulation,
            name: name.to_owned(),
            mean,
            sd: None,
            error_percent,
        })
    }

    fn cell(&self, cell: &MeasuredCell, role: Role, outcome: &Outcome) -> Cell {
        let published = self.published.cell(&cell.table, &cell.row, &cell.column).map(|(figure, _)| figure);
        let simulated = cell.simulated;
        let error_percent = match published {
            Some(Published::Figure { mean, .. }) if mean != 0.0 => {
                Some(100.0 * (simulated.mean - mean) / mean)
            }
            _ => None,
        };
        let requests = cell.runs.iter().map(|run| run.requests).sum::<u64>();
        let totals: Vec<u64> = (0..Mechanism::ALL.len())
            .map(|i| cell.runs.iter().map(|run| run.mechanisms_ns[i]).sum())
            .collect();
        let a_request = |ns: u64| ns as f64 / requests.max(1) as f64;
        let names = Mechanism::ALL.map(Mechanism::name);
        Cell {
            table: cell.table.clone(),
            row: cell.row.clone(),
            column: cell.column.clone(),
            unit: cell.unit.clone(),
            published,
            reference: self.reference(cell, outcome),
            simulated,
            role,
            error_percent,
            requests,
            latency_ns_mean: a_request(cell.runs.iter().map(|run| run.latency_ns).sum()),
            mechanisms: Mechanisms(names.into_iter().zip(totals.iter().map(|ns| a_request(*ns))).collect()),
            mechanism_ns_totals: Mechanisms(names.into_iter().zip(totals.iter().copied()).collect()),
            tail: tail(cell),
        }
    }

    /// Returns the publication's verbal remarks on figures, by table. A sweep prints these remarks with its
    /// curves instead.
    fn shapes(&self) -> Vec<String> {
        if self.definition.kind == Kind::Sweep {
            return Vec::new();
        }
        let said = |shape: &Shape| format!("{}{}: {}", results::PUBLISHED, shape.table, shape.text);
        self.published.shapes.iter().map(said).collect()
    }

    /// Returns the paragraphs of the README, one line each, without its title and its tables.
    fn notes(&self) -> Vec<String> {
        let text = self
            .folder
            .file("README.md")
            .and_then(|bytes| std::str::from_utf8(bytes).ok())
            .unwrap_or_default();
        let paragraphs = text.split("\n\n").map(|p| p.split_whitespace().collect::<Vec<_>>().join(" "));
        paragraphs.filter(|p| !p.is_empty() && !p.starts_with("# ") && !p.starts_with('|')).collect()
    }
}

/// Returns a note on the cells whose jobs mostly read data that was never written.
fn unwritten(cells: &[MeasuredCell]) -> Option<String> {
    let cells = cells.iter().filter(|cell| cell.runs.iter().any(|run| run.reads_unwritten));
    let names: Vec<String> = cells.map(|cell| cell_name(&cell.table, &cell.row, &cell.column)).collect();
    (!names.is_empty()).then(|| {
        format!(
            "{}most reads of these cells address data that was never written, which a device answers without accessing \
             its flash, so a used device is slower: {}. To read written data, write it in a [[preparation]] or an \
             earlier step.",
            results::UNWRITTEN,
            names.join(", ")
        )
    })
}

fn tail(cell: &MeasuredCell) -> Option<Tail> {
    let mut writes = Histogram::new();
    cell.runs.iter().for_each(|run| writes.merge(&run.writes));
    let tail = flashlab_fio::stats::Tail::from_histogram(&writes)?;
    Some(Tail {
        mean_ns: writes.mean_ns(),
        p99_ns: tail.p99.as_ns(),
        p99_9_ns: tail.p99_9.as_ns(),
        max_ns: tail.max.as_ns(),
        logger_buffer_bytes: cell.logger_bytes,
    })
}
