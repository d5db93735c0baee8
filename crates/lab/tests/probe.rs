//! Runs the probe on every shipped device and compares its findings with the profile.

#[path = "probe/host_delays.rs"]
mod host_delays;

use flashlab_catalogue::device::Device;
use flashlab_catalogue::kind::CardInHost;
use flashlab_catalogue::library::Library;
use flashlab_catalogue::profile;
use flashlab_fit::probe::{
    Action, Confidence, Direction, Finding, Findings, Name, Options, Outcome, Probe, Target, Value, drive,
};
use flashlab_lab::probe::{Counterfeit, ProbeError, VirtualTarget, probe};
use flashlab_lab::progress::Progress;
use flashlab_nvme::SsdParameters;
use flashlab_sd::CardParameters;
use flashlab_sim::Duration;
use flashlab_sim::{Geometry, Observer};
use host_delays::{HostDelays, Load};

/// Seeds in addition to the one of the exact comparison. Seed 27 is a hard case for the program unit, and
/// seed 48 for the levels of the map cache.
const SEEDS: [u64; 8] = [2, 3, 5, 6, 16, 21, 27, 48];

const DESTROY: Options = Options { destroy: true, whole_device: false };

fn open(argument: &str) -> Device {
    Device::open(argument, &Library::built_in().expect("the library is sound")).expect("a device")
}

fn probed(argument: &str, options: Options) -> (Device, Findings) {
    let device = open(argument);
    let findings = probe(&device, options, 1, &Progress::default()).expect("a virtual device does not fail");
    (device, findings)
}

fn find(findings: &[Finding], name: Name) -> &Finding {
    let mut found = findings.iter().filter(|finding| finding.name == name);
    let first = found.next().unwrap_or_else(|| panic!("{name:?} is missing"));
    assert!(found.next().is_none(), "{name:?} was found twice");
    first
}

/// The expected finding.
enum Truth {
    /// Exactly this value, with high confidence.
    Exact(Value),
    /// One of these values.
    OneOf(Vec<Value>),
    /// These sizes within 25 %.
    About(Vec<u64>),
    /// Exactly this value, or no answer: another cost hides it.
    ExactOrNone(Value),
    /// Exactly this value, or an answer of low confidence.
    ExactOrLow(Value),
    /// No answer.
    None,
}

fn check(device: &str, findings: &Findings, name: Name, truth: &Truth) -> Result<(), String> {
    let Finding { value, confidence, reason, .. } = find(&findings.findings, name);
    let sizes = match value {
        Value::Bytes(bytes) => vec![*bytes],
        Value::Levels(levels) => levels.clone(),
        _ => vec![],
    };
    let near = |sizes: &[u64], truth: &[u64]| {
        sizes.len() == truth.len()
            && sizes.iter().zip(truth).all(|(size, truth)| (*size as f64 / *truth as f64 - 1.0).abs() <= 0.25)
    };
    let holds = match truth {
        Truth::Exact(truth) => value == truth && *confidence == Confidence::High,
        Truth::OneOf(truths) => truths.contains(value),
        Truth::ExactOrLow(truth) => value == truth || *confidence < Confidence::High,
        Truth::ExactOrNone(truth) => value == truth || *confidence == Confidence::None,
        Truth::About(truth) => near(&sizes, truth) && *confidence > Confidence::None,
        Truth::None => *confidence == Confidence::None,
    };
    if holds { Ok(()) } else { Err(format!("{device}: {name:?} is {value:?} ({confidence:?}: {reason})")) }
}

fn check_all(device: &Device, findings: &Findings, truths: Vec<(Name, Truth)>) {
    let checks = truths.iter().map(|(name, truth)| check(&device.argument, findings, *name, truth));
    let wrong: Vec<String> = checks.filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Returns the expected findings of a card, from its profile.
fn card_truths(device: &Device) -> Vec<(Name, Truth)> {
    let CardInHost { card, host, .. } = device.hardware::<CardInHost>().expect("a card");
    let (mapping, nand) = (&card.mapping, &card.nand);
    // Such a card merges log blocks, so the unit size becomes visible once more than `open_units` units are
    // open.
    let is_merged = mapping.rewrite_unit == nand.erase_block;
    let bytes = |bytes| Truth::Exact(Value::Bytes(bytes));
    let coverage = mapping.map_cache.map_or(Truth::None, |cache| {
        Truth::About(vec![cache / mapping.map_page * (mapping.map_page / 4) * mapping.map_unit])
    });
    let granule = nand.page.min(4 << 10);
    let refinements = &card.refinements.layer;
    // A constant time of each write hides smaller costs.
    let seen =
        |value| if refinements.t_write.is_some() { Truth::ExactOrNone(value) } else { Truth::Exact(value) };
    // Without a commit, a partial program unit costs little more than a whole one.
    let program_unit = if mapping.t_commit == Duration::ZERO {
        Truth::ExactOrLow(Value::Bytes(mapping.program_unit))
    } else {
        bytes(mapping.program_unit)
    };
    // A volatile cache hides the units of the array, as on an SSD. Random writes are faster after it has drained.
    let cache = card.refinements.cache;
    // Programs this short differ by less than a microsecond between erase blocks.
    let allocation_unit = Value::Bytes(nand.erase_block);
    let allocation_unit = if cache.is_some() || nand.t_prog <= Duration::from_us(20) {
        Truth::ExactOrNone(allocation_unit)
    } else {
        Truth::Exact(allocation_unit)
    };
    // A host that prepares the next read during the current one makes short reads at queue depth 2 up to a quarter
    // faster.
    let one = Value::Count(1);
    let depth = if host.prepare == Some(true) { Truth::ExactOrLow(one) } else { Truth::Exact(one) };
    let depth = host.queue_depth(card).map_or(depth, |queue| useful_depth(card, queue));
    let mut random_write_units = vec![Value::Bytes(granule), Value::Bytes(nand.page)];
    // The area for small writes has pages of its own, and larger writes rewrite a map unit.
    random_write_units.extend(refinements.small.page.map(Value::Bytes));
    random_write_units.extend(refinements.small.max.map(|_| Value::Bytes(mapping.map_unit)));
    // Pieces of more than 4 KiB bypass the area for small writes and fill the log of a merged unit, but they
    // show the unit with less certainty.
    let unit = Value::Bytes(mapping.rewrite_unit);
    let needs_large_pieces = is_merged || refinements.small.max.is_some();
    let rewrite_unit = if needs_large_pieces { Truth::ExactOrLow(unit) } else { seen(unit) };
    vec![
        (Name::Capacity, bytes(card.capacity)),
        (Name::QueueDepth, depth),
        (Name::MapCoverage, coverage),
        // The bus hides the page: the array streams faster than the wires transfer.
        (Name::ReadPage, Truth::None),
        (Name::ProgramUnit, program_unit),
        (Name::OpenUnits, seen(Value::Count(mapping.open_units.into()))),
        (Name::AllocationUnit, allocation_unit),
        (
            Name::RandomWriteUnit,
            if is_merged || cache.is_some() { Truth::None } else { Truth::OneOf(random_write_units) },
        ),
        (Name::RewriteUnit, rewrite_unit),
        (Name::WriteBuffer, cache.map_or(Truth::None, |cache| Truth::ExactOrLow(Value::Bytes(cache)))),
        (Name::SlcBuffer, Truth::None),
        (
            Name::RewriteArea,
            if nand.t_prog_slc.is_some() { Truth::About(vec![mapping.rewrite_unit]) } else { Truth::None },
        ),
        (Name::Idle, if cache.is_some() { Truth::ExactOrLow(Value::Ratio(1.0)) } else { Truth::None }),
        (Name::OverProvisioning, Truth::None),
    ]
}

/// Returns the useful depth of a queue of `queue` tasks. With random addresses, the gain from depth q lies
/// between the gain of a closed network, q dies / (q + dies - 1), and min(q, dies). The least power of two
/// with nine tenths of the best gain therefore lies between the number of dies and the depth that the network
/// needs. With one die, the transfer and the software cause the gain, because they run during the next
/// access.
fn useful_depth(card: &CardParameters, queue: u32) -> Truth {
    if card.refinements.queue_buffers == Some(1) {
        return Truth::ExactOrLow(Value::Count(1));
    }
    let dies = f64::from(card.refinements.dies.unwrap_or(1)).max(2.0);
    let gain = |depth: f64| depth / (depth + dies - 1.0);
    let depths = (0..6).map(|n| f64::from(1u32 << n)).filter(|depth| *depth >= dies);
    let enough = depths.clone().find(|depth| gain(*depth) >= 0.9 * gain(f64::from(queue)));
    let enough = enough.expect("the queue itself is enough");
    Truth::OneOf(depths.filter(|depth| *depth <= enough).map(|depth| Value::Count(depth as u64)).collect())
}

fn ssd_truths(device: &Device) -> Vec<(Name, Truth)> {
    let ssd = device.hardware::<SsdParameters>().expect("an SSD");
    let covered = |bytes: u64| bytes / ssd.map.entry * ssd.page_map.unit;
    let coverage = match ssd.map.sram {
        Some(sram) => Truth::About(vec![covered(sram), covered(ssd.lend_max)]),
        None => Truth::None,
    };
    vec![
        (Name::Capacity, Truth::Exact(Value::Bytes(ssd.page_map.capacity))),
        (Name::MapCoverage, coverage),
        // The write buffer hides the programs, and the pages of a stripe are read in parallel.
        (Name::ReadPage, Truth::None),
        (Name::ProgramUnit, Truth::None),
        (Name::OpenUnits, Truth::None),
        (Name::AllocationUnit, Truth::None),
        (Name::RewriteUnit, Truth::None),
        (Name::RandomWriteUnit, Truth::Exact(Value::Bytes(ssd.page_map.unit))),
        (Name::WriteBuffer, Truth::About(vec![ssd.page_map.write_buffer])),
        (Name::SlcBuffer, Truth::None),
        (Name::RewriteArea, Truth::None),
        (Name::OverProvisioning, Truth::None),
    ]
}

#[test]
fn the_probe_finds_the_numbers_of_every_shipped_card() {
    let library = Library::built_in().expect("the library is sound");
    let devices = Device::open_all("sd/*", &library).expect("shipped cards");
    assert!(devices.len() >= 9, "{} cards", devices.len());
    for device in devices {
        let findings = probe(&device, DESTROY, 1, &Progress::default()).expect("no failure");
        check_all(&device, &findings, card_truths(&device));
    }
}

/// Overwrites of 4 KiB go to the area for small writes, and never reach the units.
#[test]
fn an_area_for_small_writes_does_not_make_the_probe_deny_a_rewrite_unit() {
    let (device, findings) = probed("sd/samsung-evo-plus-a2-256", DESTROY);
    let found = find(&findings.findings, Name::RewriteUnit);
    assert_eq!((&found.value, found.confidence), (&number(&device, "ftl.rewrite_unit"), Confidence::Low));
    // The log of this card takes overwrites of 4 KiB.
    let (device, findings) = probed("sd/toshiba-class2", DESTROY);
    let found = find(&findings.findings, Name::RewriteUnit);
    assert_eq!((&found.value, found.confidence), (&number(&device, "ftl.rewrite_unit"), Confidence::Low));
    // Each overwrite of this card lies in another unit of 64 KiB.
    let (_, findings) = probed("sd/samsung-pro-16", DESTROY);
    let found = find(&findings.findings, Name::RewriteUnit);
    assert!(matches!(found.value, Value::HiddenOrNoneUpToBytes(_)), "{found:?}");
    assert_eq!(found.confidence, Confidence::None);
}

#[test]
fn the_probe_finds_the_numbers_of_the_shipped_ssds() {
    for name in ["nvme/reference", "nvme/p32a80"] {
        let (device, findings) = probed(name, DESTROY);
        check_all(&device, &findings, ssd_truths(&device));
        let depth = find(&findings.findings, Name::QueueDepth);
        assert!(matches!(depth.value, Value::Count(8..)), "{name}: {depth:?}");
    }
}

/// Returns a number of a device's own profile.
fn number(device: &Device, path: &str) -> Value {
    let numbers = device.sourced_numbers().iter().map(|sourced| &sourced.number);
    match numbers.clone().find(|number| number.parameter.path == path).map(|number| &number.value) {
        Some(profile::Value::Quantity(_, bytes)) => Value::Bytes(*bytes),
        Some(profile::Value::Count(count)) => Value::Count((*count).into()),
        other => panic!("{path} is {other:?}"),
    }
}

/// The cache of a module hides most of its numbers.
#[test]
fn the_probe_gives_no_wrong_number_of_a_shipped_module() {
    let library = Library::built_in().expect("the library is sound");
    for device in Device::open_all("emmc/*", &library).expect("shipped modules") {
        let findings = probe(&device, DESTROY, 1, &Progress::default()).expect("no failure");
        let hidden = |name, path| (name, Truth::ExactOrLow(number(&device, path)));
        let truths = vec![
            (Name::Capacity, Truth::Exact(number(&device, "card.capacity"))),
            hidden(Name::WriteBuffer, "card.cache"),
            hidden(Name::ProgramUnit, "ftl.program_unit"),
            hidden(Name::OpenUnits, "ftl.open_units"),
            hidden(Name::AllocationUnit, "flash.erase_block"),
            hidden(Name::RandomWriteUnit, "ftl.map_unit"),
            hidden(Name::RewriteUnit, "ftl.rewrite_unit"),
            (Name::MapCoverage, Truth::None),
        ];
        check_all(&device, &findings, truths);
    }
}

#[test]
fn the_probe_finds_the_numbers_of_the_shipped_sticks() {
    let library = Library::built_in().expect("the library is sound");
    for device in Device::open_all("usb/*", &library).expect("shipped sticks") {
        let findings = probe(&device, DESTROY, 1, &Progress::default()).expect("no failure");
        let exact = |path| Truth::Exact(number(&device, path));
        let truths = vec![
            (Name::Capacity, exact("stick.capacity")),
            (Name::QueueDepth, Truth::Exact(Value::Count(1))),
            (Name::MapCoverage, Truth::None),
            (Name::ReadPage, Truth::None),
            (Name::WriteBuffer, Truth::None),
            (Name::ProgramUnit, exact("ftl.program_unit")),
            (Name::OpenUnits, exact("ftl.open_units")),
            // A stick merges rewrite units.
            (Name::AllocationUnit, exact("ftl.rewrite_unit")),
            (Name::RandomWriteUnit, Truth::None),
            (Name::RewriteUnit, Truth::None),
            (Name::SlcBuffer, Truth::None),
            (Name::Idle, Truth::None),
        ];
        check_all(&device, &findings, truths);
    }
}

/// Properties that a volatile cache hides.
const HIDDEN: [Name; 7] = [
    Name::ProgramUnit,
    Name::PartialUnitCost,
    Name::OpenUnits,
    Name::RandomWriteUnit,
    Name::RewriteUnit,
    Name::SlcBuffer,
    Name::OverProvisioning,
];

#[test]
fn a_volatile_cache_hides_the_units_behind_it() {
    for argument in [
        "emmc/typical-16gb",
        "emmc/typical-16gb:card.cache=4MiB",
        "sd/kingston:card.cache=64KiB",
        "sd/kingston:card.cache=512KiB",
        "sd/kingston:card.cache=4MiB",
        "usb/usb3-1:stick.cache=256KiB",
        "usb/usb3-1:stick.cache=4MiB",
    ] {
        let device = open(argument);
        for seed in [1, 2, 3] {
            let findings = probe(&device, DESTROY, seed, &Progress::default()).expect("no failure");
            check_all(&device, &findings, HIDDEN.map(|name| (name, Truth::None)).into());
            for name in [Name::WriteBuffer, Name::RewriteArea] {
                let found = find(&findings.findings, name);
                assert!(found.confidence < Confidence::High, "{argument}, seed {seed}: {found:?}");
            }
            let buffer = find(&findings.findings, Name::WriteBuffer);
            assert!(matches!(buffer.value, Value::Bytes(_) | Value::NotMeasured), "{argument}: {buffer:?}");
        }
    }
}

/// The probe must give no wrong answer with high confidence, for any of the seeds in [`SEEDS`].
#[test]
fn no_seed_gives_a_wrong_answer_with_high_confidence() {
    let library = Library::built_in().expect("the library is sound");
    let mut wrong = vec![];
    for device in Device::open_all("sd/*", &library).expect("shipped cards") {
        for seed in SEEDS {
            let findings = probe(&device, DESTROY, seed, &Progress::default()).expect("no failure");
            for (name, truth) in card_truths(&device) {
                let is_high = find(&findings.findings, name).confidence == Confidence::High;
                let checked = check(&device.argument, &findings, name, &truth);
                wrong.extend(checked.err().filter(|_| is_high).map(|error| format!("seed {seed}: {error}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Loads of a host: mean delays up to four times the access time of a card, with stalls of the scheduler, and with
/// phases that begin and end within a pattern.
fn loads() -> Vec<Load> {
    let load = |mean_us, stall_each, phase_s| Load {
        mean: Duration::from_us(mean_us),
        stall_each,
        stall: Duration::from_us(8_000),
        phase: Duration::from_secs(phase_s),
    };
    let mut loads = vec![load(200, 50, 0), load(300, 100, 7)];
    if std::env::var_os("FLASHLAB_FULL").is_some() {
        loads.extend([
            load(20, 0, 0),
            load(50, 1000, 0),
            load(500, 0, 0),
            load(2_000, 20, 0),
            load(1_000, 0, 3),
        ]);
    }
    loads
}

#[test]
fn a_busy_host_gives_no_wrong_answer_with_high_confidence() {
    let full = std::env::var_os("FLASHLAB_FULL").is_some();
    let names: &[&str] =
        if full { &["sd/kingston", "sd/kioxia", "sd/sandisk-2gb", "sd/suneast"] } else { &["sd/kingston"] };
    let mut wrong = vec![];
    for (argument, (n, load)) in
        names.iter().flat_map(|name| loads().into_iter().enumerate().map(move |l| (*name, l)))
    {
        let device = open(argument);
        for seed in 1..=if full { 2 } else { 1 } {
            let model = HostDelays::new(device.build(seed), load, seed);
            let mut target = VirtualTarget::new(Box::new(model));
            let mut probe = Probe::new(target.geometry(), DESTROY, seed);
            let findings = drive(&mut probe, &mut target, |_, _| true).expect("no failure");
            let depth = find(&findings, Name::QueueDepth);
            assert!(
                depth.confidence < Confidence::High || depth.value == Value::Count(1),
                "load {n}: {depth:?}"
            );
            let findings = Findings { findings, ..empty(&device) };
            for (name, truth) in card_truths(&device) {
                let is_high = find(&findings.findings, name).confidence == Confidence::High;
                let checked = check(&device.argument, &findings, name, &truth);
                let error = checked.err().filter(|_| is_high);
                wrong.extend(error.map(|error| format!("load {n}, seed {seed}: {error}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Returns the `Findings` of a device with an empty list, which the caller replaces.
fn empty(device: &Device) -> Findings {
    Findings {
        target: device.argument.clone(),
        version: String::new(),
        seed: 1,
        capacity: 0,
        block: 512,
        written_bytes: 0,
        destroy: true,
        findings: vec![],
    }
}

/// Two dies behind a queue serve random reads of written data in parallel. Reads of addresses that were never
/// written need no die, so a probe that must not write learns little about the depth.
#[test]
fn the_queue_depth_is_that_of_written_data() {
    let (_, findings) = probed("emmc/typical-16gb", DESTROY);
    let depth = find(&findings.findings, Name::QueueDepth);
    assert!(matches!(depth.value, Value::Count(8..=32)) && depth.confidence == Confidence::High, "{depth:?}");
    let (_, findings) = probed("emmc/typical-16gb", Options { destroy: false, ..DESTROY });
    let depth = find(&findings.findings, Name::QueueDepth);
    assert_eq!(depth.confidence, Confidence::Low, "{depth:?}");
}

#[test]
fn the_probe_finds_nothing_on_a_card_without_timing() {
    let (device, findings) = probed("sd/qemu-sdsc", DESTROY);
    let names = card_truths(&device).into_iter().map(|(name, _)| name);
    let names = names.filter(|name| !matches!(name, Name::Capacity | Name::QueueDepth));
    check_all(&device, &findings, names.map(|name| (name, Truth::None)).collect());
}

#[test]
fn the_probe_finds_changed_parameters_with_other_seeds() {
    for (argument, seed) in [
        ("sd/kingston:program_unit=16KiB,page=16KiB,open_units=3,rewrite_unit=384KiB", 5),
        ("sd/sandisk-2gb:open_units=5", 6),
        ("sd/suneast:open_units=1,map_cache=200KiB", 7),
    ] {
        let device = open(argument);
        let findings = probe(&device, DESTROY, seed, &Progress::default()).expect("no failure");
        check_all(&device, &findings, card_truths(&device));
    }
}

fn capacity_of(counterfeit: Counterfeit) -> Finding {
    let device = open("sd/kingston");
    let mut target = VirtualTarget::new(device.build(1)).counterfeit(counterfeit);
    let mut probe = Probe::new(target.geometry(), DESTROY, 1);
    let findings = drive(&mut probe, &mut target, |_, _| true).expect("no failure");
    assert_eq!(findings.len(), 1, "nothing else is measured on a counterfeit");
    assert!(probe.written_bytes() < 1 << 20, "the check is cheap: {} bytes", probe.written_bytes());
    findings[0].clone()
}

#[test]
fn counterfeit_capacity_is_found() {
    const GIB: u64 = 1 << 30;
    for real in [4 * GIB, 8 * GIB, 16 * GIB] {
        let found = capacity_of(Counterfeit::Wraps(real));
        assert_eq!(found.value, Value::Bytes(real), "{found:?}");
    }
    for real in [7 * GIB + (5 << 20) + (4 << 10), 8 * GIB, 29 * GIB] {
        let found = capacity_of(Counterfeit::Drops(real));
        assert_eq!((&found.value, found.confidence), (&Value::Bytes(real), Confidence::High), "{found:?}");
    }
}

/// A target that panics on any action except reads and idle times.
struct ReadOnly(VirtualTarget);

impl Target for ReadOnly {
    type Error = ProbeError;
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }
    fn carry_out(&mut self, action: &Action) -> Result<Outcome, ProbeError> {
        let reads = matches!(action, Action::Run(series) if series.direction == Direction::Read);
        assert!(reads || matches!(action, Action::Idle(_)), "{action:?} is not permitted");
        self.0.carry_out(action)
    }
}

#[test]
fn without_permission_nothing_is_written_and_every_finding_is_listed() {
    for name in ["sd/kingston", "sd/sandisk-512mb", "nvme/p32a80:blocks=40,ftl.capacity=3584MiB"] {
        let mut target = ReadOnly(VirtualTarget::new(open(name).build(1)));
        let mut probe = Probe::new(target.geometry(), Options::default(), 1);
        let findings = drive(&mut probe, &mut target, |_, _| true).expect("no failure");
        assert_eq!(probe.written_bytes(), 0);
        let (_, all) = probed("sd/qemu-sdsc", DESTROY);
        for finding in &all.findings {
            find(&findings, finding.name);
        }
    }
}

#[test]
fn a_stopped_probe_returns_the_findings_so_far() {
    let mut target = VirtualTarget::new(open("sd/kingston").build(1));
    let mut probe = Probe::new(target.geometry(), DESTROY, 1);
    let findings = drive(&mut probe, &mut target, |probe, _| probe.findings().len() < 3).expect("no failure");
    assert_eq!(findings.len(), 3);
}

#[derive(Default)]
struct Spare(u64);

impl Observer for Spare {
    fn count(&mut self, name: &'static str, value: u64) {
        if name == "effective_spare_ppm" {
            self.0 = value;
        }
    }
}

#[test]
fn over_provisioning_of_an_ssd_is_near_its_effective_spare() {
    let device = open("nvme/reference:blocks=40,ftl.capacity=3584MiB");
    let mut target = VirtualTarget::new(device.build(1));
    let options = Options { destroy: true, whole_device: true };
    let mut probe = Probe::new(target.geometry(), options, 1);
    let findings = drive(&mut probe, &mut target, |_, _| true).expect("no failure");
    let mut spare = Spare::default();
    target.model().observe(&mut spare);
    let truth = spare.0 as f64 / 1e6;
    let found = find(&findings, Name::OverProvisioning);
    let Value::Share(share) = found.value else { panic!("{found:?}") };
    assert!((share / truth - 1.0).abs() < 0.25, "{share} instead of {truth}: {}", found.reason);
    assert_eq!(found.confidence, Confidence::Low);
}
