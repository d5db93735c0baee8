//! `flashlab volume set`, `add`, `remove` and `evacuate`: changes of options and members.

use super::work::{self, Rate};
use super::{Name, format, size};
use crate::edge::sources;
use crate::failure::{Failure, and_then_end, say, way_out};
use crate::file;
use crate::interrupts::Interrupts;
use crate::progress::show_elapsed;
use clap::Args;
use flashlab_block::Context;
use flashlab_catalogue::library::Library;
use flashlab_served::ServedError;
use flashlab_served::volume::{
    OpenMembers, OpenPool, Pool, PoolMember, find_data, member_number, random, read_setting,
};
use flashlab_served::wait::{wait, wait_on};
use flashlab_sim::Instant;
use flashlab_volume::encode::Compressor;
use flashlab_volume::{
    Backlog, Change, Growth, Leftover, MemberState, Reconciled, Usage, Volume, VolumeError,
};
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
    /// Sets the number of copies that one copy on a member counts as; 0 makes the member a pure cache.
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
    /// Members on which reads, and moves to the background, leave cached copies.
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
    /// Number of copies that one copy on the new member counts as; 0 makes the member a pure cache.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=4))]
    durability: u8,
    /// Keeps the size of the volume, so that the new space is left for more copies; otherwise the volume grows.
    #[arg(long)]
    keep_size: bool,
}

#[derive(Args)]
pub(super) struct Member {
    #[command(flatten)]
    name: Name,
    /// The member: its number or its label, as `volume show` prints them.
    #[arg(value_name = "MEMBER")]
    member: String,
    #[command(flatten)]
    rate: Rate,
}

fn volume_size(text: &str) -> Result<u64, String> {
    match text {
        "max" => Ok(0),
        text => format::volume_size(text),
    }
}

fn of_member(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').ok_or_else(|| "expected MEMBER=VALUE".to_owned())?;
    Ok((pair.0.to_owned(), pair.1.to_owned()))
}

/// Finds a member by its number or label.
fn number(volume: &Volume, member: &str) -> Result<u8, Failure> {
    member_number(volume, member).map_err(Failure::usage)
}

fn change_failed(error: VolumeError) -> Failure {
    let message = format!("{error}{}", way_out(&error));
    match error {
        VolumeError::Option(_) | VolumeError::NoMember(_) | VolumeError::NoRoom { .. } => {
            Failure::usage(message)
        }
        _ => Failure::failed(message),
    }
}

pub(super) fn set(options: &Set, library: &Library, interrupts: &Interrupts) -> Result<ExitCode, Failure> {
    let pool = options.name.open(false, library)?;
    let (usage, backlog) = work::close_after(&pool, change(options, &pool.volume, interrupts))?;
    let rest = match backlog.current_bytes() {
        0 => String::new(),
        bytes => {
            format!("; {} of background work is left, which `serve` or `volume reconcile` does", size(bytes))
        }
    };
    file::print(&format!("changed{rest}\n{}", work::all_pending(&usage, &backlog)))?;
    Ok(ExitCode::SUCCESS)
}

/// Changes the options. Returns the use of the volume and its background work after the change.
fn change(options: &Set, volume: &Volume, interrupts: &Interrupts) -> Result<(Usage, Backlog), Failure> {
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
    let of_members =
        [("label", &options.label), ("durability", &options.durability), ("state", &options.state)];
    for (key, values) in of_members {
        for (member, value) in values {
            let read = read_setting(volume, &mut change, key, &format!("{member}={value}"));
            read.map_err(|error| Failure::usage(format!("--{error}")))?;
        }
    }
    if change == Change::default() {
        return Err(Failure::usage("nothing to change; `flashlab volume set --help` lists the options"));
    }
    interrupts.defer();
    let cx = Context::new(Instant::ZERO);
    show_elapsed("set", || wait_on(volume.set(&cx, &change), volume)).map_err(change_failed)?;
    Ok((volume.usage(), volume.backlog()))
}

pub(super) fn add(options: &Add, library: &Library, interrupts: &Interrupts) -> Result<ExitCode, Failure> {
    let mut member = PoolMember::parse(&options.member).map_err(Failure::usage)?;
    member.durability = options.durability;
    let new = Pool::new(vec![member]);
    format::refuse_devices_in_use(&new)?;
    interrupts.defer();
    let opened = new.open_members(1, false, sources(library))?;
    interrupts.permit("");
    format::refuse_volatile(&opened)?;
    let added = add_member(options, (&new, &opened), library, interrupts);
    and_then_end(added, opened.close().map_err(Failure::failed))?;
    let device = &new.members()[0].device;
    file::print(&format!("{device} is now a member; add it to the list of devices from now on\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Adds the open device of `new` to the volume.
fn add_member(
    options: &Add,
    (new, opened): (&Pool, &OpenMembers),
    library: &Library,
    interrupts: &Interrupts,
) -> Result<(), Failure> {
    let (named, member) = (&new.members()[0], &opened.members[0]);
    let read_error = |error| Failure::failed(format!("{}: {error}", named.device));
    if !options.force
        && let Some(found) = find_data(&*member.device).map_err(read_error)?
    {
        return Err(Failure::usage(format!(
            "{}: it holds {found}; --force adds it, and its contents are lost",
            named.device
        )));
    }
    let pool = options.name.open(false, library)?;
    let growth = if options.keep_size { Growth::None } else { Growth::All };
    let cx = Context::new(Instant::ZERO);
    let mut devices = vec![member.device.clone()];
    devices.push(std::sync::Arc::new(pool.volume.clone()));
    let id = random()?;
    interrupts.defer();
    opened.new_files.survive_signals();
    let added = show_elapsed("add", || wait(pool.volume.add(&cx, member, id, growth), &devices));
    if added.as_ref().err().is_none_or(VolumeError::may_be_in_effect) {
        opened.new_files.keep();
    }
    let added = added.map_err(|error| match error {
        VolumeError::Option(_) | VolumeError::NoMember(_) | VolumeError::NoRoom { .. } => {
            change_failed(error)
        }
        error => Failure::from(ServedError::Volume(new.error(error))),
    });
    work::close_after(&pool, added.map(drop))
}

/// Moves all data of a member to others. The member stays in the volume, without data.
pub(super) fn evacuate(
    options: &Member,
    library: &Library,
    interrupts: &Interrupts,
) -> Result<ExitCode, Failure> {
    let pool = options.name.open(false, library)?;
    let moved = number(&pool.volume, &options.member).and_then(|member| {
        let done = move_away(&pool, member, (options.rate, interrupts))?;
        Ok((done, pool.volume.bytes_on(member)))
    });
    let (done, bytes_left) = work::close_after(&pool, moved)?;
    work::print(&done)?;
    Ok(if bytes_left == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn set_state(pool: &OpenPool, member: u8, state: MemberState) -> Result<(), Failure> {
    let cx = Context::new(Instant::ZERO);
    wait_on(pool.volume.set_member_state(&cx, member, state), &pool.volume).map_err(change_failed)
}

fn move_away(
    pool: &OpenPool,
    member: u8,
    (rate, interrupts): (Rate, &Interrupts),
) -> Result<Reconciled, Failure> {
    interrupts.defer();
    set_state(pool, member, MemberState::Evacuating)?;
    work::reconcile(&pool.volume, rate, interrupts)
}

/// Removes a member, after all of its data was moved to others. A member that cannot be removed keeps its state. A
/// removal that a signal stops leaves the member evacuating.
pub(super) fn remove(
    options: &Member,
    library: &Library,
    interrupts: &Interrupts,
) -> Result<ExitCode, Failure> {
    let pool = options.name.open(false, library)?;
    let removed = number(&pool.volume, &options.member)
        .and_then(|member| Ok((member, empty_and_remove(&pool, member, (options.rate, interrupts))?)));
    let (member, left) = work::close_after(&pool, removed)?;
    let left = left.text();
    file::print(&format!("member {member} is removed; leave it out from now on{left}\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn empty_and_remove(
    pool: &OpenPool,
    member: u8,
    (rate, interrupts): (Rate, &Interrupts),
) -> Result<Leftover, Failure> {
    let before = pool.volume.usage().members[usize::from(member)].clone();
    pool.volume.check_removal(member).map_err(change_failed)?;
    let remove = |reconciled: Reconciled| {
        if before.present {
            work::pending(&reconciled.pending).lines().for_each(say);
        }
        interrupts.defer();
        let cx = Context::new(Instant::ZERO);
        wait_on(pool.volume.remove(&cx, member), &pool.volume)
            .map_err(|error| Failure::failed(format!("{error}{}", way_out(&error))))
    };
    if !before.present {
        return work::reconcile(&pool.volume, rate, interrupts).and_then(remove);
    }
    let removed = move_away(pool, member, (rate, interrupts)).and_then(remove);
    let has_failed = removed.as_ref().is_err_and(|failure| !failure.is_interrupted());
    let restored = if has_failed { set_state(pool, member, before.state) } else { Ok(()) };
    and_then_end(removed, restored)
}
