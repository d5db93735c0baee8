//! `flashlab volume dump`: superblocks, journal and map, as text for a person who examines a damaged volume.

use super::secret::{Secret, prompt};
use super::size;
use crate::edge::sources;
use crate::failure::Failure;
use crate::file;
use clap::Args;
use flashlab_block::{Answer, BlockDevice, Context, Io, IoError};
use flashlab_catalogue::library::Library;
use flashlab_served::wait::{execute, wait_on};
use flashlab_sim::Instant;
use flashlab_volume::examine::Examination;
use flashlab_volume::format::{Entry, Record, Run, SUPERBLOCK_SIZE, Superblock, copy_offsets};
use flashlab_volume::keys::Passphrase;
use flashlab_volume::{Extent, ExtentState, Pointer, VolumeError};
use std::fmt;
use std::fmt::Write as _;
use std::process::ExitCode;

#[derive(Args)]
pub(super) struct Options {
    /// The members, separated by colons, or a TOML file with a list of them.
    #[arg(value_name = "A.IMG:B.IMG")]
    volume: String,
    /// Prints the entries in the journal of each member, with their records.
    #[arg(long)]
    journal: bool,
    /// Prints the map in the checkpoint of each member: extents and the generations of buckets.
    #[arg(long)]
    map: bool,
    #[command(flatten)]
    secret: Secret,
}

pub(super) fn run(options: &Options, library: &Library) -> Result<ExitCode, Failure> {
    let pool = super::pool(&options.volume)?;
    let opened = pool.open_members(1, true, sources(library))?;
    let mut passphrase = options.secret.read()?;
    for (named, member) in pool.members().iter().zip(&opened.members) {
        let mut text = format!("{}\n", named.device);
        let mut newest: Option<Superblock> = None;
        for (n, offset) in copy_offsets(member.device.geometry().capacity).into_iter().enumerate() {
            let _ = writeln!(text, "  copy {n} at {offset}");
            match read(&*member.device, offset) {
                Err(error) => {
                    let _ = writeln!(text, "    cannot be read: {error}");
                }
                Ok(bytes) => match Superblock::decode(&bytes) {
                    Err(fault) => {
                        let _ = writeln!(text, "    invalid: {fault}");
                    }
                    Ok(superblock) => {
                        describe(&superblock, &mut text);
                        let is_newer = |old: &Superblock| superblock.sequence > old.sequence;
                        if newest.as_ref().is_none_or(is_newer) {
                            newest = Some(superblock);
                        }
                    }
                },
            }
        }
        file::print(&text)?;
        let Some(superblock) = newest.filter(|_| options.journal || options.map) else { continue };
        if superblock.key.is_some() && passphrase.is_none() {
            passphrase = Some(prompt("passphrase: ")?);
        }
        let examination = examination(&*member.device, &superblock, passphrase.as_ref())?;
        if options.journal {
            print_journal(&*member.device, &superblock, &examination)?;
        }
        if options.map {
            print_map(&*member.device, &superblock, &examination)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn examination<'a>(
    device: &'a dyn BlockDevice,
    superblock: &'a Superblock,
    passphrase: Option<&Passphrase>,
) -> Result<Examination<'a>, Failure> {
    // A member of an unencrypted volume needs no passphrase, even if another member in the list needs one.
    let passphrase = passphrase.filter(|_| superblock.key.is_some());
    Examination::new(device, superblock, passphrase).map_err(|error: VolumeError| Failure::failed(error))
}

fn print_journal(
    device: &dyn BlockDevice,
    superblock: &Superblock,
    examination: &Examination<'_>,
) -> Result<(), Failure> {
    file::print("  journal\n")?;
    let mut printed = Ok(());
    let print = |at: u64, entry: Result<Entry, _>| {
        let text = match entry {
            Err(damage) => format!("    {at}: {damage}\n"),
            Ok(entry) => {
                let old = entry.sequence <= superblock.root.sequence;
                let old = if old { ", in the checkpoint" } else { "" };
                let (sequence, mount, sum) = (entry.sequence, entry.mount, entry.sum);
                let previous = entry.previous;
                let head = format!(
                    "    {at}: entry {sequence}{old}, mount {mount}, checksum {sum:08x} after {previous:08x}\n"
                );
                head + &records(&entry.records)
            }
        };
        if printed.is_ok() {
            printed = file::print(&text);
        }
    };
    wait_on(examination.journal(&Context::new(Instant::ZERO), print), device);
    printed
}

fn print_map(
    device: &dyn BlockDevice,
    superblock: &Superblock,
    examination: &Examination<'_>,
) -> Result<(), Failure> {
    let root = superblock.root;
    file::print(&match root.first {
        None => "  no checkpoint\n".to_owned(),
        Some(_) => format!("  checkpoint {}\n", root.checkpoint),
    })?;
    let mut printed = Ok(());
    let print = |index: u32, run: Result<Run, _>| {
        let text = match run {
            Err(damage) => format!("    run {index}: {damage}\n"),
            Ok(run) => format!("    run {index}\n{}", records(&run.records)),
        };
        if printed.is_ok() {
            printed = file::print(&text);
        }
    };
    wait_on(examination.checkpoint(&Context::new(Instant::ZERO), print), device);
    printed
}

/// Returns a line for each record.
fn records(bytes: &[u8]) -> String {
    let mut text = String::new();
    let decoded = Record::decode_all(bytes, |record| {
        let _ = match record {
            Record::Map(extent) => writeln!(text, "      map {}", Shown(&extent)),
            Record::Unmap { start, length } => {
                writeln!(text, "      unmap blocks {start} to {}", start.saturating_add(length))
            }
            Record::Open { member, bucket, generation } => {
                writeln!(text, "      bucket {bucket} of member {member} has generation {generation}")
            }
            Record::Epoch { mount, .. } => writeln!(text, "      mount {mount}, with its salt"),
        };
        Ok(())
    });
    if let Err(fault) = decoded {
        let _ = writeln!(text, "      invalid: {fault}");
    }
    text
}

/// An extent as text: the blocks that it maps, how they are stored, and where.
struct Shown<'a>(&'a Extent);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let extent = self.0;
        write!(f, "blocks {} to {}", extent.start(), extent.end())?;
        if extent.length() != extent.whole() {
            write!(f, ", from block {} of {}", extent.skip(), extent.whole())?;
        }
        write!(f, ", {}, {} bytes", extent.compression().name(), extent.stored())?;
        if extent.state() == ExtentState::Poisoned {
            f.write_str(", poisoned")?;
        }
        for Pointer { member, bucket, offset, generation, cached } in &*extent.pointers() {
            let kind = if *cached { "cached on" } else { "on" };
            write!(f, "; {kind} member {member}, bucket {bucket}, block {offset}, generation {generation}")?;
        }
        Ok(())
    }
}

fn describe(superblock: &Superblock, text: &mut String) {
    let hex = |bytes: &[u8; 16]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let root = superblock.root;
    let lines = [
        ("sequence", superblock.sequence.to_string()),
        ("volume", hex(&superblock.volume)),
        ("member", format!("{} of {}", superblock.member, superblock.members.len())),
        ("size", size(superblock.size)),
        ("block", size(superblock.block.into())),
        ("bucket", size(superblock.bucket.into())),
        ("checksum block", size(superblock.checksum_block.into())),
        ("extent max", size(superblock.extent_max.into())),
        ("replicas", superblock.replicas.to_string()),
        ("compression", superblock.compression.to_string()),
        ("checksum", superblock.checksum.name().to_owned()),
        ("encryption", encryption(superblock)),
        ("recompression", superblock.background_compression.to_string()),
        ("changes", superblock.changes.to_string()),
        ("clock", superblock.clock.to_string()),
        ("journal", format!("{} buckets", superblock.journal_buckets)),
        (
            "checkpoint",
            format!("{} in {} runs, up to journal entry {}", root.checkpoint, root.runs, root.sequence),
        ),
        ("mount", root.mount.to_string()),
    ];
    for (name, value) in lines {
        let _ = writeln!(text, "    {name:<15} {value}");
    }
    for (name, target) in superblock.targets.all().iter().filter(|(_, target)| !target.is_empty()) {
        let _ = writeln!(text, "    {name:<15} {target}");
    }
    for (n, member) in superblock.members.iter().enumerate() {
        let label = if member.label.is_empty() { "-" } else { &member.label };
        let metadata = if member.metadata { ", metadata" } else { "" };
        let _ = writeln!(
            text,
            "    member {n:<8} {} {label}: {}, {} buckets, durability {}{metadata}",
            hex(&member.id),
            member.state.name(),
            member.buckets,
            member.durability
        );
    }
}

/// Returns the cipher, the function that derives its key, and the number of changes of the passphrase.
pub(super) fn encryption(superblock: &Superblock) -> String {
    let Some(key) = &superblock.key else { return "none".to_owned() };
    let changes = superblock.key_changes;
    format!("{}, key by {}, passphrase changed {changes} times", key.cipher().name(), key.kdf().name())
}

pub(super) fn read(device: &dyn BlockDevice, offset: u64) -> Result<Vec<u8>, IoError> {
    match execute(device, Io::Read { offset, buffer: vec![0; SUPERBLOCK_SIZE] })? {
        Answer::Read(bytes) => Ok(bytes),
        _ => unreachable!("a read is answered with bytes"),
    }
}
