//! `flashlab record`: runs a workload on a filesystem or boots a root image in a guest, and writes the recording.

use crate::failure::{Failure, INTERRUPTED, say};
use crate::{file, progress};
use clap::{Args, Subcommand, ValueEnum};
use flashlab_catalogue::library::Library;
use flashlab_catalogue::profile::Value;
use flashlab_catalogue::units::Dimension;
use flashlab_recorder::{
    Boot, Disk, Filesystem, Format, Kernel, Limits, Plan, Progress, RecordError, Recorded, Workload,
};
use flashlab_recording::{Recording, Summary, Writer};
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Maximum size of a script or a job file in bytes.
const TEXT_BYTES_MAX: u64 = 512 << 10;

/// Folders in which to look for a kernel: the one where `./test` unpacks the kernel of its guests, then the system.
const KERNELS: [&str; 2] = ["target/guest-mmc", "/"];

/// Folders in which to look for a kernel for boots. Debian's 6.1 cannot read EROFS with LZMA, so 6.12 comes first.
const KERNELS_OF_BOOTS: [&str; 3] = ["target/boot/kernel", "target/guest-mmc", "/"];

/// The command of the feature `record`.
#[derive(Subcommand)]
pub(crate) enum Record {
    /// Records a workload on a filesystem under a real kernel, in a QEMU guest, for replays on virtual devices.
    ///
    /// `docs/recordings-record.md` describes the guest, the shipped workloads and the errors of predictions.
    Record(Box<Options>),
}

impl Record {
    pub(crate) fn run(&self, library: &Library) -> Result<ExitCode, Failure> {
        let Record::Record(options) = self;
        run(options, library)
    }
}

#[derive(Args)]
pub(crate) struct Options {
    /// Filesystem to make and mount; `none` gives the workload the raw device /dev/nullb0.
    #[arg(long, value_enum, required_unless_present = "boot")]
    fs: Option<Name>,
    /// Root image (SquashFS, EROFS or ext4) to boot until systemd reaches multi-user.target, or until another init
    /// executes /flashlab/end.
    #[arg(long, value_name = "IMAGE", conflicts_with_all = ["fs", "workload", "script", "fio", "mount_options", "size"])]
    boot: Option<PathBuf>,
    /// Mounts the root of --boot writable, without an overlay in memory.
    #[arg(long, requires = "boot")]
    writable: bool,
    /// Options for mkfs, such as '-O ^has_journal'; with --boot, the options that made the image, for the header.
    #[arg(long, value_name = "OPTIONS", default_value = "", allow_hyphen_values = true)]
    options: String,
    /// Options for mount -o, such as noatime.
    #[arg(long, value_name = "OPTIONS", default_value = "")]
    mount_options: String,
    /// Shipped workload: sqlite, sqlite-wal, logger, unpack, fio-random or fio-sequential.
    #[arg(long, value_name = "NAME", required_unless_present_any = ["script", "fio", "boot"], conflicts_with_all = ["script", "fio"])]
    workload: Option<String>,
    /// Script for busybox's shell, which runs in the folder of the filesystem.
    #[arg(long, value_name = "FILE", conflicts_with = "fio")]
    script: Option<PathBuf>,
    /// Job file of fio.
    #[arg(long, value_name = "FILE")]
    fio: Option<PathBuf>,
    /// Program of this machine that the script runs; may be repeated.
    #[arg(long, value_name = "PROGRAM", requires = "script")]
    with: Vec<String>,
    /// Host profile that limits the size of the guest's requests.
    #[arg(long, value_name = "PROFILE", default_value = "raspberry-pi-4")]
    host: String,
    /// Largest request, in place of the host's.
    #[arg(long, value_name = "SIZE")]
    request_max: Option<String>,
    /// Disables discards on the guest's disk.
    #[arg(long)]
    no_discard: bool,
    /// Memory of the guest; its size decides when the page cache writes back.
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    memory: String,
    /// I/O scheduler of the guest. Linux chooses mq-deadline for devices with one queue, such as cards and sticks.
    #[arg(long, value_name = "NAME", default_value = "mq-deadline")]
    scheduler: String,
    /// Capacity of the guest's disk.
    #[arg(long, value_name = "SIZE", default_value = "512MiB")]
    size: String,
    /// Latency of each request of the guest's disk, which a replay replaces.
    #[arg(long, value_name = "TIME", default_value = "100us")]
    latency: String,
    /// Number of requests that the guest's disk serves at a time.
    #[arg(long, value_name = "N", default_value_t = 64)]
    queue_depth: u32,
    /// Limits the bandwidth of the guest's disk to N MiB/s, in ticks of 20 ms, to record a slow device and
    /// compare it with predictions from a recording without the limit. Needs --no-discard.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    bandwidth: Option<u32>,
    /// Folder with an unpacked package linux-image-VERSION-amd64 of Debian (`dpkg-deb -x`); by default a kernel below
    /// target, where `./test` unpacks it, then that of the system (`apt-get install linux-image-amd64`).
    #[arg(long, value_name = "DIR")]
    kernel: Option<PathBuf>,
    /// Seconds after which a guest that hangs is ended.
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    timeout: u64,
    /// File for the kernel's trace, as text.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// File for the recording; `-` is standard output.
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    Vfat,
    Exfat,
    Ext4,
    F2fs,
    Btrfs,
    /// The raw device.
    None,
}

impl From<Name> for Filesystem {
    fn from(name: Name) -> Filesystem {
        match name {
            Name::Vfat => Filesystem::Vfat,
            Name::Exfat => Filesystem::Exfat,
            Name::Ext4 => Filesystem::Ext4,
            Name::F2fs => Filesystem::F2fs,
            Name::Btrfs => Filesystem::Btrfs,
            Name::None => Filesystem::Raw,
        }
    }
}

fn run(options: &Options, library: &Library) -> Result<ExitCode, Failure> {
    let outputs = [Some(&options.to), options.trace.as_ref()];
    for output in outputs.into_iter().flatten() {
        file::check_output(output)?;
        file::check_not_input(output, [&options.boot, &options.script, &options.fio].into_iter().flatten())?;
    }
    file::check_distinct(outputs.into_iter().flatten().map(PathBuf::as_path))?;
    let recorded = match (&options.boot, options.fs) {
        (Some(image), _) => {
            let boot = boot(options, image, library)?;
            shown(&format!("boot {}", image.display()), |stages| {
                flashlab_recorder::record_boot(&boot, stages)
            })
        }
        (None, Some(filesystem)) => {
            let plan = plan(options, filesystem, library)?;
            let name = format!("record {} on {}", plan.workload.name, plan.format.filesystem);
            shown(&name, |stages| flashlab_recorder::record(&plan, stages))
        }
        (None, None) => unreachable!("clap requires one of the two"),
    };
    let recorded = match recorded {
        Ok(recorded) => recorded,
        Err(RecordError::Stopped) => {
            say("the recording was stopped; nothing was written");
            return Ok(ExitCode::from(INTERRUPTED));
        }
        Err(
            error @ (RecordError::Setting(_)
            | RecordError::NoKernel { .. }
            | RecordError::MissingModule { .. }
            | RecordError::MissingPrograms(_)),
        ) => return Err(Failure::usage(error)),
        Err(error) => return Err(Failure::failed(error)),
    };
    if let Some(path) = &options.trace {
        file::write_with(path, |file| file.write_all(recorded.trace.as_bytes()))?;
    }
    let digest = write(&options.to, &recorded.recording)?;
    let mut summary = Summary::default();
    recorded.recording.steps.iter().for_each(|step| summary.add(step));
    let requests: u64 = [summary.reads, summary.writes, summary.trims, summary.flushes]
        .iter()
        .map(|count| count.requests)
        .sum();
    say(format_args!(
        "{requests} requests and {} marks within {} are in {} (digest {digest})",
        summary.marks,
        summary.span,
        file::shown(&options.to)
    ));
    Ok(ExitCode::SUCCESS)
}

/// Calls `record`, and shows its stages on a progress display.
fn shown(
    name: &str,
    record: impl FnOnce(&Stages<'_>) -> Result<Recorded, RecordError>,
) -> Result<Recorded, RecordError> {
    let display = progress::ProgressDisplay::new(name.to_owned());
    progress::stop_on_interrupt(&display);
    record(&Stages(&display))
}

/// Progress display for the stages of the guest.
struct Stages<'a>(&'a progress::ProgressDisplay);

impl Progress for Stages<'_> {
    fn stage(&self, name: &str) {
        self.0.enter(name);
    }
    fn is_stopped(&self) -> bool {
        self.0.is_stopped()
    }
}

fn plan(options: &Options, filesystem: Name, library: &Library) -> Result<Plan, Failure> {
    Ok(Plan {
        format: Format {
            filesystem: filesystem.into(),
            mkfs: options.options.trim().to_owned(),
            mount: options.mount_options.trim().to_owned(),
        },
        workload: workload(options)?,
        disk: disk(options)?,
        limits: limits(options, library)?,
        seconds_max: options.timeout,
        // The kernel comes last, so that a missing kernel does not hide the error of a wrong name.
        kernel: kernel(options, &KERNELS)?,
    })
}

fn boot(options: &Options, image: &Path, library: &Library) -> Result<Boot, Failure> {
    File::open(image).map_err(|error| Failure::usage(format_args!("{}: {error}", image.display())))?;
    Ok(Boot {
        image: image.to_owned(),
        options: options.options.trim().to_owned(),
        writable: options.writable,
        disk: disk(options)?,
        limits: limits(options, library)?,
        seconds_max: options.timeout,
        kernel: kernel(options, &KERNELS_OF_BOOTS)?,
    })
}

fn kernel(options: &Options, folders: &[&str]) -> Result<Kernel, Failure> {
    let folders = match &options.kernel {
        Some(folder) => vec![folder.clone()],
        None => folders.iter().map(PathBuf::from).collect(),
    };
    Kernel::find(&folders).map_err(Failure::usage)
}

fn limits(options: &Options, library: &Library) -> Result<Limits, Failure> {
    Ok(Limits {
        request_max: match &options.request_max {
            Some(size) => bytes("request-max", size)?,
            None => request_max(&options.host, library)?,
        },
        discard: !options.no_discard,
        scheduler: options.scheduler.clone(),
        memory_mib: bytes("memory", &options.memory)? >> 20,
        ..Limits::default()
    })
}

fn disk(options: &Options) -> Result<Disk, Failure> {
    let latency = Dimension::Time.parse_argument(&options.latency);
    Ok(Disk {
        size_mib: bytes("size", &options.size)? >> 20,
        latency_ns: latency.map_err(|error| Failure::usage(format_args!("--latency: {error}")))?,
        queue_depth: options.queue_depth,
        bandwidth_mib: options.bandwidth,
    })
}

fn bytes(name: &str, text: &str) -> Result<u64, Failure> {
    let bytes = Dimension::Size.parse_argument(text);
    bytes.map_err(|error| Failure::usage(format_args!("--{name}: {error}")))
}

fn workload(options: &Options) -> Result<Workload, Failure> {
    let read = |path: &Path| {
        let name = path.to_string_lossy();
        let bytes =
            file::read(&name, TEXT_BYTES_MAX).map_err(|why| Failure::usage(format!("{name}: {why}")))?;
        let text =
            String::from_utf8(bytes).map_err(|_| Failure::usage(format!("{name}: it is not UTF-8")))?;
        Ok::<_, Failure>((path.file_name().unwrap_or_default().to_string_lossy().into_owned(), text))
    };
    match (&options.workload, &options.script, &options.fio) {
        (Some(name), ..) => Workload::shipped(name).ok_or_else(|| {
            let names = Workload::names().join(", ");
            Failure::usage(format!(
                "--workload {name}: there is no such workload; the shipped ones are {names}"
            ))
        }),
        (_, Some(path), _) => {
            let (name, text) = read(path)?;
            Ok(Workload::script(&name, &text, options.with.clone()))
        }
        (_, _, Some(path)) => read(path).map(|(name, text)| Workload::fio(&name, &text)),
        (None, None, None) => unreachable!("clap requires one of the three"),
    }
}

/// Returns the largest request that the host sends as one command, at least a page of memory, which is the smallest
/// request of a filesystem. A PC has no limit below that of its drive, so it gets the default.
fn request_max(host: &str, library: &Library) -> Result<u64, Failure> {
    let profile = library.host(host).map_err(|error| Failure::usage(format!("--host {host}: {error}")))?;
    let limit = ["host.command_max", "port.super_speed_max", "port.high_speed_max"]
        .iter()
        .find_map(|path| profile.number(path));
    Ok(match limit.map(|number| &number.value) {
        Some(Value::Quantity(_, most)) => most.max(&4096) & !4095,
        _ => Limits::default().request_max,
    })
}

/// Writes the recording. Returns its digest.
fn write(to: &Path, recording: &Recording) -> Result<String, Failure> {
    let mut digest = String::new();
    file::write_with(to, |file| {
        let mut writer = Writer::new(file, &recording.header, &recording.tasks)?;
        recording.steps.iter().try_for_each(|step| writer.push(step))?;
        (_, digest) = writer.finish()?;
        Ok(())
    })?;
    Ok(digest)
}
