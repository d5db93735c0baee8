//! Checks three numbers that have no effect according to their sources in the profiles of the cards of at91:
//! they do not change the times of a few writes and reads.

use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_fio::cmdline::Invocation;
use flashlab_fio::loader::NoFiles;
use flashlab_fio::stats::Settings;
use flashlab_lab::bench::Bench;

/// Returns the milliseconds that a device takes to write 10 MiB, to read them, and to write them again.
fn milliseconds(library: &Library, device: &str) -> Vec<u64> {
    let device = Device::open(device, library).unwrap_or_else(|error| panic!("{error}"));
    let mut bench = Bench::new(device.build(1));
    let run = |rw: &str| {
        let line = format!("--name=dd --filename=x --rw={rw} --bs=1m --size=10m --direct=1");
        let words: Vec<&str> = line.split_whitespace().collect();
        let jobs = Invocation::parse(&words, &NoFiles).unwrap_or_else(|error| panic!("{error}")).jobs;
        let statistics = bench.run(&jobs, &Settings::default()).unwrap_or_else(|error| panic!("{error}"));
        statistics.job(0).job_runtime_ms
    };
    ["write", "read", "write"].map(run).to_vec()
}

#[test]
fn numbers_without_effect_on_the_cards_of_at91_do_not_change_times() {
    let library = Library::built_in().expect("the repository's own library");
    for card in ["sd/sandisk-512mb", "sd/sandisk-2gb"] {
        for command_max in ["512B", "32KiB"] {
            let with = |more: &str| {
                milliseconds(
                    &library,
                    &format!("{card}:host.command_max={command_max},flash.spread=0%{more}"),
                )
            };
            assert_eq!(with(",flash.read_rate=200MiB/s"), with(""), "{card}: read_rate has an effect");
            assert_eq!(with(",ftl.overwrite=convert"), with(""), "{card}: overwrite has an effect");
            assert_eq!(with(",ftl.map_page=4KiB"), with(""), "{card}: map_page has an effect");
        }
    }
}
