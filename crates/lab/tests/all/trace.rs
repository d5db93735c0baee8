//! Traces of card initialisation: every shipped card with every host controller.

use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_lab::trace::{Controller, Kernel, Step, StepKind, Trace, bring_up, controller_of};

fn trace(card: &str, controller: Controller, kernel: Kernel) -> Trace {
    let device = Device::open(card, &Library::built_in().unwrap()).unwrap();
    bring_up(&device, controller, kernel, 1).unwrap()
}

fn every_card() -> Vec<Device> {
    let library = Library::built_in().unwrap();
    let cards = library.devices().map(|(name, _)| name).filter(|name| name.starts_with("sd/"));
    cards.map(|name| Device::open(name, &library).unwrap()).collect()
}

#[test]
fn every_card_is_brought_up_by_every_controller() {
    for device in every_card() {
        for controller in Controller::ALL {
            for kernel in Kernel::ALL {
                let trace = bring_up(&device, controller, kernel, 1).unwrap();
                let name = format!("{} {}", trace.card, trace.host);
                let found = trace.found.as_ref().unwrap_or_else(|| panic!("{name}"));
                assert!(found.clock_hz <= controller.f_max, "{name}");
                assert_eq!(found.width, if controller.four_lines { 4 } else { 1 }, "{name}");
                let unknown = |step: &&Step| {
                    step.asked.is_empty()
                        || matches!(&step.kind, StepKind::Command { name, error, .. }
                            if name.is_empty() || step.means.is_empty()
                                || error.is_some() && !matches!(step.command().as_deref(), Some("CMD5" | "CMD52")))
                };
                assert!(
                    !trace.steps.iter().any(|step| unknown(&step)),
                    "{name}: {:#?}",
                    trace.steps.iter().find(unknown)
                );
            }
        }
    }
}

#[test]
fn linux_6_12_sends_the_commands_of_6_1_and_linux_6_13_sets_ho2t() {
    for device in every_card() {
        for controller in Controller::ALL {
            let lines = |kernel| bring_up(&device, controller, kernel, 1).unwrap().linux;
            assert_eq!(lines(Kernel::V6_1), lines(Kernel::V6_12), "{} {}", device.argument, controller.name);
        }
    }
    let asked = |kernel| {
        let trace = trace("sd/kingston", Controller::SDHCI, kernel);
        let step = trace.steps.iter().rfind(|step| step.command().as_deref() == Some("ACMD41")).cloned();
        step.expect("the host initialises the card").asked
    };
    assert!(!asked(Kernel::V6_12).contains("above 2 TiB"));
    assert!(asked(Kernel::V6_13).contains("it supports cards above 2 TiB"));
}

#[test]
fn the_trace_notes_at_acmd41_that_software_time_is_not_modelled() {
    let trace = trace("sd/kingston", Controller::VUB300, Kernel::V6_1);
    let waiting =
        trace.steps.iter().find(|step| step.times > 1 && step.command().as_deref() == Some("ACMD41"));
    let means = &waiting.expect("the card takes its time").means;
    assert!(means.contains("Software time is not modelled"), "{means}");
}

#[test]
fn an_sduc_card_does_not_answer_a_kernel_that_cannot_address_it() {
    let card = "sd/kingston:capacity=4096GiB,map_unit=64MiB,rewrite_unit=64MiB,erase_block=64MiB";
    let trace_of = |kernel| trace(card, Controller::SDHCI, kernel);
    for kernel in [Kernel::V5_15, Kernel::V6_1, Kernel::V6_12] {
        let trace = trace_of(kernel);
        assert!(trace.found.is_none(), "{}", kernel.name());
        let asked = trace.steps.iter().rfind(|step| step.command().as_deref() == Some("ACMD41"));
        let means = &asked.expect("ACMD41 is sent").means;
        assert!(means.contains("does not set HO2T"), "{means}");
    }
    let trace = trace_of(Kernel::V6_13);
    assert_eq!(trace.found.expect("it is brought up").kind, "SDUC");
    let sent: Vec<String> = trace.steps.iter().filter_map(Step::command).collect();
    assert!(sent.iter().any(|command| command == "CMD22"), "{sent:?}");
}

#[test]
fn a_card_uses_the_fastest_mode_that_it_and_the_controller_support() {
    for (card, controller, mode) in [
        ("sd/kingston", Controller::SDHCI_UHS, "SDR104"),
        ("sd/kingston", Controller::BCM2711, "DDR50"),
        ("sd/kingston", Controller::SDHCI, "high speed"),
        ("sd/kingston", Controller::PL181, "default speed"),
        ("sd/sandisk-512mb", Controller::SDHCI_UHS, "default speed"),
        ("sd/sandisk-2gb", Controller::SDHCI_UHS, "high speed"),
    ] {
        let trace = trace(card, controller, Kernel::V6_1);
        assert_eq!(trace.found.unwrap().mode, mode, "{card} {}", controller.name);
    }
    assert_eq!(controller_of("raspberry-pi-4"), Controller::BCM2711);
}

#[test]
fn steps_follow_one_another_and_repetitions_are_counted() {
    let trace = trace("sd/kingston", Controller::SDHCI_UHS, Kernel::V6_1);
    for pair in trace.steps.windows(2) {
        assert!(pair[0].at_ns <= pair[1].at_ns, "{pair:#?}");
    }
    let waiting = trace
        .steps
        .iter()
        .find(|step| step.times > 1 && step.command().as_deref() == Some("ACMD41"))
        .unwrap();
    assert!(waiting.means.contains("still initialising"), "{waiting:#?}");
    let printed = trace.linux.iter().filter(|line| line.contains("starting CMD41")).count();
    let told = trace.steps.iter().filter(|step| step.command().as_deref() == Some("ACMD41"));
    assert_eq!(printed, told.map(|step| step.times as usize).sum::<usize>());
}

/// Tuning takes the time of 32 commands and 32 blocks of 64 bytes at 208 MHz. The preceding clock change takes no time.
#[test]
fn tuning_takes_its_own_time() {
    let trace = trace("sd/kingston", Controller::SDHCI_UHS, Kernel::V6_1);
    let place = trace.steps.iter().position(|step| step.asked.starts_with("CMD19")).unwrap();
    let bus = flashlab_sd::Bus { clock_hz: 208_000_000, width: 4, ddr: false };
    let each = bus.command() + bus.read(64);
    assert_eq!(trace.steps[place].duration_ns, each.as_ns() * 32, "{:#?}", trace.steps[place]);
    assert_eq!(trace.steps[place - 1].duration_ns, 0, "{:#?}", trace.steps[place - 1]);
}

#[test]
fn extension_registers_of_a_card_that_has_them_are_read() {
    let trace = trace("sd/kingston", Controller::SDHCI, Kernel::V6_1);
    assert!(trace.steps.iter().any(|step| step.command().as_deref() == Some("CMD48")));
    assert!(
        trace.linux.iter().any(|line| line.contains("<mmc0: starting CMD23 arg 00000008 flags 00000015>"))
    );
}

#[test]
fn a_transfer_has_either_a_block_count_or_a_stop_command() {
    for (controller, counts) in [(Controller::SDHCI, true), (Controller::VUB300, false)] {
        let trace = trace("sd/kingston", controller, Kernel::V6_1);
        let read = trace.steps.iter().find(|step| step.command().as_deref() == Some("CMD18")).unwrap();
        let StepKind::Command { count, stop, .. } = &read.kind else { panic!("{read:#?}") };
        assert_eq!((count.is_some(), stop.is_some()), (counts, !counts), "{}", controller.name);
        assert_eq!(
            (read.asked.contains("CMD23"), read.asked.contains("CMD12")),
            (counts, !counts),
            "{}",
            read.asked
        );
        let printed = |words: &str| trace.linux.iter().filter(|line| line.contains(words)).count() as u64;
        let stops = u64::from(!counts);
        assert_eq!(trace.commands, printed("starting CMD") + printed("retrying...") + stops);
    }
}

#[test]
fn commands_that_the_driver_of_a_controller_rejects_are_not_sent() {
    let trace = trace("sd/kingston", Controller::VUB300, Kernel::V6_1);
    let sent: Vec<String> = trace.steps.iter().filter_map(Step::command).collect();
    for index in ["CMD11", "CMD19", "CMD20", "CMD23", "CMD48", "CMD49"] {
        assert!(!sent.iter().any(|command| command == index), "{index}");
    }
}
