//! Arguments of byte-carrying devices: what is put together, and that no text is worse than an error.

use flashlab_block::conformance::{ask, read};
use flashlab_block::{Io, IoError};
use flashlab_lab::library::Library;
use flashlab_lab::served::{Served, ServedError};
use flashlab_sim::Rng;

fn open(argument: &str) -> Result<Served, ServedError> {
    Served::open(argument, 1, false, &Library::open::<&str>(&[]).expect("the built-in library is sound"))
}

fn served(argument: &str) -> Served {
    open(argument).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn names_devices_and_layers_are_told_apart() {
    let plain = served("memory:size=1MiB");
    assert_eq!((plain.name.as_str(), plain.description.as_str()), ("", "memory:size=1MiB"));
    assert!(plain.timed.is_none() && plain.keeper.is_none());
    let named = served("a name=memory:size=1MiB+stats+error:at=0+512,on=read+delay:read=1ms");
    assert_eq!(named.name, "a name");
    assert_eq!((named.stats.len(), named.faults.len()), (1, 1));
    assert!(named.timed.is_some(), "a delay takes time");
    let failed = ask(&*named.device, Io::Read { offset: 0, buffer: vec![0; 512] });
    assert_eq!(failed.err(), Some(IoError::Medium));
    assert_eq!(read(&*named.device, 512, 512), [0; 512]);
    let card = served("sd/kingston:capacity=64MiB+readonly");
    assert!(card.device.abilities().read_only && card.timed.is_some());
    assert_eq!(card.device.geometry().capacity, 64 << 20);
}

#[test]
fn whatever_the_argument_is_a_device_or_an_error_with_its_place() {
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
