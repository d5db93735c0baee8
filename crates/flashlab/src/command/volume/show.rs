//! `flashlab volume show`.

use super::{Name, size};
use crate::failure::Failure;
use crate::file;
use clap::Args;
use flashlab_catalogue::library::Library;
use serde_json::{Value, json};
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
    let usage = options.name.open_read_only(library)?.volume.usage();
    let bucket = u64::from(usage.bucket);
    if options.json {
        let members: Vec<Value> = usage
            .members
            .iter()
            .enumerate()
            .map(|(member, (label, use_))| {
                json!({
                    "member": member,
                    "label": label,
                    "free_bytes": u64::from(use_.free) * bucket,
                    "used_bytes": u64::from(use_.used) * bucket,
                    "metadata_bytes": u64::from(use_.metadata) * bucket,
                    "live_blocks": use_.live_blocks,
                })
            })
            .collect();
        file::print(&file::pretty(&json!({
            "size_bytes": usage.size,
            "mapped_bytes": usage.mapped,
            "stored_bytes": usage.stored,
            "extents": usage.extents,
            "map_memory_bytes": usage.map_memory,
            "bucket_bytes": bucket,
            "members": members,
        })))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!(
        "size       {}\nmapped     {}\nstored     {}, over all copies\nextents    {}\nmap memory {}\n\n",
        size(usage.size),
        size(usage.mapped),
        size(usage.stored),
        usage.extents,
        size(usage.map_memory as u64),
    );
    let _ =
        writeln!(text, "{:<6} {:<16} {:>12} {:>12} {:>12}", "member", "label", "free", "used", "metadata");
    for (member, (label, use_)) in usage.members.iter().enumerate() {
        let [free, used, metadata] =
            [use_.free, use_.used, use_.metadata].map(|n| size(u64::from(n) * bucket));
        let label = if label.is_empty() { "-" } else { label };
        let _ = writeln!(text, "{member:<6} {label:<16} {free:>12} {used:>12} {metadata:>12}");
    }
    file::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
