//! The header and the installed files: C99, C11, C++, symbols, pkg-config.

use crate::build::{STRICT, compile, expect_success, folder, output, prefix, run};
use std::path::Path;
use std::process::Command;

/// A program that is valid in C and in C++.
const PROGRAM: &str = "#include <flashlab.h>\n#include <flashlab.h>\n\
    int main(void) { return flashlab_version()[0] == 0 || flashlab_device_flush(NULL, NULL) != FLASHLAB_ERROR_NULL; }\n";

#[test]
fn the_header_compiles_without_warnings_as_c_and_as_cpp() {
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for (compiler, extension, standards) in
        [("cc", "c", &["c99", "c11", "c17"][..]), ("c++", "cpp", &["c++98", "c++11", "c++20"])]
    {
        if Command::new(compiler).arg("--version").output().is_err() {
            eprintln!("skipped: {compiler} is not installed");
            continue;
        }
        let source = temporary.join(format!("header.{extension}"));
        std::fs::write(&source, PROGRAM).unwrap();
        for standard in standards {
            let program = temporary.join(format!("header-{standard}"));
            let library = prefix().join("lib");
            let mut command = Command::new(compiler);
            command.args(STRICT).arg(format!("-std={standard}"));
            command.arg("-I").arg(prefix().join("include")).arg(&source);
            command.arg("-L").arg(&library).args(["-lflashlab", "-o"]).arg(&program);
            expect_success(command.arg(format!("-Wl,-rpath,{}", library.display())));
            run::<&str>(&program, &[]);
        }
    }
}

#[test]
fn the_shared_library_exports_the_functions_of_the_header_and_nothing_else() {
    let listing = expect_success(
        Command::new("nm").args(["-D", "--defined-only"]).arg(prefix().join("lib/libflashlab.so")),
    );
    let mut exported: Vec<&str> = listing.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    exported.sort_unstable();
    let header = std::fs::read_to_string(folder().join("include/flashlab.h")).unwrap();
    let mut declared: Vec<&str> = header
        .lines()
        .filter(|line| !line.starts_with([' ', '/']))
        .filter_map(|line| line.split_once('(')?.0.rsplit([' ', '*']).next())
        .filter(|name| name.starts_with("flashlab_"))
        .collect();
    declared.sort_unstable();
    assert!(declared.len() > 40, "{declared:?}");
    assert_eq!(exported, declared);
}

#[test]
fn programs_find_the_library_by_its_version() {
    let version = env!("CARGO_PKG_VERSION");
    let minor = version.rsplit_once('.').unwrap().0;
    let dynamic = expect_success(Command::new("readelf").arg("-d").arg(prefix().join("lib/libflashlab.so")));
    assert!(dynamic.contains(&format!("soname: [libflashlab.so.{minor}]")), "{dynamic}");
    assert!(prefix().join(format!("lib/libflashlab.so.{version}")).is_file());
}

#[test]
fn pkg_config_gives_the_options_for_both_libraries() {
    if Command::new("pkg-config").arg("--version").output().is_err() {
        eprintln!("skipped: pkg-config is not installed");
        return;
    }
    let options = |arguments: &[&str]| -> Vec<String> {
        let mut command = Command::new("pkg-config");
        command.env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig")).args(arguments).arg("flashlab");
        expect_success(&mut command).split_whitespace().map(str::to_owned).collect()
    };
    assert_eq!(options(&["--modversion"]), [env!("CARGO_PKG_VERSION")]);
    let source = folder().join("examples/power_cut.c");
    for (name, arguments) in
        [("shared", &["--cflags", "--libs"][..]), ("static", &["--cflags", "--libs", "--static"])]
    {
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("pkg-config-{name}"));
        let mut command = Command::new("cc");
        command.arg(&source).args(options(arguments)).arg("-o").arg(&program);
        if name == "static" {
            // Offers the linker no shared library.
            let only = Path::new(env!("CARGO_TARGET_TMPDIR")).join("only-static");
            std::fs::create_dir_all(&only).unwrap();
            let _ = std::fs::remove_file(only.join("libflashlab.a"));
            std::os::unix::fs::symlink(prefix().join("lib/libflashlab.a"), only.join("libflashlab.a"))
                .unwrap();
            command = Command::new("cc");
            let rest = options(arguments).into_iter().filter(|option| !option.starts_with("-L"));
            command.arg(&source).arg("-L").arg(&only).args(rest).arg("-o").arg(&program);
        }
        expect_success(&mut command);
        let mut run = Command::new(&program);
        if name == "shared" {
            run.env("LD_LIBRARY_PATH", prefix().join("lib"));
        }
        expect_success(&mut run);
    }
}

#[test]
fn the_examples_run() {
    run::<&str>(&compile("power_cut", &["examples/power_cut.c"], &[]), &[]);
    let options = ["-I", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c")];
    run::<&str>(&compile("spi_card", &["examples/spi_card.c", "tests/c/sd_spi.c"], &options), &[]);
}

#[test]
fn install_names_the_missing_build() {
    let empty = Path::new(env!("CARGO_TARGET_TMPDIR")).join("empty");
    std::fs::create_dir_all(&empty).unwrap();
    let output = output(Command::new(folder().join("install.sh")).args([&empty, &empty]));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("cargo build --profile dist -p flashlab-c"), "{told}");
}
