//! `flashlab volume show`.

use super::dump::encryption;
use super::{Name, size};
use crate::edge::sources;
use crate::failure::Failure;
use crate::file;
use crate::width::columns;
use clap::Args;
use flashlab_catalogue::library::Library;
use flashlab_report::terminal::{self, fitted};
use flashlab_served::volume::{Pool, path_of};
use flashlab_volume::format::{Superblock, copy_offsets};
use flashlab_volume::{Amount, Backlog, BucketUsage, MemberState, MemberUsage, Reason, Usage, Work};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;

#[derive(Args)]
pub(super) struct Options {
    #[command(flatten)]
    name: Name,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &Options, library: &Library) -> Result<ExitCode, Failure> {
    let pool = options.name.open_read_only(library)?;
    let (usage, backlog) = (pool.volume.usage(), pool.volume.backlog());
    drop(pool);
    let opened = OpenedMembers::of(&options.name.pool()?, library);
    file::print(&match options.json {
        true => file::pretty(&json(&usage, &backlog, &opened)),
        false => table(&usage, &backlog, &opened, columns()),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The members that can be opened.
#[derive(Default)]
struct OpenedMembers {
    /// Device name of each member, by its number.
    devices: BTreeMap<usize, String>,
    /// The superblock that was written last.
    superblock: Option<Superblock>,
}

impl OpenedMembers {
    fn of(pool: &Pool, library: &Library) -> OpenedMembers {
        let mut members = OpenedMembers::default();
        for named in pool.members() {
            let opened = Pool::new(vec![named.clone()]).open_members(1, true, sources(library));
            let Some(opened) = opened.ok().and_then(|opened| opened.members.into_iter().next()) else {
                continue;
            };
            let copies = copy_offsets(opened.device.geometry().capacity).into_iter();
            let superblock =
                |offset| Superblock::decode(&super::dump::read(&*opened.device, offset).ok()?).ok();
            if let Some(superblock) = copies.filter_map(superblock).next() {
                members.devices.insert(usize::from(superblock.member), path_of(&named.device).to_owned());
                let newest = members.superblock.as_ref().map_or(0, |newest| newest.sequence);
                if superblock.sequence > newest {
                    members.superblock = Some(superblock);
                }
            }
        }
        members
    }

    /// Returns the options of the volume with their names.
    fn options(&self) -> Vec<(&'static str, String)> {
        let Some(superblock) = &self.superblock else { return Vec::new() };
        let copies = superblock.replicas;
        let data = format!(
            "{copies} {}, {}, blocks of {}, buckets of {}",
            if copies == 1 { "copy" } else { "copies" },
            match superblock.key {
                None => format!("{} checksums", superblock.checksum.name()),
                Some(_) => "authentication tags".to_owned(),
            },
            size(superblock.block.into()),
            size(superblock.bucket.into())
        );
        let compression =
            format!("{}, in the background {}", superblock.compression, superblock.background_compression);
        let targets: Vec<String> = superblock
            .targets
            .all()
            .iter()
            .filter(|(_, target)| !target.is_empty())
            .map(|(name, target)| format!("{name} {target}"))
            .collect();
        let targets = if targets.is_empty() { "none".to_owned() } else { targets.join(", ") };
        vec![
            ("options", data),
            ("compressor", compression),
            ("encryption", encryption(superblock)),
            ("targets", targets),
        ]
    }
}

/// Returns the members with their numbers. Skips the places of removed members.
fn members(usage: &Usage) -> impl Iterator<Item = (usize, &MemberUsage)> {
    usage.members.iter().enumerate().filter(|(_, member)| member.state != MemberState::Removed)
}

/// Returns the use of the space, the members and the background work as JSON.
fn json(usage: &Usage, backlog: &Backlog, opened: &OpenedMembers) -> Value {
    let bucket = u64::from(usage.bucket);
    let members: Vec<Value> = members(usage)
        .map(|(number, member)| {
            let MemberUsage { errors, buckets, .. } = member;
            json!({
                "member": number,
                "label": member.label,
                "device": opened.devices.get(&number),
                "state": member.state.name(),
                "present": member.present,
                "failing": member.failing,
                "durability": member.durability,
                "metadata": member.metadata,
                "read_errors": errors.read,
                "write_errors": errors.write,
                "checksum_errors": errors.checksum,
                "free_bytes": u64::from(buckets.free) * bucket,
                "used_bytes": u64::from(buckets.used) * bucket,
                "cached_bytes": u64::from(buckets.cached) * bucket,
                "metadata_bytes": u64::from(buckets.metadata) * bucket,
                "live_blocks": buckets.live_blocks,
            })
        })
        .collect();
    let superblock = opened.superblock.as_ref();
    json!({
        "size_bytes": usage.size,
        "mapped_bytes": usage.mapped,
        "stored_bytes": usage.stored,
        "replicas": usage.replicas,
        "metadata_copies": usage.metadata_copies,
        "compression": usage.compression.to_string(),
        "background_compression": usage.background_compression.to_string(),
        "block_bytes": superblock.map(|superblock| superblock.block),
        "checksum": superblock.filter(|superblock| superblock.key.is_none()).map(|superblock| superblock.checksum.name()),
        "cipher": superblock.and_then(|superblock| Some(superblock.key.as_ref()?.cipher().name())),
        "targets": superblock.map(|superblock| BTreeMap::from(superblock.targets.all())),
        "by_compression": by_compression(usage),
        "by_copies": by_copies(usage),
        "by_label": labels(usage).into_iter().map(|(label, sums)| (label, sums.json(bucket))).collect::<serde_json::Map<_, _>>(),
        "poisoned_bytes": usage.poisoned,
        "work": current(backlog),
        "pending": pending(backlog),
        "extents": usage.extents,
        "map_memory_bytes": usage.map_memory,
        "bucket_bytes": bucket,
        "members": members,
    })
}

/// Returns the use of the space, the members and the background work as text, in lines of at most `width` characters.
fn table(usage: &Usage, backlog: &Backlog, opened: &OpenedMembers, width: usize) -> String {
    let bucket = u64::from(usage.bucket);
    let mut text = format!(
        "size       {}\nmapped     {}\nstored     {}, over all copies\nextents    {}\nmap memory {}\n",
        size(usage.size),
        size(usage.mapped),
        size(usage.stored),
        usage.extents,
        size(usage.map_memory as u64),
    );
    for (name, value) in opened.options() {
        let _ = writeln!(text, "{name:<10} {value}");
    }
    for (name, (logical, stored)) in &usage.by_compression {
        let _ = writeln!(text, "{name:<10} {} in {} per copy", size(*logical), size(*stored));
    }
    for (copies, bytes) in &usage.by_copies {
        let _ =
            writeln!(text, "{copies} {:<8} {}", if *copies == 1 { "copy" } else { "copies" }, size(*bytes));
    }
    if usage.poisoned > 0 {
        let lost = size(usage.poisoned);
        let _ =
            writeln!(text, "lost       {lost}: every copy was lost, and reads fail until it is overwritten");
    }
    for (work, amount) in &backlog.current {
        let _ = writeln!(text, "work       {} {}", work.name(), size(amount.bytes));
    }
    text.push_str(&super::work::all_pending(usage, backlog));
    let mut rows = vec![HEADS.map(str::to_owned)];
    for (number, member) in members(usage) {
        let MemberUsage { buckets, errors, .. } = member;
        let [free, used, cached, metadata] = [buckets.free, buckets.used, buckets.cached, buckets.metadata]
            .map(|n| size(u64::from(n) * bucket));
        let label = if member.label.is_empty() { "-" } else { member.label.as_str() };
        let state = match (member.present, opened.devices.contains_key(&number)) {
            (true, _) => member.state.name(),
            (false, true) => "stale",
            (false, false) => "missing",
        };
        let device = opened.devices.get(&number).map_or("-", String::as_str).to_owned();
        let errors = u64::from(errors.read) + u64::from(errors.write) + u64::from(errors.checksum);
        let [number, errors] = [number as u64, errors].map(|n| n.to_string());
        let [label, state] = [label, state].map(str::to_owned);
        rows.push([number, label, state, free, used, cached, metadata, errors, device]);
    }
    let right = [false, false, false, true, true, true, true, true, false];
    let members = columns_of(&rows, &right, width);
    let mut rows = vec![LABEL_HEADS.map(str::to_owned)];
    rows.extend(labels(usage).into_iter().filter(|(_, sums)| sums.members > 1).map(|(label, sums)| {
        let [free, used, cached, metadata] = sums.bytes(bucket).map(|(_, bytes)| size(bytes));
        [label, sums.members.to_string(), free, used, cached, metadata]
    }));
    let labels = match rows.len() {
        1 => String::new(),
        _ => "\n".to_owned() + &columns_of(&rows, &[false, true, true, true, true, true], width),
    };
    fitted(&text, width) + "\n" + &members + &labels
}

/// Formats rows as aligned columns.
fn columns_of<const N: usize>(rows: &[[String; N]], right: &[bool; N], width: usize) -> String {
    let rows: Vec<Vec<&str>> = rows.iter().map(|row| row.iter().map(String::as_str).collect()).collect();
    terminal::columns(&rows, right, width)
}

/// Column headings of the table of labels that several members share.
const LABEL_HEADS: [&str; 6] = ["label", "members", "free", "used", "cached", "metadata"];

/// Number of members with a label, and the numbers of their buckets by use.
#[derive(Default)]
struct LabelSums {
    members: u64,
    free: u64,
    used: u64,
    cached: u64,
    metadata: u64,
}

impl LabelSums {
    fn add(&mut self, buckets: &BucketUsage) {
        self.members += 1;
        self.free += u64::from(buckets.free);
        self.used += u64::from(buckets.used);
        self.cached += u64::from(buckets.cached);
        self.metadata += u64::from(buckets.metadata);
    }

    fn bytes(&self, bucket: u64) -> [(&'static str, u64); 4] {
        let LabelSums { free, used, cached, metadata, .. } = self;
        [("free", free), ("used", used), ("cached", cached), ("metadata", metadata)]
            .map(|(name, buckets)| (name, buckets * bucket))
    }

    fn json(&self, bucket: u64) -> Value {
        let bytes = self.bytes(bucket).map(|(name, bytes)| (format!("{name}_bytes"), json!(bytes)));
        Value::Object([("members".to_owned(), json!(self.members))].into_iter().chain(bytes).collect())
    }
}

/// Returns the sums over the members of each label. A member with the label `ssd.a` also belongs to `ssd`.
fn labels(usage: &Usage) -> BTreeMap<String, LabelSums> {
    let mut labels = BTreeMap::<String, LabelSums>::new();
    for (_, member) in members(usage).filter(|(_, member)| !member.label.is_empty()) {
        let dots = member.label.match_indices('.').map(|(at, _)| at);
        for end in dots.chain([member.label.len()]) {
            labels.entry(member.label[..end].to_owned()).or_default().add(&member.buckets);
        }
    }
    labels
}

/// Column headings of the table of members.
const HEADS: [&str; 9] =
    ["member", "label", "state", "free", "used", "cached", "metadata", "errors", "device"];

/// Returns the background work that can be done now.
fn current(backlog: &Backlog) -> Value {
    let amount = |(work, amount): (&Work, &Amount)| {
        (work.name().to_owned(), json!({ "extents": amount.extents, "bytes": amount.bytes }))
    };
    Value::Object(backlog.current.iter().map(amount).collect())
}

/// Returns the background work that waits, with its reasons.
fn pending(backlog: &Backlog) -> Value {
    let entry = |((work, reason), amount): (&(Work, Reason), &Amount)| {
        let Amount { extents, bytes } = amount;
        json!({ "work": work.name(), "reason": reason.text(), "extents": extents, "bytes": bytes })
    };
    Value::Array(backlog.pending.iter().map(entry).collect())
}

/// Returns logical and stored bytes by compression.
fn by_compression(usage: &Usage) -> Value {
    let sums = |(name, (logical, stored)): (&&str, &(u64, u64))| {
        ((*name).to_owned(), json!({ "mapped_bytes": logical, "stored_bytes_per_copy": stored }))
    };
    Value::Object(usage.by_compression.iter().map(sums).collect())
}

/// Returns logical bytes by the number of copies.
fn by_copies(usage: &Usage) -> Value {
    Value::Object(usage.by_copies.iter().map(|(copies, bytes)| (copies.to_string(), json!(bytes))).collect())
}
