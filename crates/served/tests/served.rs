//! Devices that store bytes: their arguments, their state files, and errors instead of panics for arbitrary text.

use flashlab_block::conformance::{execute, read};
use flashlab_block::{BlockDevice, Context, Io, IoError};
use flashlab_catalogue::library::Library;
use flashlab_served::{Served, ServedError};
use flashlab_sim::{Instant, Rng};
use std::path::Path;
use std::sync::LazyLock;

/// The built-in library, read once, because reading its profiles takes longer than opening a device.
static LIBRARY: LazyLock<Library> =
    LazyLock::new(|| Library::open::<&str>(&[]).expect("the built-in library is sound"));

fn open(argument: &str) -> Result<Served, ServedError> {
    Served::open(argument, 1, false, &*LIBRARY)
}

fn served(argument: &str) -> Served {
    open(argument).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn names_devices_and_layers_are_told_apart() {
    let plain = served("memory:size=1MiB");
    assert_eq!((plain.name.as_str(), plain.description.as_str()), ("", "memory:size=1MiB"));
    assert!(plain.timed.is_none() && plain.state_writer.is_none());
    let named = served("a name=memory:size=1MiB+stats+error:at=0+512,on=read+delay:read=1ms");
    assert_eq!(named.name, "a name");
    assert_eq!((named.stats.len(), named.faults.len()), (1, 1));
    assert!(named.timed.is_some(), "a delay takes time");
    let failed = execute(&*named.device, Io::Read { offset: 0, buffer: vec![0; 512] });
    assert_eq!(failed.err(), Some(IoError::Medium));
    assert_eq!(read(&*named.device, 512, 512), [0; 512]);
    let card = served("sd/kingston:capacity=64MiB+readonly");
    assert!(card.device.features().read_only && card.timed.is_some());
    assert_eq!(card.device.geometry().capacity, 64 << 20);
}

#[test]
fn every_argument_gives_a_device_or_an_error_with_a_text() {
    let words = [
        "memory",
        ":",
        "size=",
        "1MiB",
        "1",
        ",",
        "pages=small",
        "+",
        "delay",
        "rate",
        "error",
        "stats",
        "readonly",
        "overlay",
        "read=1ms",
        "iops=5",
        "rate=0.5",
        "on=read",
        "=",
        "name",
        "\u{e4}\u{1f980}",
        " ",
        "at=0+4096",
    ];
    let mut devices = 0;
    for seed in 0..20_000 {
        let mut rng = Rng::new(seed);
        let garbage: String =
            (0..rng.below(10)).map(|_| words[rng.below(words.len() as u64) as usize]).collect();
        let start = ["memory:size=1MiB", "n=memory:size=1MiB+", "memory:", ""][rng.below(4) as usize];
        match open(&format!("{start}{garbage}")) {
            Ok(_) => devices += 1,
            Err(error) => assert!(!error.to_string().is_empty(), "seed {seed}"),
        }
    }
    assert!(devices > 500, "{devices}");
}

#[test]
fn a_misspelt_layer_is_reported_as_a_layer() {
    let error = open("memory:size=1MiB+dely:read=1ms").err().expect("there is none").to_string();
    assert!(error.contains("no layer dely; did you mean delay?"), "{error}");
    let error = open("sd/kingston+stat").err().expect("there is none").to_string();
    assert!(error.contains("did you mean stats?"), "{error}");
    let error = open("sd/kingston+nosuch").err().expect("there is none").to_string();
    assert!(error.contains("no layer nosuch; the layers are"), "{error}");
    let error = open("file:no+stat").err().expect("there is none").to_string();
    assert!(error.contains("size=1GiB creates it"), "{error}");
}

/// Returns the total erase count of a device.
fn erases(served: &Served) -> u64 {
    struct Sum(u64);
    impl flashlab_sim::Observer for Sum {
        fn count(&mut self, _: &'static str, _: u64) {}
        fn erase_blocks(&mut self, blocks: &flashlab_sim::EraseBlocks<'_>) {
            self.0 += blocks.erase_counts.iter().map(|count| u64::from(*count)).sum::<u64>();
        }
    }
    let mut sum = Sum(0);
    served.timed.as_ref().expect("the device is simulated").with_model(|model| model.observe(&mut sum));
    sum.0
}

/// Submits random writes, trims and flushes, with one power cut.
fn use_up(served: &Served, seed: u64) {
    let mut rng = Rng::new(seed);
    let timed = served.timed.as_ref().expect("the device is simulated");
    for n in 0..300 {
        let offset = rng.below(256) * 65_536;
        let io = match rng.below(8) {
            0 => Io::Flush,
            1 => Io::Discard { offset, length: 65_536, durable: false },
            _ => Io::Write { offset, data: vec![n as u8; 65_536].into(), durable: n % 5 == 0 },
        };
        execute(&*served.device, io).expect("it is a sound request");
        if n == 150 {
            let (_, now, ()) = timed.model_when_idle(|| ());
            let now = flashlab_sim::Instant::ZERO + now;
            timed.power_cut(now).expect("memory takes all");
            timed.power_up(now);
        }
    }
}

#[test]
fn a_killed_server_leaves_the_device_like_a_server_that_ended_in_order() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("killed");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("there is room");
    for device in ["sd/kingston:capacity=64MiB", "sd/sandisk:capacity=64MiB"] {
        let kind = &device[3..5];
        let open = |name: &str| {
            served(&format!("{device},state={}", folder.join(format!("{kind}-{name}")).display()))
        };
        let save = |served: &Served| {
            served.timed.as_ref().expect("the device is simulated").with_model(|model| model.save())
        };
        let ends = |name: &str| {
            let served = open(name);
            use_up(&served, 1);
            served.state_writer.as_ref().expect("the device keeps its state").close().expect("there is room");
        };
        ends("ordered");
        use_up(&open("killed"), 1);
        assert!(folder.join(format!("{kind}-killed.journal")).exists());
        assert!(!folder.join(format!("{kind}-ordered.journal")).exists());
        let (saved, first) = {
            let (killed, ordered) = (open("killed"), open("ordered"));
            assert!(save(&killed) == save(&ordered), "{device}: the models differ");
            (save(&ordered), erases(&ordered))
        };

        // If a state is written in between, the journal begins after that state.
        let between = open("between");
        use_up(&between, 1);
        between.state_writer.as_ref().expect("it has a state file").write().expect("there is room");
        use_up(&between, 2);
        let before = erases(&between);
        drop(between);
        let after = erases(&open("between"));
        // The model became idle for the state in between, which may have led to a few more erases.
        assert!(
            before > first && (before..before + 8).contains(&after),
            "{device}: {first}, {before}, {after}"
        );
        // The journal of another state is ignored.
        let path = |name: &str| folder.join(format!("{kind}-{name}.journal"));
        std::fs::copy(path("between"), path("ordered")).expect("the path exists");
        assert!(save(&open("ordered")) == saved, "{device}");
    }
}

#[test]
fn a_device_that_loses_power_before_its_server_ends_has_power_when_it_is_opened_again() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("unplugged-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("there is room");
    for device in [
        "sd/kingston:capacity=256MiB",
        "nvme/p32a80:capacity=80MiB,channels=2,dies=2,planes=1,blocks=24,pages=96",
    ] {
        let kind = device.split('/').next().expect("it has a kind");
        for (name, ended, kept) in
            [("ended", true, false), ("killed", false, false), ("kept and killed", false, true)]
        {
            let path = folder.join(format!("{kind}-{name}"));
            let open = || open(&format!("{device},state={}", path.display()));
            let served = open().unwrap_or_else(|error| panic!("{error}"));
            let (timed, state_writer) =
                (served.timed.clone().expect("it is"), served.state_writer.clone().expect("it is"));
            let started: Vec<_> = (0..64)
                .map(|n| {
                    let data = vec![7; 4096].into();
                    let write = Io::Write { offset: n * 8192, data, durable: false };
                    served.device.start(&Context::new(Instant::ZERO), write)
                })
                .collect();
            timed.power_cut(timed.next_due().expect("it is busy")).expect("memory does not fail");
            drop(started);
            if kept {
                state_writer.write().expect("there is room");
                timed.power_up(Instant::from_ns(1_000_000_000));
            }
            if ended {
                state_writer.close().expect("there is room");
            }
            drop((served, timed, state_writer));
            let again = open().unwrap_or_else(|error| panic!("{device}, {name}: {error}"));
            use_up(&again, 1);
        }
    }
    std::fs::remove_dir_all(&folder).expect("the path exists");
}

/// A temporary folder with a card and its state file, and operations on them.
struct Shelf(std::path::PathBuf);

impl Shelf {
    const CARD: &'static str = "sd/kingston:capacity=64MiB";

    fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("there is room");
        Shelf(folder)
    }
    fn file(&self, ending: &str) -> std::path::PathBuf {
        self.0.join(format!("card{ending}"))
    }
    fn open(&self) -> Result<Served, ServedError> {
        open(&format!("{},state={}", Self::CARD, self.file("").display()))
    }
    fn refused(&self) -> String {
        self.open().err().expect("the files do not belong together").to_string()
    }
    /// Writes to a new card. Its server then ends in order, or is killed.
    fn fill(&self, ends: bool) {
        let served = self.open().unwrap_or_else(|error| panic!("{error}"));
        for n in 0..16 {
            let data = vec![n as u8 + 1; 65_536].into();
            execute(&*served.device, Io::Write { offset: n * 65_536, data, durable: false })
                .expect("it is written");
        }
        if ends {
            served.state_writer.as_ref().expect("the device keeps its state").close().expect("there is room");
        }
    }
    /// Changes a byte of a file.
    fn damage(&self, ending: &str, at: usize) {
        let mut bytes = std::fs::read(self.file(ending)).expect("the path exists");
        bytes[at] ^= 4;
        std::fs::write(self.file(ending), bytes).expect("it can be written");
    }
}

impl Drop for Shelf {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_missing_or_truncated_file_is_reported_with_the_remedy() {
    let shelf = Shelf::new("missing");
    shelf.fill(true);
    for (ending, words) in [
        ("", "the state file is missing"),
        (".bytes", "card.bytes: the file is missing"),
        (".sums", "card.sums: the file is missing"),
    ] {
        let aside = shelf.file(".aside");
        std::fs::rename(shelf.file(ending), &aside).expect("the path exists");
        let refused = shelf.refused();
        assert!(refused.contains(words) && refused.contains("delete"), "{refused}");
        std::fs::rename(&aside, shelf.file(ending)).expect("the path exists");
    }
    for ending in [".bytes", ".sums"] {
        let whole = std::fs::read(shelf.file(ending)).expect("the path exists");
        for length in [0, whole.len() / 2] {
            std::fs::write(shelf.file(ending), &whole[..length]).expect("it can be written");
            let refused = shelf.refused();
            assert!(refused.contains(&format!("it has {length} bytes instead of")), "{refused}");
        }
        std::fs::write(shelf.file(ending), &whole).expect("it can be written");
    }
    let served = shelf.open().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(read(&*served.device, 65_536, 512), [2; 512]);
    drop(served);
    // An aged state has no bytes.
    let aged = std::fs::read(shelf.file("")).expect("the path exists");
    let mut aged = flashlab_catalogue::device::State::parse("card", &aged).expect("it is a state");
    assert!(aged.has_bytes);
    aged.has_bytes = false;
    std::fs::write(shelf.file(""), aged.to_bytes()).expect("it can be written");
    assert!(shelf.refused().contains("a state without bytes"), "{}", shelf.refused());
    std::fs::remove_file(shelf.file(".bytes")).expect("the path exists");
    let served = shelf.open().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(read(&*served.device, 65_536, 512), [0; 512], "the bytes of an aged device are zeroes");
}

#[test]
fn damaged_bytes_fail_the_reads_of_their_block() {
    for ends in [true, false] {
        let shelf = Shelf::new(if ends { "damaged" } else { "damaged-killed" });
        shelf.fill(ends);
        shelf.damage(".bytes", 5 * 65_536 + 4096);
        let served = shelf.open().unwrap_or_else(|error| panic!("{error}"));
        let state_writer = served.state_writer.as_ref().expect("the device keeps its state");
        assert_eq!(read(&*served.device, 5 * 65_536, 4096), [6; 4096]);
        assert_eq!(state_writer.damage(), None);
        let failed = execute(&*served.device, Io::Read { offset: 5 * 65_536 + 7680, buffer: vec![0; 512] });
        let wrong = format!("card.bytes: damaged at byte {}", 5 * 65_536 + 4096);
        assert_eq!(failed.err(), Some(IoError::Medium));
        let damage = state_writer.damage().expect("a read failed");
        assert!(damage.contains(&wrong), "{damage:?}");
        for n in [0, 4, 6, 15] {
            assert_eq!(read(&*served.device, n * 65_536, 65_536), [n as u8 + 1; 65_536]);
        }
    }
}

#[test]
fn a_journal_with_damage_before_its_end_is_rejected_but_a_torn_end_is_accepted() {
    let shelf = Shelf::new("journal");
    shelf.fill(false);
    let length = std::fs::metadata(shelf.file(".journal")).expect("the path exists").len() as usize;
    shelf.damage(".journal", length / 2);
    let refused = shelf.refused();
    assert!(refused.contains("card.journal:") && refused.contains("the line is damaged"), "{refused}");
    shelf.damage(".journal", length / 2);
    let whole = std::fs::read(shelf.file(".journal")).expect("the path exists");
    std::fs::write(shelf.file(".journal"), &whole[..length - 7]).expect("it can be written");
    shelf.open().unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_process_that_dies_before_it_renames_the_new_bytes_leaves_a_complete_device_or_none() {
    let shelf = Shelf::new("between");
    shelf.fill(true);
    for ending in [".bytes", ".sums"] {
        let new = shelf.file(&format!("{ending}.new"));
        std::fs::rename(shelf.file(ending), new).expect("the path exists");
    }
    let served = shelf.open().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(read(&*served.device, 0, 512), [1; 512]);
    drop(served);
    // Only one of the two files has its final name.
    std::fs::rename(shelf.file(".bytes"), shelf.file(".bytes.new")).expect("the path exists");
    shelf.open().unwrap_or_else(|error| panic!("{error}"));
    // If the state was not written yet, the device is new.
    for ending in [".bytes", ".sums"] {
        std::fs::rename(shelf.file(ending), shelf.file(&format!("{ending}.new"))).expect("the path exists");
    }
    std::fs::remove_file(shelf.file("")).expect("the path exists");
    let _ = std::fs::remove_file(shelf.file(".journal"));
    let served = shelf.open().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(read(&*served.device, 0, 512), [0; 512]);
}
