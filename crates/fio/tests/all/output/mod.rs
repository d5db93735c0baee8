//! Tests of statistics and output against the output of fio 3.33, and against closed forms.

mod against;
mod fake;
mod live;
mod logs;
mod recorded;
mod shape;
mod snapshots;
mod statistics;
