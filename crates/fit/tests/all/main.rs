//! Tests of measurement files, importers and plans.

mod imports;
mod measurement_files;
mod plans;
