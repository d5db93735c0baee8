//! Devices, filesystems and explanations by name.

use flashlab_catalogue::device::{Device, Filesystem, State, StateError, free_parameters};
use flashlab_catalogue::explain::{Listing, explain};
use flashlab_catalogue::kind::CardInHost;
use flashlab_catalogue::library::Library;
use flashlab_catalogue::provenance::ParameterKind;
use flashlab_host::Machine;
use flashlab_sd::CardParameters;
use flashlab_sim::Duration;
use insta::assert_snapshot;
use proptest::prelude::*;
use std::sync::LazyLock;

/// The built-in library with the profiles of `tests/profiles/library`.
static LIBRARY: LazyLock<Library> = LazyLock::new(|| {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/profiles/library");
    Library::open(&[folder]).unwrap_or_else(|e| panic!("{e}"))
});

fn open(argument: &str) -> Device {
    Device::open(argument, &LIBRARY).unwrap_or_else(|e| panic!("{e}"))
}
fn parts(device: &Device) -> (&CardParameters, &Machine) {
    let CardInHost { card, host, .. } = device.hardware().expect("a card");
    (card, host)
}
fn wrong(argument: &str) -> String {
    Device::open(argument, &LIBRARY).unwrap_err().to_string().replace(env!("CARGO_MANIFEST_DIR"), "LAB")
}

#[test]
fn a_card_is_in_the_host_of_its_profile_unless_the_argument_names_another() {
    assert_eq!(open("test/one").host_name, "test-board");
    let device = open("test/one:host=slow-board");
    assert_eq!(device.host_name, "slow-board");
    assert_eq!(parts(&device).1.bus_clock_hz, Some(10_000_000));
}

#[test]
fn a_number_can_be_set_by_its_path_or_by_an_unambiguous_last_part() {
    let device = open(
        "test/one:flash.t_prog=250us,open_units=3,map_cache=64K,host.bus_clock=15MHz,card.modes=default-speed+sdr50",
    );
    assert_eq!(parts(&device).0.nand.t_prog, Duration::from_us(250));
    assert_eq!(parts(&device).0.mapping.open_units, 3);
    assert_eq!(parts(&device).0.mapping.map_cache, Some(64 << 10));
    assert_eq!(parts(&device).1.bus_clock_hz, Some(15_000_000));
    assert_eq!(
        device.overrides(),
        [
            ("card.modes", "default-speed+sdr50".to_owned()),
            ("flash.t_prog", "250us".to_owned()),
            ("ftl.open_units", "3".to_owned()),
            ("ftl.map_cache", "64KiB".to_owned()),
            ("host.bus_clock", "15MHz".to_owned()),
        ]
    );
    let t_prog = device.numbers().into_iter().find(|n| n.path == "flash.t_prog").unwrap();
    assert!(t_prog.source.starts_with("set by hand: test/one:flash.t_prog"), "{}", t_prog.source);
}

#[test]
fn signal_delays_are_stored_in_picoseconds() {
    let device = open("test/one:card.t_output=11.4ns");
    let card: &CardInHost = device.hardware().expect("a card");
    assert_eq!(card.identity.t_output_ps, 11_400);
    assert!(wrong("test/one:card.t_output=14001ps").contains("14ns"), "the error states the upper limit");
}

#[test]
fn none_removes_an_optional_parameter() {
    assert_eq!(parts(&open("test/one")).0.mapping.map_cache, Some(256 << 10));
    let device = open("test/one:map_cache=none");
    assert_eq!(parts(&device).0.mapping.map_cache, None);
    assert_eq!(device.overrides(), [("ftl.map_cache", "none".to_owned())]);
}

#[test]
fn a_pattern_gives_devices_sorted_by_name() {
    let devices = Device::open_all("test/t*:flash.t_prog=1ms", &LIBRARY).unwrap();
    let arguments: Vec<_> = devices.iter().map(|d| d.argument.as_str()).collect();
    assert_eq!(arguments, ["test/three:flash.t_prog=1ms", "test/two:flash.t_prog=1ms"]);
    assert_eq!(Device::open_all("test/one", &LIBRARY).unwrap().len(), 1);
    assert_snapshot!(Device::open_all("tape/*", &LIBRARY).unwrap_err());
}

#[test]
fn a_pattern_leaves_out_devices_without_timing() {
    let library = Library::built_in().unwrap();
    let names = |pattern: &str| -> Vec<String> {
        let devices = Device::open_all(pattern, &library).unwrap();
        devices.into_iter().map(|device| device.name).collect()
    };
    let cards = names("sd/*:capacity=64MiB");
    assert!(cards.contains(&"sd/kingston".to_owned()));
    let untimed = Device::untimed("sd/*", &library).unwrap();
    assert_eq!(untimed, ["sd/qemu-sdsc", "sd/vlab-sdhc"]);
    assert!(!cards.iter().any(|card| untimed.contains(card)), "{cards:?}");
    // Devices without timing are included if the argument names one, or if a pattern matches no other devices.
    assert_eq!(names("sd/qemu-sdsc"), ["sd/qemu-sdsc"]);
    assert_eq!(names("sd/qemu*"), ["sd/qemu-sdsc"]);
    assert!(Device::untimed("sd/qemu*", &library).unwrap().is_empty());
}

#[test]
fn a_device_or_host_can_be_a_file() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/profiles/library/profiles");
    let device = open(&format!("{folder}/test/one.toml:flash.t_prog=1ms,host={folder}/host/slow-board.toml"));
    assert_eq!(parts(&device).1.bus_clock_hz, Some(10_000_000));
    assert_eq!(parts(&device).0.nand.t_prog, Duration::from_ms(1));
    for argument in ["test/one:host=", "test/one:flash.t_prog=1ms,host=", "FOLDER/test/one.toml:host="] {
        let argument = argument.replace("FOLDER", folder);
        let device = open(&format!("{argument}{folder}/host/slow-board.toml"));
        assert_eq!(parts(&device).1.bus_clock_hz, Some(10_000_000), "{argument}");
    }
    let device = Device::open_in(folder.as_ref(), "test/one.toml:host=host/slow-board.toml", &LIBRARY);
    let device = device.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((&*device.name, &*device.host_name), ("test/one.toml", "host/slow-board.toml"));
    assert!(device.sourced_numbers().iter().all(|n| !n.profile.contains(folder)), "names are as written");
    let say = wrong(&format!("{folder}/host/slow-board.toml"));
    assert!(say.contains("describes a host; expected a card"), "{say}");
    assert_snapshot!(wrong("no/such.toml"));
}

#[test]
fn a_wrong_argument_is_refused_with_its_column() {
    assert_snapshot!(
        [
            wrong("test/won"),
            wrong("test/one:flash.t_porg=250us"),
            wrong("test/one:flash.t_prog=250"),
            wrong("test/one:flash.t_prog"),
            wrong("test/one:"),
            wrong(":flash.t_prog=1us"),
            wrong("test/one:flash.t_prog=250us,t_prog=251us"),
            wrong("test/one:modes=ddr50"),
            wrong("test/one:host=slow-bored"),
            wrong("test/one:align=4M"),
            wrong("test/one:t_prog=none"),
            wrong("test/one:t_prog=11s"),
            wrong("test/one:t_prog=0us"),
            wrong("test/one:flash.page=16KiB,open_units=3")
        ]
        .join("\n\n")
    );
}

#[test]
fn a_card_too_large_to_simulate_is_refused_before_it_is_built() {
    assert_snapshot!(
        [
            wrong("test/one:capacity=131072GiB"),
            wrong("test/one:capacity=131072GiB,map_unit=4M,rewrite_unit=4M")
        ]
        .join("\n\n")
    );
}

#[test]
fn a_state_with_extra_bytes_at_its_end_is_refused() {
    let device = open("test/one");
    let saved = device.build_without_host(1).save().expect("a card has a state");
    let check = |saved| {
        State::of(&device, 1, Duration::ZERO, Some(saved)).expect("a state").check_compatible(&device)
    };
    assert_eq!(check(saved.clone()), Ok(()));
    let longer = check([saved, vec![7]].concat()).expect_err("a card does not read it");
    assert!(matches!(longer, StateError::Rejected { .. }), "{longer}");
}

#[test]
fn a_filesystem_has_the_same_syntax() {
    let vfat = Filesystem::open("vfat:align=4M,cluster=32KiB", &LIBRARY).unwrap();
    assert_eq!(vfat.parameters.get("vfat.align"), 4 << 20);
    assert_eq!(vfat.parameters.get("vfat.cluster"), 32 << 10);
    let wrong = |argument| Filesystem::open(argument, &LIBRARY).unwrap_err().to_string();
    assert_snapshot!([wrong("ext4"), wrong("vfat:flash.t_prog=1us"), wrong("vfat:cluster=3K")].join("\n\n"));
}

#[test]
fn free_parameters_are_counted_once() {
    let devices = Device::open_all("test/*", &LIBRARY).unwrap();
    let vfat = Filesystem::open("vfat", &LIBRARY).unwrap();
    let free = free_parameters(&devices.iter().collect::<Vec<_>>(), &[]);
    let lines: Vec<_> = free
        .iter()
        .map(|p| format!("{} = {} {:?} {}", p.path, p.value, p.kind, p.fitted_on.join(", ")))
        .collect();
    assert_snapshot!(lines.join("\n"));
    let with_vfat = free_parameters(&devices.iter().collect::<Vec<_>>(), &[&vfat, &vfat]);
    let added = vfat.sourced_numbers().iter().filter(|h| {
        let source = h.number.source.to_string();
        source.starts_with("fitted") || source.starts_with("typical")
    });
    assert_eq!(with_vfat.len(), free.len() + added.count());
}

#[test]
fn numbers_that_an_argument_sets_count_as_set_by_hand() {
    let variants: Vec<_> =
        ["512B", "32KiB"].map(|max| open(&format!("test/one:t_prog=1ms,command_max={max}"))).into();
    let free = free_parameters(&variants.iter().collect::<Vec<_>>(), &[]);
    let by_hand: Vec<_> = free.iter().filter(|p| p.kind == ParameterKind::SetByKey).collect();
    let named: Vec<_> = by_hand.iter().map(|p| (p.path.as_str(), p.value.as_str())).collect();
    let expected = [
        ("test/one:flash.t_prog", "1ms"),
        ("host/test-board:host.command_max", "512B"),
        ("host/test-board:host.command_max", "32KiB"),
    ];
    assert_eq!(named, expected);
    assert!(free.iter().all(|p| p.kind == ParameterKind::SetByKey || !p.path.ends_with("t_prog")));
    assert_eq!(
        variants[0].remarks(),
        ["set by hand: flash.t_prog = 1ms, host.command_max = 512B"],
        "the remarks list these numbers"
    );
    let taken_away = open("test/one:map_cache=none");
    let free = free_parameters(&[&taken_away], &[]);
    assert!(
        free.iter().any(|p| p.kind == ParameterKind::SetByKey && p.value == "none"),
        "a removed number counts as set by hand"
    );
    let free = free_parameters(&variants.iter().collect::<Vec<_>>(), &[]);
    assert!(free.iter().any(|p| p.path == "test/one:flash.t_read" && p.kind == ParameterKind::Fitted));
}

#[test]
fn explanations() {
    let none = |_: &str| None;
    let say = |name| explain(name, &LIBRARY, 110, &none).unwrap_or_else(|e| panic!("{e}"));
    assert_snapshot!([say("test/one:t_prog=1ms"), say("slow-board"), say("read-modify-write")].join("\n\n"));
    let t_prog = say("t_prog");
    assert!(t_prog.starts_with(&say("flash.t_prog")) && t_prog.contains("nand.t_prog"), "{t_prog}");
    assert!(t_prog.contains("test/one"), "{t_prog}");
    let modes = say("modes");
    assert!(modes.contains("card.modes") && modes.contains("host.modes"), "{modes}");
    assert_eq!(
        explain("bs", &LIBRARY, 110, &|name| (name == "bs").then(|| "block size".to_owned())).unwrap(),
        "block size"
    );
    let wrong = |name| explain(name, &LIBRARY, 110, &none).unwrap_err().to_string();
    assert_snapshot!(
        [wrong("test/won"), wrong("t_porg"), wrong("xyzzy"), wrong("test/one:t_porg=1")].join("\n\n")
    );
}

#[test]
fn every_shipped_parameter_and_device_can_be_explained() {
    let library = Library::built_in().unwrap();
    for name in library.profiles().map(|(name, _)| name) {
        assert!(explain(name, &library, 110, &|_| None).is_ok(), "{name}");
        let plain = name.trim_start_matches("host/").trim_start_matches("fs/");
        assert!(Listing::all(&library).text(110).contains(plain), "{name}");
    }
    for parameter in flashlab_catalogue::profile::Parameter::all() {
        for width in [60, 110] {
            let text = explain(parameter.path, &library, width, &|_| None).unwrap();
            assert!(text.contains(parameter.path), "{text}");
            // A setting is a single word, which is not wrapped, so that users can copy it.
            let fits = |line: &str| line.chars().count() <= width || !line.trim().contains(' ');
            assert!(text.lines().all(fits), "{width}: {text}");
        }
    }
}

#[test]
fn the_listing_of_devices() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/profiles/library");
    let library = Library::open(&[folder]).unwrap();
    let text = Listing::all(&library).text(110);
    let own: Vec<_> = text
        .lines()
        .filter(|l| {
            !["  sd/", "  nvme/", "  usb/", "emmc", "raspberry", "at91", "linux-pc"]
                .iter()
                .any(|shipped| l.contains(shipped))
        })
        .collect();
    assert_snapshot!(own.join("\n"));
}

proptest! {
    #[test]
    fn no_argument_panics(text: String, keys in "test/one:(host|flash.|t_prog|page|map_cache|modes|=|,|:|[0-9]|us|KiB|none|\u{e9}){0,12}") {
        let _ = Device::open_all(&text, &LIBRARY).map_err(|e| e.to_string());
        let _ = Device::open_all(&keys, &LIBRARY).map_err(|e| e.to_string());
        let _ = Filesystem::open(&text, &LIBRARY).map_err(|e| e.to_string());
        let _ = explain(&keys, &LIBRARY, 60, &|_| None).map_err(|e| e.to_string());
    }

    #[test]
    fn any_value_is_set_or_refused(
        parameter in prop::sample::select(flashlab_catalogue::profile::Parameter::all().iter().map(|p| p.path).collect::<Vec<_>>()),
        number in any::<u64>(), unit in "(ns|us|ms|s|B|KiB|MiB|GiB|K|M|G|Hz|kHz|MHz|B/s|MiB/s|%|)",
    ) {
        let _ = Device::open(&format!("test/one:{parameter}={number}{unit}"), &LIBRARY).map_err(|e| e.to_string());
    }
}
