//! Results as text that people and programs read: a terminal table, CSV, JSON, SVG and one HTML page.
//!
//! Every function here is pure: [`Results`](flashlab_lab::results::Results) in, text out, the same bytes for the same
//! results. Nothing is fetched, no clock is read, and what is unknown to this crate (a table, a mechanism or a unit that
//! it has never seen) is shown as it stands rather than left out.
//!
//! | function | gives |
//! |---|---|
//! | [`terminal::table`] | published beside simulated, bounds and parameters, as wide as asked for |
//! | [`of_device`] | what one device counted, a line a quantity |
//! | [`csv::cells`] | every field of every cell, RFC 4180 |
//! | [`csv::curves`], [`csv::series`], [`csv::wear`] | the points of curves, of series, the count of every erase block |
//! | [`json::results`] | the whole of the results |
//! | [`html::page`] | one page without network: charts, explanations, parameters |
//! | [`html::jobs_page`] | the page of jobs on one device or on many |
//! | [`compare::json`], [`compare::csv`] | the figures of jobs on devices |
//! | [`html::live_page`] | the page of a [live](live::Page) experiment |
//! | [`figure::bars::figures`] and its kin | single charts, also as files of their own: [`figure::all`] |
//!
//! ```
//! # use flashlab_lab::results::*;
//! let results = Results {
//!     experiment: "one-cell".into(),
//!     title: "One card against one figure".into(),
//!     seed: 0,
//!     version: "0.1.0".into(),
//!     inputs: "0000000000000000".into(),
//!     digest: "0000000000000000".into(),
//!     parameters: vec![],
//!     cells: vec![Cell {
//!         table: "raw read 1M".into(),
//!         row: String::new(),
//!         column: "sandisk".into(),
//!         unit: "MiB/s".into(),
//!         published: Some(Published::Figure { mean: 40.5, sd: Some(0.3) }),
//!         simulated: Figure { mean: 40.3, sd: 0.0 },
//!         role: Role::Predicted,
//!         error_percent: Some(-0.49),
//!         requests: 24_180,
//!         latency_ns_mean: 24_813_896.0,
//!         mechanisms: Mechanisms(vec![("bus", 21_700_000.0), ("host", 3_113_896.0)]),
//!         mechanism_ns_totals: Mechanisms(vec![("bus", 524_706_000_000), ("host", 75_294_005_280)]),
//!         tail: None,
//!     }],
//!     bounds: vec![],
//!     devices: vec![],
//!     notes: vec![],
//!     ..Results::default()
//! };
//! assert!(flashlab_report::terminal::table(&results, 100, false).contains("predicted"));
//! assert!(flashlab_report::html::page(&results).starts_with("<!DOCTYPE html>"));
//! ```
#![forbid(unsafe_code)]

pub mod compare;
pub mod csv;
mod explain;
pub mod figure;
mod grid;
pub mod html;
pub mod json;
pub mod live;
mod markup;
mod number;
mod shape;
mod statistics;
mod svg;
pub mod terminal;

pub use statistics::of_device;
