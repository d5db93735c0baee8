//! Renders results as text for people and programs: terminal tables, CSV, JSON, SVG and a self-contained HTML page.
//!
//! Every function is pure: it turns results, such as those of an experiment
//! ([`Results`](flashlab_lab::results::Results)), into text, and the same results give the same bytes. The
//! crate accesses neither a network nor a clock. A table, mechanism or unit that this crate does not know is
//! shown by its name, not omitted.
//!
//! | function | returns |
//! |---|---|
//! | [`terminal::table`] | published and simulated figures, bounds and parameters, in a given width |
//! | [`of_device`] | the counters of one device, one line per quantity |
//! | [`job_run::text`] | a run of jobs in one of fio's formats, with the counters of the device |
//! | [`csv::cells`] | every field of every cell, RFC 4180 |
//! | [`csv::curves`], [`csv::series`], [`csv::wear`] | points of curves and series, count of every erase block |
//! | [`json::results`] | the complete results |
//! | [`html::page`] | one self-contained page: charts, explanations, parameters |
//! | [`html::jobs_page`] | the page of jobs on one or several devices |
//! | [`compare::json`], [`compare::csv`] | the figures of jobs on devices |
//! | [`difference::table`], [`difference::json`], [`html::difference_page`] | the differences between two results |
//! | [`fit::table`], [`fit::json`], [`html::fit_page`] | the estimates of a fit |
//! | [`probe::table`], [`probe::json`], [`html::probe_page`] | the findings of a probe |
//! | [`html::live_page`] | the page of a [live](live::Page) experiment |
//! | [`figure::bars::figures`] and similar functions | single charts; [`figure::all`] returns all of them |
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
//!         reference: None,
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
//! assert!(flashlab_report::html::page(&results, "flashlab run one-cell").starts_with("<!DOCTYPE html>"));
//! ```
#![forbid(unsafe_code)]

mod answers;
pub mod compare;
pub mod csv;
#[cfg(feature = "fit")]
pub mod difference;
mod explain;
pub mod figure;
#[cfg(feature = "fit")]
pub mod fit;
mod grid;
pub mod html;
pub mod job_run;
pub mod json;
pub mod live;
mod markup;
mod number;
#[cfg(feature = "fit")]
pub mod probe;
mod purchases;
pub mod quantity;
mod rank;
#[cfg(feature = "fit")]
pub mod refit;
mod shape;
mod statistics;
mod svg;
pub mod terminal;

pub use statistics::of_device;
