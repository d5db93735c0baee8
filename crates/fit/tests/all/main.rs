//! Tests of measurement files, importers and plans.

mod measurement_files;
