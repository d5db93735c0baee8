//! Numbers of a volume for metrics and `flashlab ctl stats`.

use crate::closing::Gauge;
use flashlab_volume::{MemberState, MemberUsage, Usage, Volume};

/// Returns the numbers of a volume. `work_errors` is the number of errors of its background work.
pub(super) fn of(volume: &Volume, work_errors: u64) -> Vec<Gauge> {
    let (usage, backlog) = (volume.usage(), volume.backlog());
    let mut gauges = Vec::new();
    let mut add = |name, help, labels, value| gauges.push(Gauge { name, help, labels, value });
    let help = "Bytes of background work that can be done.";
    for (work, amount) in &backlog.current {
        let labels = vec![("work", work.name().to_owned())];
        add("flashlab_volume_work_bytes", help, labels, amount.bytes as f64);
    }
    let help = "Bytes of background work that waits for a change, with the reason.";
    for ((work, reason), amount) in &backlog.pending {
        let labels = vec![("work", work.name().to_owned()), ("reason", reason.text().to_owned())];
        add("flashlab_volume_pending_bytes", help, labels, amount.bytes as f64);
    }
    let help = "Errors of background work, which goes on unless the volume has failed.";
    add("flashlab_volume_work_errors", help, vec![], work_errors as f64);
    let help = "1 if the volume has failed: it takes no changes until it is opened again.";
    add("flashlab_volume_has_failed", help, vec![], f64::from(u8::from(volume.failure().is_some())));
    add("flashlab_volume_size_bytes", "Logical size.", vec![], usage.size as f64);
    add("flashlab_volume_replicas", "Number of copies of all data.", vec![], f64::from(usage.replicas));
    let help = "Number of members with a current journal and a current map.";
    add("flashlab_volume_metadata_copies", help, vec![], f64::from(usage.metadata_copies));
    add("flashlab_volume_mapped_bytes", "Logical bytes that are mapped.", vec![], usage.mapped as f64);
    let help = "Logical bytes of which every copy was lost. Reads of them fail until they are overwritten.";
    add("flashlab_volume_poisoned_bytes", help, vec![], usage.poisoned as f64);
    add(
        "flashlab_volume_stored_bytes",
        "Bytes stored for the mapped logical bytes.",
        vec![],
        usage.stored as f64,
    );
    let (logical, stored) = usage.by_compression.values().fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
    if stored > 0 {
        let help = "Logical bytes per stored byte of one copy.";
        add("flashlab_volume_compression_ratio", help, vec![], logical as f64 / stored as f64);
    }
    let (hits, misses) = usage.cache_reads;
    let help = "Extents that requests read from cached copies since the volume was opened.";
    add("flashlab_volume_cache_hits", help, vec![], hits as f64);
    let help = "Extents that requests read from other copies, if the volume has a promote target.";
    add("flashlab_volume_cache_misses", help, vec![], misses as f64);
    members(&usage, &mut gauges);
    gauges
}

/// A number of a member, with its name and meaning.
type OfMember = (&'static str, &'static str, fn(&MemberUsage, u64) -> f64);

const OF_MEMBER: [OfMember; 12] = [
    ("flashlab_volume_member_free_bytes", "Free bytes.", |m, b| f64::from(m.buckets.free) * b as f64),
    ("flashlab_volume_member_cached_bytes", "Bytes of buckets that contain only cached copies.", |m, b| {
        f64::from(m.buckets.cached) * b as f64
    }),
    ("flashlab_volume_member_is_missing", "1 if the device is missing.", |m, _| {
        f64::from(u8::from(!m.present))
    }),
    ("flashlab_volume_member_is_failing", "1 if the last read, write or flush failed.", |m, _| {
        f64::from(u8::from(m.failing || m.reads_fail))
    }),
    (
        "flashlab_volume_member_is_unreachable",
        "1 if the member has answered no read for 30 s, so that other members get its copies.",
        |m, _| f64::from(u8::from(m.unreachable)),
    ),
    ("flashlab_volume_member_read_errors", "Failed reads.", |m, _| f64::from(m.errors.read)),
    ("flashlab_volume_member_write_errors", "Failed writes and flushes.", |m, _| f64::from(m.errors.write)),
    ("flashlab_volume_member_checksum_errors", "Copies that did not match their checksum.", |m, _| {
        f64::from(m.errors.checksum)
    }),
    ("flashlab_volume_member_reads", "Reads since the volume was opened.", |m, _| m.requests.reads as f64),
    ("flashlab_volume_member_writes", "Writes since the volume was opened.", |m, _| m.requests.writes as f64),
    ("flashlab_volume_member_read_seconds", "Moving average of the time of a read.", |m, _| {
        m.requests.read_ns as f64 / 1e9
    }),
    ("flashlab_volume_member_write_seconds", "Moving average of the time of a write.", |m, _| {
        m.requests.write_ns as f64 / 1e9
    }),
];

fn members(usage: &Usage, gauges: &mut Vec<Gauge>) {
    for (name, help, value) in OF_MEMBER {
        let current = usage.members.iter().enumerate().filter(|(_, one)| one.state != MemberState::Removed);
        for (number, member) in current {
            let labels = vec![
                ("member", number.to_string()),
                ("label", member.label.clone()),
                ("state", member.state.name().to_owned()),
            ];
            gauges.push(Gauge { name, help, labels, value: value(member, u64::from(usage.bucket)) });
        }
    }
}
