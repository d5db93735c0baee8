//! Tests of jobs as workloads against recorded iologs of fio 3.33, closed forms and properties.

mod direction_mix;
mod distributions;
mod fake;
mod properties;
mod recorded;
mod replay;
mod timing;
