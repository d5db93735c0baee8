//! `flashlab volume set`, `add`, `remove` and `evacuate`: changes of options and members.

use super::{Name, foreign, format, size, work};
use crate::failure::{Failure, say};
use crate::file;
use clap::Args;
use flashlab_block::Context;
use flashlab_catalogue::library::Library;
use flashlab_served::ServedError;
use flashlab_served::volume::{Pool, random, wait, wait_on};
use flashlab_sim::Instant;
use flashlab_volume::encode::Compressor;
use flashlab_volume::{Change, MemberState, Volume, VolumeError};
use std::process::ExitCode;

#[derive(Args)]
pub(super) struct Set {
    #[command(flatten)]
    name: Name,
    /// Number of copies of all data, on different members.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=4))]
    replicas: Option<u8>,
    /// Compresses new data: none, lz4, zstd or zstd:LEVEL.
    #[arg(long, value_name = "METHOD")]
    compression: Option<Compressor>,
    /// Compresses data again in the background; none leaves it as it is.
    #[arg(long, value_name = "METHOD")]
    background_compression: Option<Compressor>,
    #[command(flatten)]
    targets: Targets,
    /// Size of the volume; "max" takes all space.
    #[arg(long, value_name = "SIZE", value_parser = volume_size)]
    size: Option<u64>,
    /// Gives a member another label.
    #[arg(long, value_name = "MEMBER=LABEL", value_parser = of_member)]
    label: Vec<(String, String)>,
    /// Sets the number of copies that a copy on a member counts for; 0 makes it a pure cache.
    #[arg(long, value_name = "MEMBER=N", value_parser = of_member)]
    durability: Vec<(String, String)>,
    /// Sets the state of a member: rw, ro, evacuating or spare.
    #[arg(long, value_name = "MEMBER=STATE", value_parser = of_member)]
    state: Vec<(String, String)>,
}

/// Targets of a volume.
#[derive(Args)]
pub(super) struct Targets {
    /// Members for new data: a label, a prefix of labels up to a dot, or the number of a member. "" stands for all.
    #[arg(long, value_name = "TARGET")]
    pub(super) foreground: Option<String>,
    /// Members on which data finally rests.
    #[arg(long, value_name = "TARGET")]
    pub(super) background: Option<String>,
    /// Members on which reads leave cached copies.
    #[arg(long, value_name = "TARGET")]
    pub(super) promote: Option<String>,
    /// Members for the journal and the map.
    #[arg(long, value_name = "TARGET")]
    pub(super) metadata: Option<String>,
}

#[derive(Args)]
pub(super) struct Add {
    #[command(flatten)]
    name: Name,
    /// Formats a device that holds data, which is lost.
    #[arg(long)]
    force: bool,
    /// The new member: a path, or a device of `flashlab serve`; with a label: ssd.b=PATH.
    #[arg(value_name = "MEMBER")]
    member: String,
    /// Number of copies that a copy on the new member counts for; 0 makes it a pure cache.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=4))]
    durability: u8,
}

#[derive(Args)]
pub(super) struct Member {
    #[command(flatten)]
    name: Name,
    /// The member: its number or its label, as `volume show` prints them.
    #[arg(value_name = "MEMBER")]
    member: String,
}

fn volume_size(text: &str) -> Result<u64, String> {
    if text == "max" { Ok(0) } else { format::size(text) }
}

fn of_member(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').ok_or_else(|| "expected MEMBER=VALUE".to_owned())?;
    Ok((pair.0.to_owned(), pair.1.to_owned()))
}

/// Finds a member by its number or label.
fn number(volume: &Volume, member: &str) -> Result<u8, Failure> {
    volume
        .member(member)
        .ok_or_else(|| Failure::usage(format!("{member}: no member has this number or label")))
}

fn change_failed(error: VolumeError) -> Failure {
    match error {
        VolumeError::Option(_) | VolumeError::NoMember(_) => Failure::usage(error.to_string()),
        error => Failure::failed(error.to_string()),
    }
}

pub(super) fn set(options: &Set, library: &Library) -> Result<ExitCode, Failure> {
    let volume = options.name.open(false, library)?.volume;
    let mut change = Change {
        replicas: options.replicas,
        compression: options.compression,
        background_compression: options.background_compression,
        foreground: options.targets.foreground.clone(),
        background: options.targets.background.clone(),
        promote: options.targets.promote.clone(),
        metadata: options.targets.metadata.clone(),
        size: options.size,
        ..Change::default()
    };
    for (member, label) in &options.label {
        change.labels.push((number(&volume, member)?, label.clone()));
    }
    for (member, text) in &options.durability {
        let durability = text.parse().ok().filter(|n| *n <= 4);
        let durability = durability
            .ok_or_else(|| Failure::usage(format!("--durability {member}={text}: 0 to 4 is needed")))?;
        change.durability.push((number(&volume, member)?, durability));
    }
    for (member, text) in &options.state {
        let state = MemberState::ALL.into_iter().find(|state| state.name() == text.as_str());
        let wrong =
            || Failure::usage(format!("--state {member}={text}: rw, ro, evacuating or spare is needed"));
        change.states.push((number(&volume, member)?, state.ok_or_else(wrong)?));
    }
    if change == Change::default() {
        return Err(Failure::usage("nothing to change; `flashlab volume set --help` lists the options"));
    }
    let cx = Context::new(Instant::ZERO);
    wait_on(volume.set(&cx, &change), &volume).map_err(change_failed)?;
    drop(volume);
    // The opening proves that the changed volume opens.
    let pool = options.name.open(false, library)?;
    let bytes = pool.volume.backlog().current_bytes();
    work::close(&pool)?;
    let rest = match bytes {
        0 => String::new(),
        bytes => {
            format!("; {} of background work is left, which `serve` or `volume reconcile` does", size(bytes))
        }
    };
    file::print(&format!("changed{rest}\n"))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn add(options: &Add, library: &Library) -> Result<ExitCode, Failure> {
    let mut member = super::member(&options.member);
    member.durability = options.durability;
    let new = Pool::new(vec![member]);
    format::refuse_devices_in_use(&new)?;
    let opened = new.open_members(1, false, library)?;
    let named = &new.members()[0];
    let read_error = |error| Failure::failed(format!("{}: {error}", named.device));
    if !options.force
        && let Some(found) = foreign::find(&*opened[0].device).map_err(read_error)?
    {
        return Err(Failure::usage(format!(
            "{}: it holds {found}; --force adds it, and its contents are lost",
            named.device
        )));
    }
    let pool = options.name.open(false, library)?;
    let cx = Context::new(Instant::ZERO);
    let mut devices = vec![opened[0].device.clone()];
    devices.push(std::sync::Arc::new(pool.volume.clone()));
    wait(pool.volume.add(&cx, &opened[0], random()?), &devices).map_err(|error| match error {
        VolumeError::Option(_) | VolumeError::NoMember(_) => Failure::usage(error.to_string()),
        error => Failure::from(ServedError::Volume(new.error(error))),
    })?;
    work::close_members(&pool)?;
    file::print(&format!("{} is a member; name it with the others from now on\n", named.device))?;
    Ok(ExitCode::SUCCESS)
}

/// Moves all data of a member to others. The member stays a member without data.
pub(super) fn evacuate(options: &Member, library: &Library) -> Result<ExitCode, Failure> {
    let done = move_away(options, library)?;
    work::print(&done)?;
    Ok(if done.pending.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn move_away(options: &Member, library: &Library) -> Result<flashlab_volume::Reconciled, Failure> {
    let volume = options.name.open(false, library)?.volume;
    let member = number(&volume, &options.member)?;
    let change = Change { states: vec![(member, MemberState::Evacuating)], ..Change::default() };
    let cx = Context::new(Instant::ZERO);
    wait_on(volume.set(&cx, &change), &volume).map_err(change_failed)?;
    drop(volume);
    let pool = options.name.open(false, library)?;
    let done = work::reconcile(&pool.volume)?;
    work::close(&pool)?;
    Ok(done)
}

/// Removes a member, after all of its data was moved to others. A member that cannot be removed keeps its state.
pub(super) fn remove(options: &Member, library: &Library) -> Result<ExitCode, Failure> {
    let volume = options.name.open(true, library)?.volume;
    let member = number(&volume, &options.member)?;
    let before = volume.usage().members[usize::from(member)].clone();
    drop(volume);
    if before.present {
        let done = move_away(options, library)?;
        let left = work::pending(&done.pending);
        left.lines().for_each(say);
    }
    let pool = options.name.open(false, library)?;
    if !before.present {
        work::reconcile(&pool.volume)?;
    }
    let cx = Context::new(Instant::ZERO);
    if let Err(refused) = wait_on(pool.volume.remove(&cx, member), &pool.volume) {
        let keep = Change { states: vec![(member, before.state)], ..Change::default() };
        if before.present {
            wait_on(pool.volume.set(&cx, &keep), &pool.volume).map_err(change_failed)?;
        }
        return Err(Failure::failed(refused));
    }
    work::close_members(&pool)?;
    file::print(&format!("member {member} is removed; leave it out from now on\n"))?;
    Ok(ExitCode::SUCCESS)
}
