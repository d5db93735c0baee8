//! The simulation of volumes on timed devices.

use super::super::definition::RoleDefinition;
use super::super::error::ExperimentError;
use super::super::map_parallel::map_parallel;
use super::super::measured::MeasuredCell;
use super::super::{Experiment, Outcome, Place};
use super::{CodecSettings, ENCRYPTED, LayoutSettings, Settings, WITH_CODEC, compressed, layout, sample};
use crate::progress::Progress;
use flashlab_block::{BlockDevice, Context, Executor, Io, Memory, Pages, Timed};
use flashlab_catalogue::device::{Device, HostCodecs, free_codec_parameters};
use flashlab_catalogue::library::Library;
use flashlab_sim::Duration;
use flashlab_volume::encode::Compressor;
use flashlab_volume::keys::{Cipher, Kdf, MasterKey, Passphrase};
use flashlab_volume::{CodecCosts, CodecTimes, Encryption, NewMember, OpenOptions, Options, Volume};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const MIB: u64 = 1 << 20;
/// Minimum capacity of a volume for data, beside the structures of the volume itself.
const CAPACITY_MIN: u64 = 192 * MIB;
/// File name that is written to a volume and searched for on the bare device.
const FILE_NAME: &[u8] = b"secret-file-name-of-usb-volume";
/// Text of the error ENOKEY in Linux.
const ENOKEY: &str = "required key not available";

/// Data path of a row.
#[derive(Clone, Copy)]
enum Path<'a> {
    Bare,
    Plain,
    Codec(&'a CodecSettings),
}

impl<'a> Path<'a> {
    fn all(settings: &'a Settings) -> impl Iterator<Item = Path<'a>> {
        [Path::Bare, Path::Plain].into_iter().chain(settings.codecs.iter().map(Path::Codec))
    }

    fn row(self) -> &'a str {
        match self {
            Path::Bare => "",
            Path::Plain => "volume",
            Path::Codec(codec) => &codec.row,
        }
    }

    /// Returns the compression of new data.
    fn compressor(self) -> Compressor {
        let Path::Codec(CodecSettings { compression: Some(name), .. }) = self else {
            return Compressor::None;
        };
        name.parse().expect("checked when the experiment was read")
    }

    fn is_encrypted(self) -> bool {
        matches!(self, Path::Codec(CodecSettings { compression: None, .. }))
    }
}

/// Figures of a data path on a device.
struct Rates {
    write_mib_s: f64,
    read_mib_s: f64,
    /// CPU time of the codecs while the jobs write, and while they read.
    codecs: [CodecTimes; 2],
}

/// Measures all data paths on all columns, and the figures that do not depend on time.
pub(in crate::experiment) fn run(
    experiment: &Experiment,
    library: &Library,
    seed: u64,
    progress: &Progress,
) -> Result<Outcome, ExperimentError> {
    let settings = experiment.definition.volume.as_ref().expect("checked when the experiment was read");
    let all = experiment.columns(library)?;
    check_capacities(experiment, &all, settings)?;
    let changes = |column: &str| experiment.other_value.as_ref().is_none_or(|other| other.changes(column));
    let runs: Vec<(&(String, Device), Path<'_>)> = all
        .iter()
        .filter(|(column, _)| changes(column))
        .flat_map(|column| Path::all(settings).map(move |path| (column, path)))
        .collect();
    let is_changed = |layout: &&LayoutSettings| layout.members().into_iter().any(|column| changes(column));
    let layouts: Vec<&LayoutSettings> = settings.layouts.iter().filter(is_changed).collect();
    progress.plan((runs.len() + layouts.len()) as u64);
    let rates = map_parallel(&runs, |((column, device), path)| {
        if progress.is_stopped() {
            return Err(ExperimentError::Stopped);
        }
        progress.enter(format!("{} {column}", path.row()));
        let rates = measure(device, *path, settings, seed);
        progress.advance(1);
        Ok(rates)
    });
    let rates = rates.into_iter().collect::<Result<Vec<_>, _>>()?;
    let of_layouts = map_parallel(&layouts, |layout| {
        if progress.is_stopped() {
            return Err(ExperimentError::Stopped);
        }
        progress.enter(layout.row.clone());
        let rates = layout::measure(layout, &all, settings, seed);
        progress.advance(1);
        Ok(rates)
    });
    let of_layouts = of_layouts.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut outcome = Outcome::default();
    for (((column, _), path), rates) in runs.iter().zip(&rates) {
        outcome.cells.extend(rates.cells(*path, column, settings));
    }
    let first = &settings.stripe[0];
    for (layout, rates) in layouts.iter().zip(&of_layouts) {
        for (table, rate) in ["write 1M", "read 1M"].into_iter().zip(rates) {
            outcome.cells.push(MeasuredCell::of_one_run((table, &layout.row, first), "MiB/s", *rate));
        }
    }
    if changes(first) {
        outcome.cells.extend(timeless(settings, &all, seed));
    }
    outcome.notes.extend(settings.codecs.iter().map(|codec| note(codec, &all)));
    let devices: Vec<&Device> = all.iter().map(|(_, device)| device).collect();
    outcome.parameters = free_codec_parameters(&devices, &used(settings));
    outcome.devices = all.into_iter().map(Place::of_column).collect();
    Ok(outcome)
}

/// Checks that each device has room for the range of the jobs and for the structures of a volume.
fn check_capacities(
    experiment: &Experiment,
    columns: &[(String, Device)],
    settings: &Settings,
) -> Result<(), ExperimentError> {
    let is_small = |device: &Device| device.capacity() / 4 * 3 < (settings.span_mib * MIB).max(CAPACITY_MIN);
    match columns.iter().find(|(_, device)| is_small(device)) {
        Some((column, _)) => Err(ExperimentError::Wrong {
            path: experiment.folder.path_of("experiment.toml"),
            what: format!(
                "column {column}: the device is too small; expected four thirds of span_mib, and at least {} MiB",
                CAPACITY_MIN / MIB / 3 * 4
            ),
        }),
        None => Ok(()),
    }
}

impl Rates {
    /// Returns the cells of a data path on a device.
    fn cells(&self, path: Path<'_>, column: &str, settings: &Settings) -> Vec<MeasuredCell> {
        let rates = [("write 1M", self.write_mib_s), ("read 1M", self.read_mib_s)];
        let cell = |(table, rate)| MeasuredCell::of_one_run((table, path.row(), column), "MiB/s", rate);
        let mut cells: Vec<MeasuredCell> = rates.map(cell).into();
        let Path::Codec(codec) = path else { return cells };
        let mib = (settings.span_mib * u64::from(settings.jobs)) as f64;
        let per_mib = |time: Duration| time.as_ns() as f64 / 1e6 / mib;
        for (row, times) in ["write", "read"].into_iter().zip(self.codecs) {
            cells.push(match codec.compression {
                None => {
                    let end =
                        codec.row.strip_prefix(ENCRYPTED).expect("checked when the experiment was read");
                    let place = ("cipher", &*format!("{row}{end}"), column);
                    MeasuredCell::of_one_run(place, "ms/MiB", per_mib(times.cipher))
                }
                Some(_) => {
                    let end =
                        codec.row.strip_prefix(WITH_CODEC).expect("checked when the experiment was read");
                    let place = ("compression", &*format!("{row} {end}"), column);
                    let time = times.compression + times.decompression;
                    MeasuredCell::of_one_run(place, "ms/MiB", per_mib(time))
                }
            });
        }
        if codec.compression.is_some() {
            // The archive is generated, so the cells count as assumed.
            cells.iter_mut().for_each(|cell| cell.role = Some(RoleDefinition::Assumed));
        }
        cells
    }
}

/// Returns the cells that do not depend on time.
fn timeless(settings: &Settings, columns: &[(String, Device)], seed: u64) -> Vec<MeasuredCell> {
    let first = &settings.stripe[0];
    let cell = |table, row, unit, figure| MeasuredCell::of_one_run((table, row, first), unit, figure);
    let size = stripe(columns, settings, seed) as f64 / f64::from(1u32 << 30);
    let mut cells = vec![cell("stripe", "", "GiB", size)];
    cells.push(cell("locked volume", "", "refused", f64::from(u8::from(is_refused()))));
    for (row, is_encrypted) in [("volume", false), (ENCRYPTED, true)] {
        cells.push(cell("file names", row, "occurrences", occurrences(is_encrypted) as f64));
    }
    if let Some(compression) = settings.compression {
        // The publication compressed another archive, so the cells count as assumed.
        let role = Some(RoleDefinition::Assumed);
        let figures = ["lz4", "then zstd"].into_iter().zip(compressed::measure(compression, seed));
        cells.extend(
            figures.map(|(row, percent)| MeasuredCell { role, ..cell("compressed", row, "%", percent) }),
        );
    }
    cells
}

/// Creates a device that simulates the times of `device` and stores bytes. Bytes take memory once they are written.
pub(in crate::experiment) fn timed(device: &Device, seed: u64) -> Arc<Timed> {
    let model = device.build(seed);
    let bytes = Memory::new(model.geometry().capacity, Pages::Small).expect("address space for a device");
    Arc::new(Timed::new(model, Box::new(bytes)))
}

/// Returns the options of a volume. The keys are constants, because nothing here is secret.
fn options(is_encrypted: bool) -> Options {
    let encryption = is_encrypted.then(|| Encryption {
        master: MasterKey::from_random(&mut [7; 32]),
        cipher: Cipher::ChaCha20Poly1305,
        passphrase: passphrase(),
        kdf: Kdf::Argon2id { memory_kib: 8, passes: 1, lanes: 1 },
        salt: [7; 32],
    });
    Options { encryption, ..Options::new([7; 16]) }
}

fn passphrase() -> Passphrase {
    Passphrase::new(b"usb-volume").expect("not empty")
}

/// Formats and opens a volume.
pub(super) async fn create(
    cx: Context,
    members: Vec<NewMember>,
    options: Options,
    codec: Option<CodecCosts>,
) -> Volume {
    Volume::format(&cx, &members, &options).await.expect("devices that work");
    let devices: Vec<Arc<dyn BlockDevice>> = members.into_iter().map(|member| member.device).collect();
    let passphrase = options.encryption.as_ref().map(|encryption| encryption.passphrase.clone());
    let opening = OpenOptions { passphrase, salt: [1; 16], codec, ..OpenOptions::default() };
    Volume::open(&cx, &devices, opening).await.expect("a new volume")
}

fn measure(device: &Device, path: Path<'_>, settings: &Settings, seed: u64) -> Rates {
    let codec = costs(path, device);
    let mut executor = Executor::new(seed);
    let device: Arc<dyn BlockDevice> = timed(device, seed);
    executor.attach(device.clone());
    let volume = (!matches!(path, Path::Bare)).then(|| {
        let options = Options { compression: path.compressor(), ..options(path.is_encrypted()) };
        let members = vec![NewMember::new(device.clone())];
        executor.block_on(create(executor.context(), members, options, Some(codec)))
    });
    let text = settings.compression.filter(|_| path.compressor() != Compressor::None);
    let text = text.map(|text| sample::sources((text.sample_mib * MIB) as usize, seed));
    let target = volume.as_ref().map_or(device, |volume| Arc::new(volume.clone()) as Arc<dyn BlockDevice>);
    let spent = || volume.as_ref().map_or(CodecTimes::default(), |volume| volume.codec_times());
    let before = spent();
    let write_mib_s = jobs(&mut executor, &target, settings, Some(text.as_deref()));
    let between = spent();
    let read_mib_s = jobs(&mut executor, &target, settings, None);
    Rates { write_mib_s, read_mib_s, codecs: [since(between, before), since(spent(), between)] }
}

/// Returns the times of a codec path on a device.
fn costs(path: Path<'_>, device: &Device) -> CodecCosts {
    match path {
        Path::Codec(CodecSettings { cores: Some(cores), cipher_ns_per_kib: Some(ns), .. }) => {
            CodecCosts { cores: *cores, chacha20_poly1305_ps: ns * 1000 / 1024, ..CodecCosts::default() }
        }
        Path::Codec(_) => {
            let HostCodecs { processors, times, .. } = HostCodecs::of(device);
            let ps = |per_kib: Option<Duration>| per_kib.map_or(0, |time| time.as_ns() * 1000 / 1024);
            CodecCosts {
                cores: processors,
                chacha20_poly1305_ps: ps(times.chacha20_poly1305),
                lz4_compress_ps: ps(times.lz4_compress),
                lz4_decompress_ps: ps(times.lz4_decompress),
                zstd_compress_ps: ps(times.zstd_compress),
                zstd_decompress_ps: ps(times.zstd_decompress),
                ..CodecCosts::default()
            }
        }
        Path::Bare | Path::Plain => CodecCosts { cores: 1, ..CodecCosts::default() },
    }
}

/// Returns the paths of the hosts' times that the experiment uses.
fn used(settings: &Settings) -> Vec<&'static str> {
    let mut used = Vec::new();
    for codec in settings.codecs.iter().filter(|codec| codec.cores.is_none()) {
        used.extend(match Path::Codec(codec).compressor() {
            Compressor::None => &["codec.t_chacha20_poly1305"][..],
            Compressor::Lz4 => &["codec.t_lz4_compress", "codec.t_lz4_decompress"],
            Compressor::Zstd(_) => &["codec.t_zstd_compress", "codec.t_zstd_decompress"],
        });
    }
    used
}

/// Describes the times of a codec path.
fn note(codec: &CodecSettings, columns: &[(String, Device)]) -> String {
    let CodecSettings { row, cores, cipher_ns_per_kib, source, .. } = codec;
    if let (Some(cores), Some(ns), Some(source)) = (cores, cipher_ns_per_kib, source) {
        return format!("{row}: the cipher takes {ns} ns per KiB on one of {cores} cores; source: {source}.");
    }
    let mut hosts: Vec<String> = columns.iter().map(|(_, device)| device.host_name.clone()).collect();
    hosts.dedup();
    let paths = used(&Settings { codecs: vec![codec.clone()], ..Settings::default() }).join(" and ");
    format!("{row}: {paths} of host/{}, on all of its processors.", hosts.join(" and host/"))
}

/// Returns the growth of the times.
fn since(now: CodecTimes, before: CodecTimes) -> CodecTimes {
    CodecTimes {
        cipher: now.cipher - before.cipher,
        compression: now.compression - before.compression,
        decompression: now.decompression - before.decompression,
    }
}

/// Runs the jobs to their end: reads, or writes if there is `data`, which consists of whole MiB or stands for a
/// constant byte in each request. Returns the MiB per second of all jobs.
pub(super) fn jobs(
    executor: &mut Executor,
    target: &Arc<dyn BlockDevice>,
    settings: &Settings,
    data: Option<Option<&[u8]>>,
) -> f64 {
    let parts: Vec<Vec<u8>> =
        data.flatten().map_or(Vec::new(), |text| text.chunks(MIB as usize).map(<[u8]>::to_vec).collect());
    let (is_write, parts) = (data.is_some(), Arc::new(parts));
    let done = Arc::new(AtomicU64::new(0));
    let start = executor.now();
    for job in 0..settings.jobs {
        let (cx, target, done, parts) = (executor.context(), target.clone(), done.clone(), parts.clone());
        let span = settings.span_mib;
        executor.spawn(async move {
            for n in 0..span {
                let offset = n * MIB;
                let io = match is_write {
                    true => {
                        let data = match parts.len() {
                            0 => vec![job as u8 ^ n as u8; MIB as usize],
                            count => parts[(u64::from(job) + n) as usize % count].clone(),
                        };
                        let data = data.into();
                        Io::Write { offset, data, durable: false }
                    }
                    false => Io::Read { offset, buffer: vec![0; MIB as usize] },
                };
                target.start(&cx, io).outcome().await.expect("a device that works");
            }
            done.fetch_add(1, Ordering::Relaxed);
        });
    }
    while done.load(Ordering::Relaxed) < u64::from(settings.jobs) {
        assert!(executor.step(), "the jobs wait for each other");
    }
    let elapsed = executor.now().as_ns() - start.as_ns();
    (settings.span_mib * u64::from(settings.jobs)) as f64 / (elapsed as f64 / 1e9)
}

/// Returns the size of the striped volume in bytes.
fn stripe(columns: &[(String, Device)], settings: &Settings, seed: u64) -> u64 {
    let of_stripe = columns.iter().filter(|(column, _)| settings.stripe.contains(column));
    let devices: Vec<Arc<Timed>> = of_stripe.map(|(_, device)| timed(device, seed)).collect();
    let mut executor = Executor::new(seed);
    devices.iter().for_each(|device| executor.attach(device.clone()));
    let members = devices.into_iter().map(|device| NewMember::new(device)).collect();
    let cx = executor.context();
    executor.block_on(create(cx, members, options(false), None)).geometry().capacity
}

/// Creates a device in memory.
pub(super) fn in_memory(mib: u64) -> Arc<dyn BlockDevice> {
    Arc::new(Memory::new(mib * MIB, Pages::Small).expect("some MiB of address space"))
}

/// Returns true if opening an encrypted volume without its passphrase fails with the text of ENOKEY.
fn is_refused() -> bool {
    let (mut executor, device) = (Executor::new(1), in_memory(64));
    let cx = executor.context();
    executor.block_on(async move {
        drop(create(cx.clone(), vec![NewMember::new(device.clone())], options(true), None).await);
        let locked = OpenOptions { salt: [2; 16], ..OpenOptions::default() };
        let opened = Volume::open(&cx, &[device], locked).await;
        opened.is_err_and(|error| error.to_string() == ENOKEY)
    })
}

/// Writes a block with a file name to a volume. Returns the occurrences of the name on the bare device.
fn occurrences(is_encrypted: bool) -> usize {
    let (mut executor, device) = (Executor::new(1), in_memory(64));
    let cx = executor.context();
    executor.block_on(async move {
        let members = vec![NewMember::new(device.clone())];
        let volume = create(cx.clone(), members, options(is_encrypted), None).await;
        let mut data = vec![0; 4096];
        data[100..100 + FILE_NAME.len()].copy_from_slice(FILE_NAME);
        let write = Io::Write { offset: MIB, data: data.into(), durable: true };
        volume.start(&cx, write).outcome().await.expect("a device that works");
        let mut found = 0;
        for offset in (0..64 * MIB).step_by(MIB as usize) {
            let read = Io::Read { offset, buffer: vec![0; MIB as usize] };
            let answer = device.start(&cx, read).outcome().await.expect("a device that works");
            let flashlab_block::Answer::Read(bytes) = answer else { unreachable!("a read has bytes") };
            found += bytes.windows(FILE_NAME.len()).filter(|window| *window == FILE_NAME).count();
        }
        found
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::settings;
    use super::*;

    fn rates(is_encrypted: bool, settings: &Settings) -> Rates {
        let library = Library::built_in().expect("the library is sound");
        let path = if is_encrypted { Path::Codec(&settings.codecs[0]) } else { Path::Plain };
        measure(&Device::open("usb/usb3-1", &library).expect("a known stick"), path, settings, 1)
    }

    /// Where the cipher is the bottleneck, its rate is the rate of the volume.
    #[test]
    fn a_slow_cipher_limits_the_rate_and_a_fast_cipher_does_not() {
        // 1 us for a byte: one core gives 0.954 MiB/s.
        let slow = rates(true, &settings(1_024_000, 1));
        assert!((slow.read_mib_s - 0.9537).abs() < 0.01, "{}", slow.read_mib_s);
        assert_eq!(slow.codecs[1].cipher.as_ns(), 16 * MIB * 1000);
        let (plain, free) = (rates(false, &settings(0, 1)), rates(true, &settings(0, 1)));
        assert_eq!((plain.read_mib_s, plain.write_mib_s), (free.read_mib_s, free.write_mib_s));
    }

    #[test]
    fn a_locked_volume_is_refused_and_hides_file_names() {
        assert!(is_refused());
        assert_eq!((occurrences(false), occurrences(true)), (1, 0));
    }
}
