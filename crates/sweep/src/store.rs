//! Results of a sweep in a folder.
//!
//! `parts/` contains the results so far. Each part is written atomically, and its name contains the hash of
//! its bytes, so that damage is found before its rows are used. [`RESULTS_FILE`] contains the rows of the
//! plan, in the order of the plan. At its end, a run writes this file from the parts. The file of a sweep
//! that was interrupted and continued therefore has the same bytes as that of an uninterrupted sweep.

use crate::error::SweepError;
use crate::parquet_file::{decode, encode};
use crate::point::Point;
use crate::row::Row;
use crate::sweep::Key;
use flashlab_block::write_whole;
use flashlab_catalogue::digest;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Name of the file with the rows of the plan.
pub const RESULTS_FILE: &str = "results.parquet";

const PARTS: &str = "parts";
const PREFIX: &str = "part-";
const SUFFIX: &str = ".parquet";

/// Maximum number of parts that a run leaves unmerged at its end.
const PARTS_MAX: usize = 8;

/// The rows in a folder, by their keys.
pub struct Store {
    folder: PathBuf,
    parts: Vec<PathBuf>,
    rows: BTreeMap<String, Row>,
}

impl Store {
    /// Opens a folder with the results of earlier runs, or creates it.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be read or created, or if a part is damaged.
    pub fn open(folder: &Path) -> Result<Store, SweepError> {
        let parts = folder.join(PARTS);
        fs::create_dir_all(&parts).map_err(|error| SweepError::io(&parts, error))?;
        let mut store = Store { folder: folder.to_owned(), parts: Vec::new(), rows: BTreeMap::new() };
        let entries = fs::read_dir(&parts).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let entries = entries.map_err(|error| SweepError::io(&parts, error))?;
        let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            if let Some(hash) = hash_of_name(&path) {
                store.read(&path, &hash)?;
                store.parts.push(path);
            }
        }
        Ok(store)
    }

    fn read(&mut self, path: &Path, hash: &str) -> Result<(), SweepError> {
        let bytes = fs::read(path).map_err(|error| SweepError::io(path, error))?;
        let damaged = |fault| SweepError::Damaged { path: path.to_owned(), fault };
        if digest::of_bytes(&bytes) != hash {
            return Err(damaged("the contents do not match the hash in the file's name".to_owned()));
        }
        for row in decode(bytes).map_err(damaged)? {
            // The order of the parts is not that of their runs. A point that failed may have run again.
            if row.error().is_none() || !self.rows.contains_key(&row.key) {
                self.rows.insert(row.key.clone(), row);
            }
        }
        Ok(())
    }

    /// Returns the indices of the points that have no row, or whose run failed.
    pub fn missing(&self, points: &[(Key, Point)]) -> Vec<usize> {
        let has_row = |key: &str| self.rows.get(key).is_some_and(|row| row.error().is_none());
        points.iter().enumerate().filter(|(_, (key, _))| !has_row(&key.0)).map(|(at, _)| at).collect()
    }

    /// Adds rows and writes them to disk as a part.
    ///
    /// # Errors
    /// Returns an error if the part cannot be written.
    pub fn add(&mut self, rows: Vec<Row>) -> Result<(), SweepError> {
        if rows.is_empty() {
            return Ok(());
        }
        let part = self.write_part(&rows)?;
        // Equal rows have the same part.
        if !self.parts.contains(&part) {
            self.parts.push(part);
        }
        self.rows.extend(rows.into_iter().map(|row| (row.key.clone(), row)));
        Ok(())
    }

    /// Adds the rows of a part that another process encoded with [`Store::encode`].
    ///
    /// # Errors
    /// Returns an error if the bytes are not those of a part, or if they cannot be written.
    pub fn add_encoded(&mut self, bytes: Vec<u8>) -> Result<usize, SweepError> {
        let rows = decode(bytes).map_err(|fault| SweepError::Plan(format!("rows of a worker: {fault}")))?;
        let count = rows.len();
        self.add(rows)?;
        Ok(count)
    }

    /// Returns rows as bytes for [`Store::add_encoded`].
    ///
    /// # Errors
    /// Returns the fault of the encoder.
    pub fn encode(rows: &[Row]) -> Result<Vec<u8>, SweepError> {
        encode(rows).map_err(SweepError::Plan)
    }

    /// Writes the rows of `points` that exist to [`RESULTS_FILE`] and merges the parts if there are many. Rows of other
    /// sweeps in the same folder stay in the parts. Returns the path of the file.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written.
    pub fn finish(&mut self, points: &[(Key, Point)]) -> Result<PathBuf, SweepError> {
        let rows: Vec<Row> = self.rows(points).into_iter().cloned().collect();
        let path = self.folder.join(RESULTS_FILE);
        write_file(&path, &Store::encode(&rows)?)?;
        if self.parts.len() > PARTS_MAX {
            self.merge(points)?;
        }
        Ok(path)
    }

    /// Replaces all parts with one.
    fn merge(&mut self, points: &[(Key, Point)]) -> Result<(), SweepError> {
        let planned: BTreeSet<&str> = points.iter().map(|(key, _)| key.0.as_str()).collect();
        let in_order = self.rows(points).into_iter();
        let others = self.rows.values().filter(|row| !planned.contains(row.key.as_str()));
        let rows: Vec<Row> = in_order.chain(others).cloned().collect();
        let merged = self.write_part(&rows)?;
        for part in std::mem::take(&mut self.parts) {
            if part != merged {
                fs::remove_file(&part).map_err(|error| SweepError::io(&part, error))?;
            }
        }
        self.parts.push(merged);
        Ok(())
    }

    fn write_part(&self, rows: &[Row]) -> Result<PathBuf, SweepError> {
        let bytes = Store::encode(rows)?;
        let hash = digest::of_bytes(&bytes);
        let path = self.folder.join(PARTS).join(format!("{PREFIX}{hash}{SUFFIX}"));
        write_file(&path, &bytes)?;
        Ok(path)
    }

    /// Returns the rows of `points` that exist.
    pub fn rows(&self, points: &[(Key, Point)]) -> Vec<&Row> {
        points.iter().filter_map(|(key, _)| self.rows.get(&key.0)).collect()
    }

    /// Returns the number of rows of `points` and how many of them have errors.
    pub fn counts(&self, points: &[(Key, Point)]) -> (usize, usize) {
        let rows = self.rows(points);
        (rows.len(), rows.iter().filter(|row| row.error().is_some()).count())
    }

    /// Returns the first of `points` whose row has an error, and the error, as texts.
    pub fn first_error(&self, points: &[(Key, Point)]) -> Option<(String, String)> {
        let mut rows = points.iter().filter_map(|(key, point)| Some((self.rows.get(&key.0)?, point)));
        rows.find_map(|(row, point)| Some((point.to_string(), row.error()?.to_owned())))
    }
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), SweepError> {
    write_whole(path, bytes).map_err(|error| SweepError::io(path, error))
}

/// Returns the hash in the name of a part, or `None` for other files.
fn hash_of_name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    Some(name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.to_owned())
}
