//! Compares a card that is driven by commands with the same card driven by block requests, using profiles, fio jobs and
//! hosts as a user does.

use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_fio::cmdline::Invocation;
use flashlab_fio::job::Direction;
use flashlab_fio::loader::NoFiles;
use flashlab_fio::stats::Settings;
use flashlab_lab::bench::Bench;

/// Returns the mean latency of each job in ns, and the number of transfers that the host counted.
fn run(device: &str, stack: &str, jobs: &[&str]) -> (Vec<f64>, u64) {
    let device =
        Device::open(&format!("{device},host.stack={stack}"), &Library::built_in().unwrap()).unwrap();
    let mut bench = Bench::with(&device, 1);
    let mut means = Vec::new();
    for job in jobs {
        let words: Vec<&str> = job.split_whitespace().collect();
        let jobs = Invocation::parse(&words, &NoFiles).unwrap().jobs;
        let statistics = bench.run(&jobs, &Settings::default()).unwrap();
        let of = |direction| statistics.job(0).direction(direction).lat().mean_ns();
        means.push(of(Direction::Read) + of(Direction::Write));
    }
    let counters = bench.counters();
    let sent = counters.get("command_count");
    assert!(
        stack == "blocks" || counters.get("transfer_count") == sent,
        "each is one data command on the bus"
    );
    (means, sent)
}

const JOBS: [&str; 4] = [
    "--name=w --filename=x --rw=write --bs=1m --size=4m --direct=1",
    "--name=r --filename=x --rw=read --bs=1m --size=4m --direct=1",
    "--name=s --filename=x --rw=write --bs=4k --size=256k --direct=1",
    "--name=q --filename=x --rw=randread --bs=4k --size=4m --number_ios=200 --direct=1",
];

#[test]
fn at91_is_the_same_by_commands_and_by_blocks() {
    for card in ["sd/sandisk-512mb", "sd/sandisk-2gb"] {
        for keys in [
            "command_max=512B",
            "command_max=32KiB",
            "command_max=32KiB,host.bus_clock=15MHz,host.bus_width=4",
        ] {
            let device = format!("{card}:host=at91rm9200,host.{keys}");
            assert_eq!(run(&device, "commands", &JOBS), run(&device, "blocks", &JOBS), "{device}");
        }
    }
}

/// The translation layer receives a write without CMD23 page by page, so it may copy more of the overwritten data. The
/// mean latencies of the two stacks may therefore differ by up to 5 %.
#[test]
fn cards_on_a_raspberry_pi_are_nearly_the_same_by_commands_and_by_blocks() {
    for card in ["sd/kingston", "sd/sandisk", "sd/transcend"] {
        let device = format!("{card}:host=raspberry-pi-4");
        let (commands, sent) = run(&device, "commands", &JOBS);
        let (blocks, counted) = run(&device, "blocks", &JOBS);
        assert_eq!(sent, counted);
        for (job, (ours, theirs)) in JOBS.iter().zip(commands.iter().zip(&blocks)) {
            assert!(
                (ours / theirs - 1.0).abs() < 0.05,
                "{device} {job}: {ours} by commands, {theirs} by blocks"
            );
        }
    }
}

/// The clock of the host limits the bus in addition to the bus speed mode, in both stacks.
#[test]
fn a_fast_host_does_not_drive_a_slow_card_beyond_its_mode() {
    let in_host = |card: &str, clock: &str| {
        format!(
            "sd/kingston:card.modes={card},host.modes=sdr104+high-speed+default-speed,host.bus_clock={clock}"
        )
    };
    for stack in ["blocks", "commands"] {
        for card in ["default-speed+high-speed", "default-speed"] {
            let at_limit = run(&in_host(card, "50MHz"), stack, &JOBS);
            assert_eq!(run(&in_host(card, "150MHz"), stack, &JOBS), at_limit, "{card} by {stack}");
        }
        let uhs = "default-speed+high-speed+sdr50+sdr104";
        assert_ne!(
            run(&in_host(uhs, "150MHz"), stack, &JOBS),
            run(&in_host(uhs, "50MHz"), stack, &JOBS),
            "a card that knows SDR104 is clocked by the host, by {stack}"
        );
    }
}
