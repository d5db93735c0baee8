//! `nbd-tester-client`, the tester of the reference implementation. Debian does not package it; `./test` builds it from
//! Debian's sources in `target/tester`. On other systems, the test looks for the program on the PATH, and for its
//! transactions in `tests/run` beside the program.

use super::tools::{Folder, are_installed, path_of, with};

#[test]
fn the_reference_tester_passes() {
    if !are_installed(&["nbd-tester-client"]) {
        return;
    }
    // Throughput of reads, of writes and of writes with flushes; requests that are too large; the handshake.
    for options in ["", "-w", "-w -f", "-o", "-h"] {
        run(options);
    }
}

#[test]
fn the_reference_testers_transactions_verify_their_data() {
    if !are_installed(&["nbd-tester-client"]) {
        return;
    }
    let program = path_of("nbd-tester-client").expect("the tester is installed");
    let transactions = program.with_file_name("tests").join("run");
    if !are_installed(&[transactions.join("integrity-test.tr").to_str().expect("a path of text")]) {
        return;
    }
    // 69,000 requests, 24 at a time, and 250 requests of up to 50 MB.
    for file in ["integrity-test.tr", "integrityhuge-test.tr"] {
        run(&format!("-i -t {}", transactions.join(file).display()));
    }
}

/// Runs the tester on a new export of 50 MiB, which each run needs.
fn run(options: &str) {
    let folder = Folder::new("tester");
    let script = format!(
        "nbd-tester-client -N tester -u $unixsocket {options} >log 2>&1 || {{ tail -c 2000 log; exit 1; }}"
    );
    with(&folder, &["tester=memory:size=50M"], &script);
}
