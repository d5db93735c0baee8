//! `flashlab volume dump`: the superblocks, as text for a person who examines a damaged volume.

use super::size;
use crate::failure::Failure;
use crate::file;
use clap::Args;
use flashlab_block::{Answer, BlockDevice, Context, Io, IoError, Started};
use flashlab_catalogue::library::Library;
use flashlab_served::volume::wait_on;
use flashlab_sim::Instant;
use flashlab_volume::format::{SUPERBLOCK_SIZE, Superblock, copy_offsets};
use std::fmt::Write as _;
use std::process::ExitCode;

#[derive(Args)]
pub(super) struct Options {
    /// The members, separated by colons, or a TOML file with a list of them.
    #[arg(value_name = "A.IMG:B.IMG")]
    volume: String,
}

pub(super) fn run(options: &Options, library: &Library) -> Result<ExitCode, Failure> {
    let pool = super::pool(&options.volume)?;
    let members = pool.open_members(1, true, library)?;
    let mut text = String::new();
    for (named, member) in pool.members().iter().zip(&members) {
        let _ = writeln!(text, "{}", named.device);
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
                    Ok(superblock) => describe(&superblock, &mut text),
                },
            }
        }
    }
    file::print(&text)?;
    Ok(ExitCode::SUCCESS)
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
        ("background", superblock.background_compression.to_string()),
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

fn encryption(superblock: &Superblock) -> String {
    let Some(key) = &superblock.key else { return "none".to_owned() };
    let changes = superblock.key_changes;
    format!("{}, key by {}, passphrase changed {changes} times", key.cipher().name(), key.kdf().name())
}

pub(super) fn read(device: &dyn BlockDevice, offset: u64) -> Result<Vec<u8>, IoError> {
    let read = Io::Read { offset, buffer: vec![0; SUPERBLOCK_SIZE] };
    let outcome = match device.start(&Context::new(Instant::ZERO), read) {
        Started::Done(outcome) => outcome,
        Started::Pending(future) => wait_on(future, device),
    };
    match outcome? {
        Answer::Read(bytes) => Ok(bytes),
        _ => unreachable!("a read is answered with bytes"),
    }
}
