//! Error messages of `serve` and `load`.

use super::tools::{Folder, flashlab};
use insta::assert_snapshot;

fn refused(arguments: &[&str]) -> String {
    let output = flashlab(arguments).output().expect("the binary is built");
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{arguments:?}: {printed}");
    format!("$ flashlab {}\n{printed}\n", arguments.join(" "))
}

#[test]
fn invalid_devices_are_refused_with_the_place() {
    let devices = [
        "",
        "=",
        ":",
        "memory",
        "memory:",
        "memory:size",
        "memory:size=",
        "memory:size=1q",
        "memory:size=1.5",
        "memory:size=99999999999999999999G",
        "memory:size=17000G",
        "memory:size=1G,size=2G",
        "memory:size=1G,",
        "memory:sise=1G",
        "memory:size=1G,pages=large",
        "file:",
        "file:no-such-file",
        "file:no-such-file,size=big",
        "file:no-such-file,direct=maybe",
        "a=memory:size=-1G",
        "sd/kingstone",
        "a=card.toml",
        "disk",
        "memory:size=1M+delay",
        "memory:size=1M+delay:read=5",
        "memory:size=1M+rate:iops=0",
        "memory:size=1M+readonly:x",
        "memory:size=1M+error:rate=2",
        "memory:size=1M+error:on=reed",
        "memory:size=1M+error:rules=no-such-file",
        "memory:size=1M+stats+overlay",
        "memory:size=1M+stats:all=yes",
        "memory:size=1M+log",
        "memory:size=1M+overlai",
        "sd/kingston+overlay",
    ];
    assert_snapshot!(devices.map(|device| refused(&["serve", device])).concat());
}

#[test]
fn a_recording_or_a_pid_file_never_replaces_a_device() {
    let folder = Folder::new("serve-outputs");
    let (disk, new) = (folder.path("disk.img"), folder.path("new.img"));
    std::fs::write(&disk, [7; 4096]).expect("the folder is writable");
    let [disk, new] = [&disk, &new].map(|path| path.to_str().expect("text").to_owned());
    let device = format!("file:{disk}");
    for option in ["--record", "-P"] {
        let printed = refused(&["serve", &device, option, &disk]);
        assert!(printed.contains("would replace this file"), "{printed}");
        let printed = refused(&["serve", &format!("file:{new},size=4KiB"), option, &new]);
        assert!(printed.contains("would replace this file"), "{printed}");
        let printed = refused(&["serve", &device, option, "-"]);
        assert!(printed.contains("cannot go to standard output"), "{printed}");
    }
    let pool = folder.path("pool.toml");
    std::fs::write(&pool, format!("[[member]]\ndevice = \"{device}\"\n")).expect("the folder is writable");
    let volume = format!("volume:{}", pool.display());
    let printed = refused(&["serve", &volume, "--record", &disk]);
    assert!(printed.contains("would replace this file"), "{printed}");
    assert_eq!(std::fs::read(&disk).expect("the file remains"), [7; 4096]);
    // A link to a device of the system remains after the service.
    std::os::unix::fs::symlink("/dev/null", folder.path("pid")).expect("a free name");
    let served = flashlab(&["serve", &device, "--run", "true", "-P", "pid"]).current_dir(&folder).status();
    assert!(served.expect("the binary is built").success() && folder.path("pid").is_symlink());
}

#[test]
fn invalid_options_are_refused() {
    let one = "memory:size=1M";
    assert_snapshot!(
        [
            &["serve", one, one][..],
            &["serve", one, "a=memory:size=1M", "a=memory:size=2M"],
            &["serve", one, "--unix", ""],
            &["serve", one, "--unix", "-", "--unix", "-"],
            &["serve", one, "--abstract", ""],
            &["serve", one, "--tcp", "70000"],
            &["serve", one, "-s", "--tcp", "1"],
            &["serve", one, "--connections", "0"],
            &["serve", one, "--handshake-time", "10"],
            &["serve", one, "--idle-time", "0s"],
            &["serve", one, "--min-rate", "fast"],
            &["serve", one, "--log", "loud"],
            &["load", "localhost"],
            &["load", "nbds://localhost"],
            &["load", "nbd://localhost", "--rw=randtrim"],
            &["load", "nbd://localhost", "--bs=0"],
            &["load", "nbd://localhost", "--bs=4q"],
            &["load", "nbd://localhost", "--bs=1g"],
            &["load", "nbd://localhost", "--iodepth=0"],
            &["load", "nbd://localhost", "--runtime=0"],
            &["load", "nbd://localhost", "--rwmixread=101"],
            &["load", "nbd://localhost", "--rate_iops=0"],
        ]
        .map(refused)
        .concat()
    );
}

/// The default ports differ, so that `--metrics HOST` does not take the port of `--tcp HOST`.
#[test]
fn the_example_of_an_address_has_the_default_port_of_its_option() {
    for (option, port) in [("--tcp", 10809), ("--metrics", 9809), ("--web", 8080)] {
        let printed = refused(&["serve", "sd/kingston", option, "localhost:70000"]);
        let example = format!(
            "{option} localhost:70000: invalid port value; expected PORT or HOST:PORT, for example 127.0.0.1:{port}\n"
        );
        assert!(printed.contains(&example), "{printed}");
    }
}

/// Options without a meaning behind USB are errors; none is silently ignored.
#[test]
fn options_without_meaning_for_usb_are_refused_by_name() {
    let options = [
        "--unix=a",
        "--abstract=a",
        "--tcp=1",
        "--vsock=1",
        "--stdin",
        "--tls=on",
        "--tls-certificates=a",
        "--record=a",
        "--exports=a",
        "--keep-every=1s",
        "--background-rate=1MiB",
        "--metrics=1",
        "--realtime",
        "--stats",
        "--simple-replies",
        "--connections=3",
        "--bytes-in-flight=1G",
        "--handshake-time=1s",
        "--min-rate=1KiB/s",
        "--stall-time=1s",
        "--idle-time=1s",
        "--idle-time-when-full=1s",
        "--grace=1s",
    ];
    for option in options {
        for usb in ["--usbredir=a", "--usbip=1"] {
            let printed = refused(&["serve", "sd/kingston", usb, option]);
            let name = option.split('=').next().expect("an option has a name");
            assert!(printed.contains(&format!("cannot be used with '{name}")), "{printed}");
        }
    }
    assert!(refused(&["serve", "sd/kingston", "--quirk", "busy=1s"]).contains("--quirk: over NBD a card"));
}

/// The program reads these files completely, so it refuses endless files when it opens them.
#[test]
fn files_without_an_end_are_refused() {
    for arguments in [
        &["serve", "--exports", "/dev/zero"][..],
        &["serve", "memory:size=1M+error:rules=/dev/zero"],
        &["serve", "memory:size=1M", "--tls=on", "--tls-certificates=endless"],
        &["bench", "sd/kingston", "--name=a", "--direct=1", "--read_iolog=/dev/zero"],
        &["bench", "sd/kingston", "/dev/zero"],
    ] {
        let folder = Folder::new("endless");
        std::fs::create_dir(folder.path("endless")).expect("the disk has room");
        for name in ["server-cert.pem", "server-key.pem"] {
            std::os::unix::fs::symlink("/dev/zero", folder.path("endless").join(name))
                .expect("the name is new");
        }
        let output = flashlab(arguments).current_dir(&folder).output().expect("the binary is built");
        let printed = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {printed}");
        assert!(printed.contains("expected a regular file or a pipe"), "{printed}");
    }
}

#[test]
fn system_errors_name_their_cause() {
    let folder = Folder::new("refused");
    let failed = |arguments: &[&str]| {
        let output = flashlab(arguments).current_dir(&folder).output().expect("the binary is built");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    std::fs::write(folder.path("file"), "not a socket").expect("the disk has room");
    assert!(
        failed(&["serve", "memory:size=1M", "--unix", "file"])
            .contains("file: the file exists and is not a socket")
    );
    let twice = failed(&["serve", "memory:size=1M", "--unix", "sock", "--unix", "sock"]);
    assert!(twice.contains("sock: another process listens there"), "{twice}");
    assert!(failed(&["ctl", "no/where", "stats"]).contains("no/where: no server listens there"));
    for option in ["--unix", "--control"] {
        let socket = |path: &str| failed(&["serve", "memory:size=1M", option, path]);
        assert!(socket("no/where").contains("no/where: its folder does not exist; create it first"));
        assert!(socket("file").contains("file: the file exists and is not a socket"));
        assert!(
            socket(&"x".repeat(200)).contains("the absolute path of a socket can have at most 107 bytes")
        );
    }
    let record = refused(&["serve", "memory:size=1M", "--record", "no/where"]);
    assert!(record.contains("no/where: there is no folder no; create it"), "{record}");
    assert!(failed(&["load", "nbd+unix:///?socket=no/where"]).contains("cannot connect: No such file"));
    let long = "x".repeat(200);
    assert!(failed(&["serve", "memory:size=1M", "--abstract", &long]).contains("@xxx"));
}
