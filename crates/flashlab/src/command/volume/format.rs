//! `flashlab volume format`.

use super::super::argument;
use super::secret::Secret;
use crate::edge::sources;
use crate::failure::{Failure, and_then_end, say_notes};
use crate::file;
use crate::interrupts::Interrupts;
use crate::progress::show_elapsed;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use flashlab_block::{BlockDevice, Context};
use flashlab_catalogue::library::Library;
use flashlab_measure::in_use::{Kernel, device_number};
use flashlab_served::volume::{OpenMembers, Pool, PoolMember, find_data, open_options, path_of, random};
use flashlab_served::wait::wait;
use flashlab_served::{Served, ServedError};
use flashlab_sim::Instant;
use flashlab_volume::encode::{Checksum, Compressor};
use flashlab_volume::keys::{Cipher, Kdf, MasterKey, Passphrase};
use flashlab_volume::{self as volume, Encryption, OpenOptions};
use std::process::ExitCode;
use std::sync::Arc;

/// Default size of the largest extent in bytes, if a quarter of a bucket is at least as large.
const EXTENT_MAX: u64 = 64 << 10;

#[derive(Args)]
pub(super) struct Options {
    /// Number of copies of all data, on different members.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=4))]
    replicas: u8,
    /// Size of the volume; by default, all space except the reserve for garbage collection.
    #[arg(long, value_name = "SIZE", value_parser = volume_size)]
    size: Option<u64>,
    /// Size of a block, from 512 to 4096.
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = argument::size)]
    block: u64,
    /// Size of a bucket, the unit of space; the erase unit of the members is a good choice.
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = argument::size)]
    bucket: u64,
    /// Bytes per checksum, from the block size to 64KiB. A read verifies whole units of this size.
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = argument::size)]
    checksum_block: u64,
    /// Largest extent, up to 256KiB and a quarter of a bucket; by default 64KiB, or less for smaller buckets.
    #[arg(long, value_name = "SIZE", value_parser = argument::size)]
    extent_max: Option<u64>,
    /// Compresses new data: none, lz4, zstd or zstd:LEVEL with a level from 1 to 19.
    #[arg(long, value_name = "METHOD", default_value = "none")]
    compression: Compressor,
    /// Compresses data again in the background, better and more slowly: lz4, zstd or zstd:LEVEL.
    #[arg(long, value_name = "METHOD", default_value = "none")]
    background_compression: Compressor,
    #[command(flatten)]
    targets: super::set::Targets,
    /// Number of copies that one copy on a member with this label counts as; 0 makes these members pure
    /// caches.
    #[arg(long, value_name = "LABEL=N", value_parser = durability)]
    durability: Vec<(String, u8)>,
    /// Checksum of the data: crc32c (default) or xxh3. An encrypted volume has authentication tags instead.
    #[arg(long, value_name = "NAME", value_parser = checksum, conflicts_with = "encrypt")]
    checksum: Option<Checksum>,
    /// Encrypts and authenticates everything except the superblocks, under a key that the passphrase opens.
    #[arg(long)]
    encrypt: bool,
    #[command(flatten)]
    secret: Secret,
    /// Cipher: chacha20-poly1305, or aes-256-gcm, which is faster on processors with AES instructions.
    #[arg(long, value_name = "NAME", default_value = "chacha20-poly1305", value_parser = cipher, requires = "encrypt")]
    cipher: Cipher,
    /// Function that derives a key from the passphrase: argon2id or scrypt.
    #[arg(long, value_name = "NAME", default_value = "argon2id", value_parser = kdf, requires = "encrypt")]
    kdf: Kdf,
    /// Formats members that hold data, which is lost.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    members: Members,
}

/// The members, each with the label that stands before it.
struct Members(Vec<PoolMember>);

impl clap::Args for Members {
    fn augment_args(command: Command) -> Command {
        let label = Arg::new("label").long("label").value_name("LABEL").action(ArgAction::Append);
        let members = Arg::new("members").value_name("MEMBER").required(true).num_args(1..);
        command
            .arg(label.help("Label of the members that follow, as in bcachefs: --label ssd.a a.img --label hdd b.img"))
            .arg(members.help(
                "The members: paths, or devices of `flashlab serve` such as file:a.img,size=1GiB; with a label of its own: \
                 ssd.a=PATH. Or a single TOML file with a list of members",
            ))
    }
    fn augment_args_for_update(command: Command) -> Command {
        Members::augment_args(command)
    }
}

impl FromArgMatches for Members {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Members, clap::Error> {
        let words = |name: &str| -> Vec<(usize, String)> {
            let values = matches.get_many::<String>(name).into_iter().flatten().cloned();
            matches.indices_of(name).into_iter().flatten().zip(values).collect()
        };
        let (labels, members) = (words("label"), words("members"));
        if let Some((_, label)) = labels.iter().find(|(at, _)| members.iter().all(|(member, _)| member < at))
        {
            let message = format!("--label {label}: no member follows\n");
            return Err(clap::Error::raw(ErrorKind::WrongNumberOfValues, message));
        }
        let member = |(at, text): &(usize, String)| -> Result<PoolMember, clap::Error> {
            let member = PoolMember::parse(text)
                .map_err(|why| clap::Error::raw(ErrorKind::ValueValidation, format!("{why}\n")))?;
            let before = labels.iter().rfind(|(label, _)| label < at);
            Ok(match before.filter(|_| member.label.is_empty()) {
                Some((_, label)) => PoolMember { label: label.clone(), ..member },
                None => member,
            })
        };
        Ok(Members(members.iter().map(member).collect::<Result<_, _>>()?))
    }
    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Members::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Parses the size of a volume.
pub(super) fn volume_size(text: &str) -> Result<u64, String> {
    match argument::size(text)? {
        0 => Err("a volume has at least one block".to_owned()),
        size => Ok(size),
    }
}

fn durability(text: &str) -> Result<(String, u8), String> {
    let pair = text.split_once('=').and_then(|(label, n)| Some((label, n.parse().ok().filter(|n| *n <= 4)?)));
    pair.map(|(label, n)| (label.to_owned(), n))
        .ok_or_else(|| "expected LABEL=N with N from 0 to 4".to_owned())
}

fn checksum(text: &str) -> Result<Checksum, String> {
    Checksum::from_name(text).ok_or_else(|| "expected crc32c or xxh3".to_owned())
}

fn cipher(text: &str) -> Result<Cipher, String> {
    Cipher::from_name(text).ok_or_else(|| "expected chacha20-poly1305 or aes-256-gcm".to_owned())
}

pub(super) fn kdf(text: &str) -> Result<Kdf, String> {
    Kdf::from_name(text).ok_or_else(|| "expected argon2id or scrypt".to_owned())
}

/// Advice after a signal during a format of devices that existed before.
const INTERRUPTED: &str =
    "stopped: members that existed before may be partly formatted; repeat the command with --force";

pub(super) fn run(
    options: &Options,
    library: &Library,
    interrupts: &Interrupts,
) -> Result<ExitCode, Failure> {
    if let Some(option) = options.secret.option().filter(|_| !options.encrypt) {
        return Err(Failure::usage(format!(
            "{option} needs --encrypt: without it, the volume is not encrypted"
        )));
    }
    let pool = pool(&options.members.0)?;
    refuse_devices_in_use(&pool)?;
    let advice = if pool.members().iter().any(may_exist) { INTERRUPTED } else { "" };
    interrupts.defer();
    let mut opened = pool.open_members(1, false, sources(library))?;
    interrupts.permit("");
    say_notes();
    refuse_volatile(&opened)?;
    let formatted = set_durability(&mut opened.members, &options.durability)
        .and_then(|()| format(options, &pool, &opened.members, (interrupts, advice)));
    let size = and_then_end(formatted, opened.close().map_err(Failure::failed))?;
    interrupts.defer();
    opened.new_files.keep();
    file::print(&format!(
        "a volume of {} over {} member{}\n",
        super::size(size),
        opened.members.len(),
        if opened.members.len() == 1 { "" } else { "s" },
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns true if the device of a member may exist already.
fn may_exist(member: &PoolMember) -> bool {
    Served::path_of_written_file(&member.device).is_none_or(|path| path.exists())
}

/// Formats the open members. Returns the size of the new volume. A signal during the format ends the process with
/// `advice`.
fn format(
    options: &Options,
    pool: &Pool,
    members: &[volume::NewMember],
    (interrupts, advice): (&Interrupts, &'static str),
) -> Result<u64, Failure> {
    if !options.force {
        for (named, member) in pool.members().iter().zip(members) {
            if let Some(found) = find_data(&*member.device).map_err(|error| read_error(named, &error))? {
                return Err(Failure::usage(format!(
                    "{}: it holds {found}; --force formats it, and its contents are lost",
                    named.device
                )));
            }
        }
    }
    let number = |name: &str, value: u64| {
        u32::try_from(value).map_err(|_| Failure::usage(format!("--{name}: {value} bytes is too large")))
    };
    let extent_max =
        options.extent_max.unwrap_or(EXTENT_MAX.min(options.bucket / 4).max(options.checksum_block));
    let encryption = options.encrypt.then(|| encryption(options)).transpose()?;
    let passphrase = encryption.as_ref().map(|encryption| encryption.passphrase.clone());
    let wanted = volume::Options {
        encryption,
        compression: options.compression,
        background_compression: options.background_compression,
        targets: volume::Targets {
            foreground: options.targets.foreground.clone().unwrap_or_default(),
            background: options.targets.background.clone().unwrap_or_default(),
            promote: options.targets.promote.clone().unwrap_or_default(),
            metadata: options.targets.metadata.clone().unwrap_or_default(),
        },
        checksum: options.checksum.unwrap_or(Checksum::Crc32c),
        replicas: options.replicas,
        size: options.size.unwrap_or(0),
        block: number("block", options.block)?,
        bucket: number("bucket", options.bucket)?,
        checksum_block: number("checksum-block", options.checksum_block)?,
        extent_max: number("extent-max", extent_max)?,
        ..volume::Options::new(random()?)
    };
    interrupts.permit(advice);
    show_elapsed("format", || make(pool, members, &wanted, passphrase))
}

/// Makes the members a volume. Returns its size.
fn make(
    pool: &Pool,
    members: &[volume::NewMember],
    wanted: &volume::Options,
    passphrase: Option<Passphrase>,
) -> Result<u64, Failure> {
    let cx = Context::new(Instant::ZERO);
    let devices: Vec<Arc<dyn BlockDevice>> = members.iter().map(|member| member.device.clone()).collect();
    let refuse = |error| Failure::from(ServedError::Volume(pool.error(error)));
    wait(volume::Volume::format(&cx, members, wanted), &devices).map_err(refuse)?;
    // The first opening stores the first checkpoint, and proves that the volume opens.
    let opening = OpenOptions { passphrase, ..open_options(false)? };
    let opened = wait(volume::Volume::open(&cx, &devices, opening), &devices).map_err(refuse)?;
    wait(opened.close(&cx), &devices)
        .map_err(|error| Failure::failed(format!("closing the volume: {error}")))?;
    Ok(opened.usage().size)
}

/// Sets the durability of the members whose label equals a name in `wanted`, or begins with such a name and a
/// dot.
fn set_durability(members: &mut [volume::NewMember], wanted: &[(String, u8)]) -> Result<(), Failure> {
    for (label, durability) in wanted {
        let is_meant = |member: &&mut volume::NewMember| {
            let rest = member.label.strip_prefix(label.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let mut meant = members.iter_mut().filter(is_meant).peekable();
        if meant.peek().is_none() {
            return Err(Failure::usage(format!(
                "--durability {label}={durability}: no member has this label"
            )));
        }
        meant.for_each(|member| member.durability = *durability);
    }
    Ok(())
}

/// Draws the master key of an encrypted volume, and reads its passphrase.
fn encryption(options: &Options) -> Result<Encryption, Failure> {
    Ok(Encryption {
        passphrase: options.secret.read_new()?,
        master: MasterKey::from_random(&mut random()?),
        cipher: options.cipher,
        kdf: options.kdf,
        salt: random()?,
    })
}

/// Returns the members that the arguments name.
fn pool(members: &[PoolMember]) -> Result<Pool, Failure> {
    match members {
        [list]
            if list.label.is_empty()
                && list.device.starts_with("file:")
                && list.device.ends_with(".toml") =>
        {
            Ok(Pool::parse(path_of(&list.device))?)
        }
        members => {
            // With --force, a list of members that is mistaken for a member would be overwritten.
            if let Some(list) = members.iter().find(|member| member.device.ends_with(".toml")) {
                return Err(Failure::usage(format!(
                    "{}: a list of members stands alone and without a label; the labels and the other members belong \
                     into the list",
                    path_of(&list.device)
                )));
            }
            Ok(Pool::new(members.to_vec()))
        }
    }
}

/// Refuses members whose contents end with this process.
pub(super) fn refuse_volatile(members: &OpenMembers) -> Result<(), Failure> {
    match members.volatile.first() {
        None => Ok(()),
        Some(device) => Err(Failure::usage(format!(
            "{device}: its contents would end with this command; a simulated device keeps them with state=FILE, and \
             file:PATH,size=SIZE creates a file"
        ))),
    }
}

/// Refuses block devices that are mounted or in use, even with `--force`.
pub(super) fn refuse_devices_in_use(pool: &Pool) -> Result<(), Failure> {
    let found = pool.members().iter().find_map(|PoolMember { device, .. }| find_use(device));
    found.map_or(Ok(()), |found| Err(Failure::usage(found)))
}

/// Describes the use of a member's block device that is mounted or otherwise in use, or whose use is unknown.
pub(crate) fn find_use(device: &str) -> Option<String> {
    let (major, minor) = device_number(&Served::path_of_written_file(device)?)?;
    match Kernel::default().find_use(major, minor) {
        Ok(found) => found.map(|found| format!("{device}: {found}")),
        Err(error) => Some(format!(
            "{device}: the kernel's list of mounts cannot be read ({error}), so the device may be in use"
        )),
    }
}

fn read_error(named: &PoolMember, error: &flashlab_block::IoError) -> Failure {
    Failure::failed(format!("{}: {error}", named.device))
}
