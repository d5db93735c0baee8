//! Inputs of a recording.

use crate::error::RecordError;
use crate::filesystem::{Filesystem, Format};
use crate::kernel::Kernel;
use crate::workload::Workload;

/// Disk of the guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Disk {
    /// Capacity in MiB.
    pub size_mib: u64,
    /// Time from a request to its completion in nanoseconds. With a latency of zero, the trace would not show
    /// where tasks wait.
    pub latency_ns: u64,
    /// Number of requests that the disk serves at a time.
    pub queue_depth: u32,
    /// Limit of the bandwidth in MiB/s. `null_blk` enforces the limit in ticks of 20 ms, as
    /// [`Disk::bytes_per_tick`] describes.
    pub bandwidth_mib: Option<u32>,
}

/// Ticks per second of the bandwidth limit of `null_blk`.
const TICKS_PER_SECOND: u64 = 50;

impl Default for Disk {
    /// Returns a disk of 512 MiB that serves up to 64 requests at a time, each in 100 us.
    fn default() -> Self {
        Disk { size_mib: 512, latency_ns: 100_000, queue_depth: 64, bandwidth_mib: None }
    }
}

impl Disk {
    /// Returns the number of bytes that the disk accepts per tick of 20 ms. The request that exceeds this
    /// number, and all later requests, wait for the next tick.
    pub fn bytes_per_tick(&self) -> Option<u64> {
        self.bandwidth_mib.map(|mib| (1 << 20) / TICKS_PER_SECOND * u64::from(mib))
    }
}

/// Limits of the host, as its block layer sees them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Largest request in bytes.
    pub request_max: u64,
    /// True if the device takes discards.
    pub discard: bool,
    /// True if the device has a volatile write cache, so that the kernel sends flushes.
    pub write_cache: bool,
    /// I/O scheduler. Linux chooses `mq-deadline` for a device with one queue.
    pub scheduler: String,
    /// Memory of the guest in MiB, which determines when the kernel begins to write back.
    pub memory_mib: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            request_max: 512 << 10,
            discard: true,
            write_cache: true,
            scheduler: "mq-deadline".into(),
            memory_mib: 1024,
        }
    }
}

/// A recording to make.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Kernel of the guest.
    pub kernel: Kernel,
    /// Filesystem.
    pub format: Format,
    /// Workload.
    pub workload: Workload,
    /// Disk.
    pub disk: Disk,
    /// Limits.
    pub limits: Limits,
    /// Time limit of the guest in seconds.
    pub seconds_max: u64,
}

/// Memory of the guest for its trace, in KiB.
pub(crate) const TRACE_KIB: u64 = 300_000;

impl Plan {
    /// Checks the settings.
    pub(crate) fn check(&self) -> Result<(), RecordError> {
        if !(16..=4096).contains(&self.disk.size_mib) {
            let fault = format!("a disk of {} MiB: expected 16 to 4096", self.disk.size_mib);
            return Err(RecordError::Setting(fault));
        }
        check_limits(self.disk, &self.limits)?;
        if self.format.filesystem == Filesystem::Raw
            && !(self.format.mkfs.is_empty() && self.format.mount.is_empty())
        {
            let fault = "the raw device has no filesystem, so it takes no filesystem options";
            return Err(RecordError::Setting(fault.into()));
        }
        for options in [&self.format.mkfs, &self.format.mount] {
            if options.contains(['\n', ';', '`', '$', '&', '|']) {
                let fault = format!("the options {options:?} contain characters of the shell");
                return Err(RecordError::Setting(fault));
            }
        }
        Ok(())
    }

    /// Returns the variables of the guest's script.
    pub(crate) fn variables(&self) -> String {
        let Plan { format, disk, limits, .. } = self;
        let filesystem = format.filesystem;
        let mkfs = filesystem.program().map_or_else(String::new, |program| {
            format!("{program} {} {} /dev/nullb0", filesystem.options(), format.mkfs)
        });
        let place = if filesystem == Filesystem::Raw { "--filename=/dev/nullb0" } else { "--directory=/mnt" };
        let mount = if format.mount.is_empty() { String::new() } else { format!("-o {}", format.mount) };
        let mut variables = vec![
            ("FILESYSTEM", filesystem.name().into()),
            ("MKFS", mkfs),
            ("MOUNT", mount),
            ("FIO_PLACE", place.into()),
        ];
        variables.extend(disk_variables(*disk, limits));
        quoted(&variables)
    }
}

/// Checks the latency, queue depth and bandwidth of a disk, and the limits of a host.
pub(crate) fn check_limits(disk: Disk, limits: &Limits) -> Result<(), RecordError> {
    let refuse = |fault: String| Err(RecordError::Setting(fault));
    if !(1_000..=1_000_000_000).contains(&disk.latency_ns) {
        return refuse(format!("a latency of {} ns: expected 1 us to 1 s", disk.latency_ns));
    }
    if !(1..=1024).contains(&disk.queue_depth) {
        return refuse(format!("a queue depth of {}: expected 1 to 1024", disk.queue_depth));
    }
    if let Some(bytes) = disk.bytes_per_tick() {
        if limits.request_max > bytes {
            return refuse(format!(
                "requests of up to {} bytes do not fit in the bandwidth limit of {bytes} bytes per 20 ms; choose a \
                 smaller --request-max or a larger --bandwidth",
                limits.request_max
            ));
        }
        if limits.discard {
            return refuse("a bandwidth limit also counts the bytes of discards; add --no-discard".into());
        }
    }
    if !(4096..=32 << 20).contains(&limits.request_max) || !limits.request_max.is_multiple_of(4096) {
        return refuse(format!(
            "a maximum request size of {} bytes: expected a multiple of 4096 up to 32 MiB",
            limits.request_max
        ));
    }
    if !(128..=16_384).contains(&limits.memory_mib) {
        return refuse(format!("a memory of {} MiB: expected 128 to 16384", limits.memory_mib));
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if limits.scheduler.is_empty() || !limits.scheduler.chars().all(is_name) {
        return refuse(format!("{:?} is not the name of a scheduler", limits.scheduler));
    }
    Ok(())
}

/// Returns the variables that describe the disk to the guest's script.
pub(crate) fn disk_variables(disk: Disk, limits: &Limits) -> Vec<(&'static str, String)> {
    vec![
        ("DISK_MIB", disk.size_mib.to_string()),
        ("LATENCY_NS", disk.latency_ns.to_string()),
        ("QUEUE_DEPTH", disk.queue_depth.to_string()),
        ("BANDWIDTH_MIB", disk.bandwidth_mib.unwrap_or(0).to_string()),
        ("SECTORS_MAX", (limits.request_max / 512).to_string()),
        ("DISCARD", u8::from(limits.discard).to_string()),
        // The size of the cache has no effect, because the power of the disk is never cut.
        ("CACHE_MIB", u8::from(limits.write_cache).to_string()),
        ("SCHEDULER", limits.scheduler.clone()),
        ("TRACE_KIB", TRACE_KIB.to_string()),
    ]
}

/// Returns the shell assignments that set the variables.
pub(crate) fn quoted(variables: &[(&str, String)]) -> String {
    let assign = |(name, value): &(&str, String)| format!("{name}='{}'\n", value.replace('\'', "'\\''"));
    variables.iter().map(assign).collect()
}

/// Returns the limits of the host as a recording states them. `image_mib` is the memory that the guest has
/// for an image in addition to the limit. `dirty_limits` is a phrase of the text, or empty.
pub(crate) fn host(
    disk: Disk,
    limits: &Limits,
    image_mib: u64,
    scheduler: &str,
    dirty_limits: &str,
) -> String {
    let image = match image_mib {
        0 => String::new(),
        mib => format!(" and {mib} MiB for the image"),
    };
    let has = |feature: bool| if feature { "" } else { "no " };
    let bandwidth = disk.bandwidth_mib.map_or_else(String::new, |mib| format!(" and at most {mib} MiB/s"));
    let depth = match disk.queue_depth {
        64 => String::new(),
        1 => ", one at a time".into(),
        depth => format!(", {depth} at a time"),
    };
    format!(
        "requests of at most {} KiB, {}discard, {}volatile write cache, scheduler {scheduler}, {} MiB of memory beside \
             the trace{image}, {dirty_limits}one processor of 1e9 instructions/s; recorded on null_blk with {} us per \
             request{bandwidth}{depth}",
        limits.request_max >> 10,
        has(limits.discard),
        has(limits.write_cache),
        limits.memory_mib,
        disk.latency_ns / 1_000,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_states_the_limits_of_a_slow_disk() {
        let limits = Limits { discard: false, ..Limits::default() };
        let slow = Disk { queue_depth: 1, bandwidth_mib: Some(40), ..Disk::default() };
        let stated = |disk| host(disk, &limits, 0, "mq-deadline", "");
        assert!(
            stated(slow).ends_with("on null_blk with 100 us per request and at most 40 MiB/s, one at a time")
        );
        assert!(stated(Disk::default()).ends_with("on null_blk with 100 us per request"));
        assert!(stated(slow).contains("1024 MiB of memory beside the trace, one processor"));
        let boot = host(slow, &limits, 160, "mq-deadline", "");
        assert!(
            boot.contains("1024 MiB of memory beside the trace and 160 MiB for the image, one processor")
        );
    }

    #[test]
    fn a_request_that_does_not_fit_in_a_tick_is_refused() {
        let of = |request_max, bandwidth_mib| {
            let limits = Limits { discard: false, request_max, ..Limits::default() };
            check_limits(Disk { bandwidth_mib: Some(bandwidth_mib), ..Disk::default() }, &limits).is_ok()
        };
        // 2 MiB/s are 41,942 bytes per 20 ms, rounded down.
        assert_eq!((of(40 << 10, 2), of(44 << 10, 2)), (true, false));
        assert_eq!((of(512 << 10, 25), of(512 << 10, 26)), (false, true));
    }
}
