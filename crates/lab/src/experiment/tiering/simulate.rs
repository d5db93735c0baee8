//! The simulation of a layout under the load of clients.

use super::super::error::ExperimentError;
use super::super::map_parallel::map_parallel;
use super::super::measured::MeasuredCell;
use super::super::volume::timed;
use super::super::{Experiment, Outcome, Place};
use super::{Layout, Load, Settings};
use crate::progress::Progress;
use crate::statistics::Counters;
use flashlab_block::{BlockDevice, Context, Executor, Features, Geometry, Io, IoError, Started, Timed};
use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_sim::{Duration, Histogram, Rng};
use flashlab_volume::{NewMember, OpenOptions, Options, Targets, Volume};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Results of a layout with one hot set.
#[derive(Debug, Default)]
struct Run {
    reads: Histogram,
    writes: Histogram,
    burst_iops: f64,
    /// Bytes that the clients wrote while they were measured.
    client_bytes: u64,
    /// Bytes of the fast and the slow drive in the same time.
    wear: [Wear; 2],
}

/// Bytes that a drive received and programmed.
#[derive(Clone, Copy, Debug, Default)]
struct Wear {
    written: u64,
    /// `None` if the model does not count programmed bytes.
    programmed: Option<u64>,
}

impl Wear {
    fn since(self, before: Wear) -> Wear {
        let programmed = self.programmed.zip(before.programmed).map(|(after, before)| after - before);
        Wear { written: self.written - before.written, programmed }
    }
}

/// Runs all layouts with all hot sets.
pub(in crate::experiment) fn run(
    experiment: &Experiment,
    library: &Library,
    seed: u64,
    progress: &Progress,
) -> Result<Outcome, ExperimentError> {
    let settings = experiment.definition.tiering.as_ref().expect("checked when the experiment was read");
    let fast = experiment.device(&settings.fast, "", library)?;
    let slow = experiment.device(&settings.slow, "", library)?;
    let layouts = settings.layouts.iter();
    let runs: Vec<(&Layout, u64)> =
        layouts.flat_map(|layout| settings.hot_gb.iter().map(move |hot| (layout, *hot))).collect();
    let wrong =
        |what: String| ExperimentError::Wrong { path: experiment.folder.path_of("experiment.toml"), what };
    for layout in &settings.layouts {
        check_drives(settings, layout, [&fast, &slow], seed).map_err(wrong)?;
    }
    progress.plan(runs.len() as u64);
    let found = map_parallel(&runs, |(layout, hot)| {
        if progress.is_stopped() {
            return Err(ExperimentError::Stopped);
        }
        progress.enter(format!("{}, {}", layout.name, Settings::row(*hot)));
        let run = measure(settings, layout, *hot, [&fast, &slow], seed);
        progress.advance(1);
        run.map_err(|error| wrong(format!("layout \"{}\": the data cannot be stored: {error}", layout.name)))
    });
    let found = found.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut outcome = Outcome::default();
    for hot in &settings.hot_gb {
        for ((layout, _), run) in runs.iter().zip(&found).filter(|((_, of), _)| of == hot) {
            outcome.cells.extend(cells(settings, layout, *hot, run));
        }
    }
    for layout in &settings.layouts {
        let drives = [(layout.fast_gb, &fast), (layout.slow_gb, &slow)];
        let used = drives.into_iter().filter(|(gb, _)| *gb > 0);
        let place = |(_, device): (u64, &Device)| Place::of_column((layout.name.clone(), device.clone()));
        outcome.devices.extend(used.map(place));
    }
    outcome.purchases = super::choose::purchases(settings, &outcome.cells);
    outcome.notes.push(super::choose::formula(settings));
    Ok(outcome)
}

/// Returns the cells of a run.
fn cells(settings: &Settings, layout: &Layout, hot: u64, run: &Run) -> Vec<MeasuredCell> {
    let row = Settings::row(hot);
    let ms = |ns: f64| ns / 1e6;
    let p99 = |latencies: &Histogram| ms(latencies.percentile(99.0).as_ns() as f64);
    let ratio = |bytes: u64| bytes as f64 / run.client_bytes.max(1) as f64;
    let mut figures = vec![
        ("burst".to_owned(), "IOPS", run.burst_iops),
        ("read mean".to_owned(), "ms", ms(run.reads.mean_ns())),
        ("read p99".to_owned(), "ms", p99(&run.reads)),
        ("write mean".to_owned(), "ms", ms(run.writes.mean_ns())),
        ("write p99".to_owned(), "ms", p99(&run.writes)),
    ];
    let drives = [(&settings.fast, layout.fast_gb), (&settings.slow, layout.slow_gb)];
    for ((name, _), wear) in drives.into_iter().zip(run.wear).filter(|((_, gb), _)| *gb > 0) {
        figures.push((format!("written to {name}"), "ratio", ratio(wear.written)));
        let programmed =
            wear.programmed.map(|bytes| (format!("programmed in {name}"), "ratio", ratio(bytes)));
        figures.extend(programmed);
    }
    figures.push(("price".to_owned(), "USD", settings.usd(layout)));
    let cell = |(table, unit, figure): (String, &str, f64)| {
        MeasuredCell::of_one_run((&table, &row, &layout.name), unit, figure)
    };
    figures.into_iter().map(cell).collect()
}

/// Checks that the drives of a layout can be members of a volume, before any layout is simulated.
fn check_drives(
    settings: &Settings,
    layout: &Layout,
    devices: [&Device; 2],
    seed: u64,
) -> Result<(), String> {
    let mut executor = Executor::new(seed);
    let drives = devices.map(|device| timed(device, seed));
    let members = members(settings, layout, &drives, &mut executor)?;
    let (cx, options) = (executor.context(), options(settings, layout));
    let formatted = executor.block_on(async move {
        Volume::format(&cx, &members, &options).await.map(drop).map_err(|error| error.to_string())
    });
    formatted.map_err(|error| {
        let sizes = [("fast", layout.fast_gb), ("slow", layout.slow_gb)];
        let drives = sizes.iter().filter(|(_, gb)| *gb > 0);
        let sizes: Vec<String> = drives
            .map(|(label, gb)| format!("{label}_gb = {gb} is {} MiB", settings.mib(*gb)))
            .collect();
        format!(
            "layout \"{}\": no volume fits on its drives. With gb_per_mib = {}, {} in the simulation: {error}. Use larger \
             drives, or a smaller gb_per_mib.",
            layout.name,
            settings.gb_per_mib,
            sizes.join(", and ")
        )
    })
}

/// Returns the drives of a layout as members of a volume, and attaches them to `executor`.
fn members(
    settings: &Settings,
    layout: &Layout,
    drives: &[Arc<Timed>; 2],
    executor: &mut Executor,
) -> Result<Vec<NewMember>, String> {
    let mut members = Vec::new();
    let sizes = [("fast", layout.fast_gb), ("slow", layout.slow_gb)];
    for ((label, gb), whole) in sizes.into_iter().zip(drives).filter(|((_, gb), _)| *gb > 0) {
        if settings.mib(gb) * MIB > whole.geometry().capacity {
            return Err(format!(
                "layout \"{}\": {label}_gb = {gb} is {} MiB in the simulation (gb_per_mib = {}), more than the capacity \
                 of the drive",
                layout.name,
                settings.mib(gb),
                settings.gb_per_mib
            ));
        }
        executor.attach(whole.clone());
        let part = Arc::new(Part { whole: whole.clone(), capacity: settings.mib(gb) * MIB });
        let durability = u8::from(!(layout.cache_only && label == "fast"));
        members.push(NewMember { device: part, label: label.into(), durability });
    }
    Ok(members)
}

/// Returns the options of a layout's volume.
fn options(settings: &Settings, layout: &Layout) -> Options {
    let Layout { foreground, background, promote, metadata, .. } = layout.clone();
    let targets = Targets { foreground, background, promote, metadata };
    Options { size: settings.mib(settings.data_gb) * MIB, targets, ..Options::new([7; 16]) }
}

/// A layout in simulated time: its drives and its volume.
struct Server {
    executor: Executor,
    drives: [Arc<Timed>; 2],
    volume: Volume,
}

/// The first part of a drive, as a device.
struct Part {
    whole: Arc<Timed>,
    capacity: u64,
}

impl BlockDevice for Part {
    fn geometry(&self) -> Geometry {
        Geometry { capacity: self.capacity, ..self.whole.geometry() }
    }

    fn features(&self) -> Features {
        self.whole.features()
    }

    fn start(&self, cx: &Context, io: Io) -> Started {
        self.whole.start(cx, io)
    }
}

impl Server {
    /// Creates the volume of a layout, writes its data, and moves it to the background. Returns an error if the volume does
    /// not fit on the drives.
    fn new(settings: &Settings, layout: &Layout, devices: [&Device; 2], seed: u64) -> Result<Server, String> {
        let mut executor = Executor::new(seed);
        let drives = devices.map(|device| timed(device, seed));
        let members = members(settings, layout, &drives, &mut executor)?;
        let data_mib = settings.mib(settings.data_gb);
        let options = options(settings, layout);
        let cx = executor.context();
        let volume = executor.block_on(async move {
            Volume::format(&cx, &members, &options).await.map_err(|error| error.to_string())?;
            let devices: Vec<_> = members.iter().map(|member| member.device.clone()).collect();
            let opening = OpenOptions { salt: [1; 16], ..OpenOptions::default() };
            let volume = Volume::open(&cx, &devices, opening).await.map_err(|error| error.to_string())?;
            let text = |error: IoError| error.to_string();
            for n in 0..data_mib {
                let data = vec![n as u8 | 1; MIB as usize].into();
                let write = Io::Write { offset: n * MIB, data, durable: false };
                volume.start(&cx, write).outcome().await.map_err(text)?;
                if n % 16 == 15 {
                    volume.reconcile(&cx, 0, |_| true).await.map_err(text)?;
                }
            }
            volume.start(&cx, Io::Flush).outcome().await.map_err(text)?;
            volume.reconcile(&cx, 0, |_| true).await.map_err(text)?;
            Ok::<_, String>(volume)
        })?;
        Ok(Server { executor, drives, volume })
    }

    fn wear(&self) -> [Wear; 2] {
        let mut members = self.volume.usage().members.into_iter().peekable();
        ["fast", "slow"].map(|label| {
            let member = members.next_if(|member| member.label == label);
            let written = member.map_or(0, |member| member.requests.written_bytes);
            let drive = &self.drives[usize::from(label == "slow")];
            let programmed = drive.with_model(|model| Counters::of(model).find("programmed_bytes"));
            Wear { written, programmed }
        })
    }

    /// Runs clients until they have sent `requests` requests in total. Returns the latencies of reads and writes, the
    /// bytes written, and the elapsed time.
    fn clients(&mut self, clients: &Clients, requests: u64, purpose: u64, seed: u64) -> Phase {
        let phase = Arc::new(Mutex::new(Phase::default()));
        let (started, left) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU32::new(clients.load.clients)));
        let began = self.executor.now();
        for client in 0..clients.load.clients {
            let (cx, volume, clients) = (self.executor.context(), self.volume.clone(), clients.clone());
            let (phase, started, left) = (phase.clone(), started.clone(), left.clone());
            let rng = Rng::for_purpose(seed, purpose << 16 | u64::from(client));
            self.executor.spawn(async move {
                let is_next = || started.fetch_add(1, Ordering::Relaxed) < requests;
                clients.client(&cx, &volume, rng, &phase, is_next).await;
                left.fetch_sub(1, Ordering::Relaxed);
            });
        }
        while left.load(Ordering::Relaxed) > 0 {
            assert!(self.executor.step(), "the clients wait for each other");
        }
        let elapsed = self.executor.now().since(began);
        Phase { elapsed, ..std::mem::take(&mut *phase.lock().unwrap_or_else(PoisonError::into_inner)) }
    }
}

/// Measurements of a phase of the load.
#[derive(Default)]
struct Phase {
    reads: Histogram,
    writes: Histogram,
    written: u64,
    elapsed: Duration,
}

/// The load of a phase.
#[derive(Clone)]
struct Clients {
    load: Load,
    /// Size of the hot set in requests.
    hot: u64,
    /// Size of all data in requests.
    all: u64,
    /// Mean pause between two requests.
    think: Duration,
}

impl Clients {
    /// Sends requests, one after the other, while `is_next` returns true.
    async fn client(
        &self,
        cx: &Context,
        volume: &Volume,
        mut rng: Rng,
        phase: &Mutex<Phase>,
        is_next: impl Fn() -> bool,
    ) {
        let length = self.load.request_kib * KIB;
        let mut unflushed = 0;
        while is_next() {
            if self.think > Duration::ZERO {
                let pause = -(1.0 - rng.unit()).ln() * self.think.as_ns() as f64;
                cx.sleep_until(cx.now() + Duration::from_ns(pause as u64)).await;
            }
            let is_read = rng.below(100) < self.load.read_percent;
            let offset = self.draw(&mut rng) * length;
            let began = cx.now();
            let io = match is_read {
                true => Io::Read { offset, buffer: vec![0; length as usize] },
                false => {
                    let data = vec![rng.below(255) as u8 | 1; length as usize].into();
                    Io::Write { offset, data, durable: false }
                }
            };
            volume.start(cx, io).outcome().await.expect("drives that work");
            unflushed += u64::from(!is_read);
            if unflushed == self.load.flush_every {
                unflushed = 0;
                volume.start(cx, Io::Flush).outcome().await.expect("drives that work");
            }
            let mut phase = phase.lock().unwrap_or_else(PoisonError::into_inner);
            let taken = cx.now().since(began);
            if is_read {
                phase.reads.record(taken)
            } else {
                phase.writes.record(taken)
            }
            phase.written += if is_read { 0 } else { length };
        }
    }

    /// Draws the place that a request addresses, in multiples of the request length.
    fn draw(&self, rng: &mut Rng) -> u64 {
        if self.hot == self.all || rng.below(100) < self.load.hot_percent {
            return rng.below(self.hot);
        }
        self.hot + rng.below(self.all - self.hot)
    }
}

fn measure(
    settings: &Settings,
    layout: &Layout,
    hot: u64,
    devices: [&Device; 2],
    seed: u64,
) -> Result<Run, String> {
    let mut server = Server::new(settings, layout, devices, seed)?;
    let load = &settings.load;
    let places = |gb: u64| settings.mib(gb) * MIB / (load.request_kib * KIB);
    let think = Duration::from_ms(load.think_ms);
    let paced = Clients { load: load.clone(), hot: places(hot), all: places(settings.data_gb), think };
    let is_stopped = Arc::new(AtomicBool::new(false));
    let (cx, volume, stopped) = (server.executor.context(), server.volume.clone(), is_stopped.clone());
    server.executor.spawn(async move {
        let is_stopped = move || stopped.load(Ordering::Relaxed);
        volume.background(&cx, 0, &is_stopped).await.expect("drives that work");
    });
    server.clients(&paced, load.warm_up, 1, seed);
    let before = server.wear();
    let measured = server.clients(&paced, load.paced, 2, seed);
    let after = server.wear();
    let burst = server.clients(&Clients { think: Duration::ZERO, ..paced }, load.burst, 3, seed);
    is_stopped.store(true, Ordering::Relaxed);
    Ok(Run {
        reads: measured.reads,
        writes: measured.writes,
        burst_iops: load.burst as f64 / (burst.elapsed.as_ns() as f64 / 1e9),
        client_bytes: measured.written,
        wear: [0, 1].map(|n| after[n].since(before[n])),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::small;
    use super::*;

    fn drives() -> [Device; 2] {
        let library = Library::built_in().expect("the library is sound");
        ["nvme/p32a80", "usb/usb3-1"].map(|name| Device::open(name, &library).expect("a known drive"))
    }

    fn run(layout: usize, hot: u64) -> Run {
        let [ssd, stick] = drives();
        let settings = small();
        measure(&settings, &settings.layouts[layout], hot, [&ssd, &stick], 1).expect("drives with room")
    }

    /// A drive that a layout does not have gets no bytes. The drive for new data gets at least the clients'
    /// bytes, or half of them if the metadata is on the other drive. About 30 % of the clients' requests are
    /// writes.
    #[test]
    fn bytes_go_to_the_drives_of_the_targets() {
        let [ssd, tiers, cache, metadata, stick] = [0, 1, 2, 3, 4].map(|layout| run(layout, 8));
        assert_eq!((ssd.wear[1].written, stick.wear[0].written), (0, 0));
        assert!(ssd.wear[0].written >= ssd.client_bytes && stick.wear[1].written >= stick.client_bytes);
        assert!(tiers.wear[0].written >= tiers.client_bytes);
        assert!(cache.wear[1].written >= cache.client_bytes);
        assert!(metadata.wear[0].written < metadata.client_bytes, "{metadata:?}");
        assert!(metadata.wear[1].written >= metadata.client_bytes / 2, "{metadata:?}");
        let share = ssd.client_bytes as f64 / (400.0 * 16384.0);
        assert!((share - 0.3).abs() < 0.07, "{share} of the bytes were written");
        assert_eq!(ssd.reads.count() + ssd.writes.count(), 400);
    }

    #[test]
    fn drives_without_room_for_a_volume_are_named_in_the_users_units() {
        let [ssd, stick] = drives();
        let settings = small();
        let check = |layout: &Layout| check_drives(&settings, layout, [&ssd, &stick], 1);
        assert_eq!(settings.layouts.iter().try_for_each(check), Ok(()));
        let error =
            check(&Layout { fast_gb: 8, ..settings.layouts[1].clone() }).expect_err("4 MiB are too few");
        assert!(error.contains("gb_per_mib = 2, fast_gb = 8 is 4 MiB"), "{error}");
    }

    #[test]
    fn a_faster_drive_is_faster_and_a_run_repeats() {
        let [ssd, again, tiers, stick] = [0, 0, 1, 4].map(|layout| run(layout, 8));
        assert!(ssd.burst_iops > stick.burst_iops * 3.0);
        assert!(tiers.burst_iops > stick.burst_iops, "{} and {}", tiers.burst_iops, stick.burst_iops);
        let [ssd_ns, tiers_ns, stick_ns] = [&ssd, &tiers, &stick].map(|run| run.reads.mean_ns());
        assert!(ssd_ns < stick_ns / 4.0);
        // The SSD keeps cached copies of data that moved, and has room for all of it. Occasionally, a read still goes
        // to the copy on the stick, so that the average latency of the stick stays current.
        assert!((0.95..1.5).contains(&(tiers_ns / ssd_ns)), "{tiers_ns} and {ssd_ns}");
        assert_eq!((again.burst_iops, again.wear[0].written), (ssd.burst_iops, ssd.wear[0].written));
    }
}
