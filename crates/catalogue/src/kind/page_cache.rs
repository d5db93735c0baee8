//! The page cache of a host: a section that every kind of host has.

use super::Parts;
use crate::profile::parameter::*;
use flashlab_flash::Impossible;
use flashlab_host::PageCacheParameters;

pub(super) fn blank(parts: &mut Parts) {
    parts.insert(PageCacheParameters::default());
}

pub(super) fn check(parts: &Parts) -> Result<(), Impossible> {
    parts.get::<PageCacheParameters>().check()
}

/// Range of the intervals of timers.
const A_DAY: (u64, u64) = (0, 86_400_000_000_000);
/// Range of the shares of the memory, in percent.
const PERCENT: (u64, u64) = (0, 100);

pub(super) const TABLE: &[Parameter] = &[
    optional!("cache.memory", SizeOrNone PageCacheParameters.memory, (MIB, 64 * GIB),
    "Memory of the host in bytes for cached pages; the thresholds for dirty pages are shares of it.",
    "the page cache is unknown, and buffered jobs are refused"),
    optional!("cache.dirty_background", CountOrNone PageCacheParameters.dirty_background, PERCENT,
    "Per cent of cache.memory above which dirty pages are written back whatever their age; Linux: vm.dirty_background_ratio.",
    "10, Linux's default"),
    optional!("cache.dirty", CountOrNone PageCacheParameters.dirty, PERCENT,
    "Per cent of cache.memory that dirty pages may occupy; writers pause between the thresholds; Linux: vm.dirty_ratio.",
    "20, Linux's default"),
    optional!("cache.writeback_interval", TimeOrNone PageCacheParameters.writeback_interval, A_DAY,
    "Time between two searches for expired pages, 0 for none; Linux: vm.dirty_writeback_centisecs.",
    "5 s, Linux's default"),
    optional!("cache.expire", TimeOrNone PageCacheParameters.expire, A_DAY,
    "Age of a file's oldest dirty page at which the file is written back; Linux: vm.dirty_expire_centisecs.",
    "30 s, Linux's default"),
    optional!("cache.read_ahead", SizeOrNone PageCacheParameters.read_ahead, (0, MIB * 64),
    "Bytes of the largest read-ahead window without advice; Linux: queue/read_ahead_kb.",
    "128 KiB, Linux's default"),
    optional!("cache.request_max", SizeOrNone PageCacheParameters.request_max, (4096, MIB * 64),
    "Bytes of the largest request of the block layer; the device's limit applies too. Linux: queue/max_sectors_kb.",
    "1280 KiB, Linux's default"),
    optional!("cache.tags", CountOrNone PageCacheParameters.tags, (1, 65_535),
    "Requests that the driver takes at a time; the others wait in the scheduler, where reads precede writes.",
    "2: Linux's mmc driver prepares a request while another one is on the bus"),
    optional!("cache.processors", CountOrNone PageCacheParameters.processors, (1, 1024),
    "Number of processors. When all of them are busy, calls and write-back wait for the first that is free.", "4"),
    optional!("cache.t_call", TimeOrNone PageCacheParameters.t_call, TEN_SECONDS,
    "Processor time of a buffered call, including the time that the program uses before its next call.",
    "that of the recorded guest (docs/buffered.md)"),
    optional!("cache.t_page", TimeOrNone PageCacheParameters.t_page, TEN_SECONDS,
    "Processor time of each page of 4 KiB that a buffered call copies.",
    "that of the recorded guest (docs/buffered.md)"),
    optional!("cache.t_writeback", TimeOrNone PageCacheParameters.t_writeback, TEN_SECONDS,
    "Processor time to write a page back, in addition to the time of the host's driver.",
    "that of the recorded guest (docs/buffered.md)"),
    optional!("cache.t_submit", TimeOrNone PageCacheParameters.t_submit, TEN_SECONDS,
    "Processor time of each submission to the block layer (all requests of a plug, or a flush), in addition \
     to the time of the host's driver.",
    "that of the recorded guest (docs/buffered.md)"),
];
