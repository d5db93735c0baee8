//! The shipped profiles and the library, and profiles that users add.

use flashlab_catalogue::library::{Library, LibraryError};
use flashlab_catalogue::profile::{Kind, Parts, Profile, Source};
use flashlab_sim::Model;
use insta::assert_snapshot;
use std::fs;
use std::path::{Path, PathBuf};

fn library() -> Library {
    Library::built_in().unwrap_or_else(|e| panic!("{e}"))
}

/// A temporary folder. Dropping it deletes the folder.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
    fn write(&self, file: &str, text: &str) {
        let path = self.0.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    /// Returns the message of `error`, with the path of the folder replaced.
    fn say(&self, error: &LibraryError) -> String {
        error.to_string().replace(&self.0.display().to_string(), "DIR")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn kind(name: &str) -> Kind {
    Kind::named(name).expect("a registered kind")
}

#[test]
fn the_library_contains_the_shipped_profiles() {
    let library = library();
    let names = |kind| library.of_kind(kind).map(|(name, _)| name).collect::<Vec<_>>();
    for card in
        ["kingston", "gigastone", "transcend", "suneast", "kioxia", "sandisk", "sandisk-512mb", "sandisk-2gb"]
    {
        assert!(names(kind("card")).contains(&format!("sd/{card}").as_str()), "{card}");
    }
    let hosts = [
        "at91rm9200",
        "emmc-hs200",
        "emmc-hs400",
        "qemu",
        "raspberry-pi-2",
        "raspberry-pi-3",
        "raspberry-pi-4",
        "raspberry-pi-5",
        "raspberry-pi-zero-2w",
    ];
    assert_eq!(names(kind("host")), hosts);
    assert_eq!(names(kind("emmc")), ["emmc/silicongo-spemmc-8gb", "emmc/typical-16gb"]);
    assert_eq!(names(kind("stick")), ["usb/usb2-1", "usb/usb3-1", "usb/usb3-2"]);
    assert_eq!(names(kind("pc")), ["linux-pc"]);
    assert_eq!(names(kind("usb-port")), ["raspberry-pi-4-usb"]);
    assert_eq!(names(kind("filesystem")), ["vfat"]);
}

#[test]
fn every_number_is_printed_as_its_profile_writes_it() {
    for (name, profile) in library().profiles() {
        for number in &profile.numbers {
            let written = &profile.text.text[number.span.clone()];
            let plain = written.trim_matches(['"', '[', ']']).replace("\", \"", "+").replace('"', "");
            let path = number.parameter.path;
            assert_eq!(number.value.to_string(), plain, "{name}: write {path} as on the left");
        }
    }
}

#[test]
fn numbers_of_a_profile_read_back_from_the_parts() {
    for (name, profile) in library().profiles() {
        let mut parts = Parts::blank();
        profile.fill(&mut parts);
        for parameter in profile.kind.parameters() {
            let number = profile.number(parameter.path).map(|n| n.value.clone());
            assert_eq!(parameter.get(&parts), number, "{name}: {}", parameter.path);
        }
    }
}

#[test]
fn shipped_profiles_are_consistent() {
    let inconsistencies: Vec<_> = library().inconsistencies().iter().map(ToString::to_string).collect();
    assert!(inconsistencies.is_empty(), "{}", inconsistencies.join("\n"));
}

#[test]
fn every_number_of_a_shipped_profile_has_a_source() {
    for (name, profile) in library().profiles() {
        assert!(!profile.is_draft(), "{name}");
        assert!(profile.numbers.iter().all(|n| !matches!(n.source, Source::SetByKey(_))), "{name}");
    }
}

#[test]
fn a_library_folder_adds_to_the_built_in_library() {
    let folder = Folder::new("adds");
    folder.write("profiles/sd/mine.toml", include_str!("../profiles/right.toml"));
    folder.write("profiles/README.md", "not a profile");
    folder.write("experiments/mine/experiment.toml", "kind = \"matrix\"");
    folder.write("experiments/mine/golden/table.txt", "1");
    let library = Library::open(&[&folder.0]).unwrap();
    assert_eq!(library.profile(kind("card"), "sd/mine").unwrap().title, "A card");
    let experiment = library.experiment("mine").unwrap();
    assert_eq!(experiment.file("experiment.toml"), Some(&b"kind = \"matrix\""[..]));
    assert_eq!(experiment.file("golden/table.txt"), Some(&b"1"[..]));
    assert!(library.profile(kind("card"), "sd/kingston").is_ok());
}

#[test]
fn a_library_folder_that_is_wrong_is_refused_with_its_path() {
    let say = |name: &str, files: &[(&str, &str)]| {
        let folder = Folder::new(name);
        for (file, text) in files {
            folder.write(file, text);
        }
        folder.say(&Library::open(&[&folder.0]).unwrap_err())
    };
    let right = include_str!("../profiles/right.toml");
    assert_snapshot!(
        [
            say("empty", &[]),
            say("twice", &[("profiles/sd/kingston.toml", right)]),
            say("misplaced", &[("profiles/host/x.toml", right)]),
            say("bad-name", &[("profiles/sd/My Card.toml", right)]),
            say("broken", &[("profiles/sd/x.toml", "kind = card")]),
            say("no-experiment", &[("experiments/x/README.md", "x")])
        ]
        .join("\n\n")
    );
}

#[test]
fn profiles_that_do_not_go_together_are_found() {
    let folder = Folder::new("inconsistencies");
    let right = include_str!("../profiles/right.toml")
        .replace("raspberry-pi-4", "raspberry-pi-9")
        .replace("raw write 1M/x", "a table/x");
    folder.write("profiles/sd/a.toml", &right);
    folder.write("profiles/sd/b.toml", &right.replace("\"3%\"", "\"4%\""));
    let inconsistencies: Vec<_> =
        Library::open(&[&folder.0]).unwrap().inconsistencies().iter().map(ToString::to_string).collect();
    assert_snapshot!(inconsistencies.join("\n").replace(&folder.0.display().to_string(), "DIR"));
}

#[test]
fn a_host_is_found_by_its_name_or_the_path_of_its_profile() {
    let library = library();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../profiles/host/raspberry-pi-4.toml");
    let by_name = library.host("raspberry-pi-4").unwrap().into_owned();
    assert_eq!(library.host(file).unwrap().numbers, by_name.numbers);
    // `host` finds hosts of all kinds: this one has USB ports.
    assert!(library.host("raspberry-pi-4-usb").is_ok());
    let unknown = library.host("raspbery-pi-4").unwrap_err().to_string();
    assert_eq!(unknown, "no host raspbery-pi-4; did you mean raspberry-pi-4? `flashlab devices` lists all");
    let card = concat!(env!("CARGO_MANIFEST_DIR"), "/../../profiles/sd/kingston.toml");
    let refused = library.host(card).unwrap_err().to_string();
    assert!(refused.ends_with("expected a host"), "{refused}");
    assert!(library.host("none.toml").is_err());
}

#[test]
fn an_unknown_name_is_refused_with_what_was_meant() {
    let library = library();
    assert_snapshot!(
        [
            library.profile(kind("card"), "sd/kingstom").unwrap_err().to_string(),
            library.profile(kind("card"), "kingston").unwrap_err().to_string(),
            library.profile(kind("host"), "raspberry").unwrap_err().to_string(),
            library.experiment("xyzzy").unwrap_err().to_string()
        ]
        .join("\n\n")
    );
}

#[test]
fn every_shipped_card_can_be_built_and_has_its_capacity() {
    let library = library();
    for (name, profile) in library.of_kind(kind("card")) {
        let device = flashlab_catalogue::device::Device::open(name, &library).unwrap();
        assert_eq!(device.build(1).geometry().capacity, device.capacity(), "{}", profile.title);
    }
}

#[test]
fn the_profile_of_a_filesystem_has_no_model_and_no_host() {
    let text = "kind = \"filesystem\"\nname = \"x\"\nmodel = \"y\"\nhost = \"z\"\n[vfat]\n[source]\n";
    let error = Profile::parse("x.toml", text.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("unknown key model") && error.contains("unknown key host"), "{error}");
}

/// Returns the text of a shipped profile.
fn shipped(name: &str) -> String {
    let library = library();
    let (_, profile) = library.profiles().find(|(known, _)| *known == name).unwrap();
    profile.text.text.clone()
}

#[test]
fn a_copy_whose_numbers_were_fitted_for_another_device_is_refused() {
    let folder = Folder::new("copied");
    let (card, host) = (shipped("sd/kingston"), shipped("host/raspberry-pi-4"));
    folder.write("mine.toml", &card.replace("Kingston Canvas Select Plus microSD", "My card"));
    folder.write("verbatim.toml", &card);
    folder.write("board.toml", &host.replace("Raspberry Pi 4 Model B", "My board"));
    let open = |argument: &str| {
        let argument = argument.replace("DIR", &folder.0.display().to_string());
        let opened = flashlab_catalogue::device::Device::open(&argument, &library());
        opened.map_err(|error| error.to_string().replace(&folder.0.display().to_string(), "DIR"))
    };
    let refused = open("DIR/mine.toml").unwrap_err();
    for words in [
        "DIR/mine.toml:14:10: flash.t_read is fitted on raw randread 4K/kingston, which belongs to sd/kingston",
        "t_read = ",
        "typical",
        "omit [source]",
    ] {
        assert!(refused.contains(words), "{words}: {refused}");
    }
    let refused = open("sd/sandisk:host=DIR/board.toml").unwrap_err();
    assert!(
        refused.contains("host.t_block is fitted on raw read 1M/kioxia, which belongs to host/"),
        "{refused}"
    );
    assert!(open("DIR/verbatim.toml").is_ok(), "it is the same card");
    assert!(open("sd/sandisk-2gb:host=raspberry-pi-4").is_ok(), "a host keeps its numbers with any card");
    let changed = card.replacen("t_prog = \"", "t_prog = \"9", 1);
    folder.write("changed.toml", &changed);
    assert!(
        open("DIR/changed.toml").unwrap_err().contains("flash.t_prog is fitted"),
        "its number is another one"
    );
}

#[test]
fn a_draft_without_sources_runs_and_is_marked_unsourced() {
    let folder = Folder::new("draft");
    let text = include_str!("../profiles/right.toml");
    let draft = &text[..text.find("[source]").unwrap()];
    folder.write("profiles/sd/draft.toml", draft);
    let library = Library::open(&[&folder.0]).unwrap();
    let device = flashlab_catalogue::device::Device::open("sd/draft", &library).unwrap();
    assert_eq!(
        (device.title.as_str(), device.label().as_str()),
        ("A card (unsourced)", "sd/draft (unsourced)")
    );
    assert_eq!(device.remarks(), ["unsourced: sd/draft is a draft without [source]"]);
    assert!(device.numbers().iter().any(|n| n.path == "flash.t_prog" && n.source == "unsourced"));
    let counted = flashlab_catalogue::device::free_parameters(&[&device], &[]);
    let unsourced =
        counted.iter().filter(|p| p.kind == flashlab_catalogue::provenance::ParameterKind::Unsourced);
    assert_eq!(unsourced.count(), 16, "every number of the draft");
    assert!(device.lacks_source());
    let listed = flashlab_catalogue::explain::Listing::all(&library).text(110);
    assert!(listed.lines().any(|l| l.contains("sd/draft") && l.contains("A card (unsourced)")), "{listed}");
    let explained = flashlab_catalogue::explain::explain("sd/draft", &library, 110, &|_| None).unwrap();
    assert!(explained.starts_with("sd/draft: A card (unsourced)") && explained.matches("\n    ").count() > 0);
}

#[test]
fn an_emmc_device_has_modes_of_its_own_and_no_registers_of_sd() {
    let library = library();
    let refused = |argument: &str| {
        flashlab_catalogue::device::Device::open(argument, &library).expect_err("impossible").to_string()
    };
    let uhs = refused("emmc/typical-16gb:card.modes=default-speed+ddr50");
    assert!(uhs.contains("hs52, ddr52, hs200 and hs400"), "{uhs}");
    assert!(refused("emmc/typical-16gb:card.ocr=40ff8000").contains("register of SD cards"));
    assert!(refused("emmc/typical-16gb:host.stack=commands").contains("SD cards only"));
    let on_card = refused("sd/kingston:card.modes=default-speed+hs200");
    assert!(on_card.contains("kind = \"emmc\""), "{on_card}");
    let small = refused("sd/samsung-pro-16:host.stack=commands");
    assert!(small.contains("ftl.small_max"), "{small}");
}

#[test]
fn errors_for_patterns_and_real_devices_name_the_command_that_accepts_them() {
    let library = library();
    for (name, command) in [("sd/*", "`flashlab compare`"), ("/dev/sdb", "`flashlab measure`")] {
        let unknown = library.device(name).unwrap_err().to_string();
        assert!(unknown.contains(command), "{unknown}");
    }
}
