//! Statistics and output held against what real fio 3.33 printed, and against closed forms.

mod against;
mod fake;
mod live;
mod logs;
mod recorded;
mod shape;
mod snapshots;
mod statistics;
