//! C programs that test the library.

use crate::build::{compile, compile_sanitized, expect_success, output, run};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// Returns true if the exhaustive suites run all cases.
fn is_full() -> bool {
    std::env::var_os("FLASHLAB_FULL").is_some()
}

#[test]
fn a_block_device_keeps_its_contract() {
    let program = compile_sanitized("device", &["tests/c/device.c"], &[]);
    assert_eq!(run::<&str>(&program, &[]), format!("flashlab {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn an_spi_driver_in_c_brings_cards_up_and_notices_their_faults() {
    let program = compile_sanitized("spi", &["tests/c/spi.c", "tests/c/sd_spi.c"], &[]);
    run::<&str>(&program, &[]);
}

#[test]
fn a_host_controller_in_c_brings_a_card_up() {
    let program = compile_sanitized("native", &["tests/c/native.c"], &[]);
    run::<&str>(&program, &[]);
}

#[test]
fn valgrind_finds_no_error_and_no_leak_in_the_library() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("skipped: valgrind is not installed");
        return;
    }
    // The other programs take minutes.
    let quick = 1;
    let programs = [
        ("valgrind-native", &["tests/c/native.c"][..]),
        ("valgrind-device", &["tests/c/device.c"]),
        ("valgrind-spi", &["tests/c/spi.c", "tests/c/sd_spi.c"]),
    ];
    for (name, sources) in &programs[..if is_full() { programs.len() } else { quick }] {
        let program = compile(name, sources, &["-g"]);
        let mut command = Command::new("valgrind");
        command.args([
            "--quiet",
            "--error-exitcode=99",
            "--leak-check=full",
            "--errors-for-leak-kinds=definite",
        ]);
        expect_success(command.arg(program));
    }
}

/// Compiles the power-cut test together with littlefs.
fn littlefs() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let sources = ["tests/c/littlefs_power.c", "tests/c/littlefs/lfs.c", "tests/c/littlefs/lfs_util.c"];
        let options = ["-O2", "-DLFS_NO_MALLOC", "-DLFS_NO_DEBUG", "-DLFS_NO_WARN", "-DLFS_NO_ERROR"];
        compile("littlefs_power", &sources, &options)
    })
}
/// Device, seed, and number of writes from one cut to the next in the quick form. Opening the NVMe drive takes half a
/// second in a debug build.
const LITTLEFS: [(&str, &str, &str); 3] =
    [("sd/kingston", "1", "1"), ("emmc/typical-16gb", "2", "4"), ("nvme/p32a80", "3", "60")];

#[test]
fn littlefs_keeps_its_promise_when_the_power_is_cut_at_every_write() {
    for (device, seed, step) in LITTLEFS {
        let cuts = run(littlefs(), &[device, seed, if is_full() { "1" } else { step }]);
        let cuts: u32 = cuts.trim_end().trim_end_matches(" cuts").parse().expect("a number of cuts");
        let step: u32 = if is_full() { 1 } else { step.parse().expect("a number") };
        assert!(cuts * step > 200, "the workload has {cuts} cuts on {device}");
    }
}

#[test]
fn a_port_of_littlefs_that_does_not_flush_loses_files() {
    for device in ["emmc/typical-16gb", "nvme/p32a80"] {
        let output = output(Command::new(littlefs()).args([device, "1", "300", "--no-flush"]));
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{device}");
        assert!(told.contains("the mount fails") || told.contains("is not generation"), "{device}: {told}");
    }
}
