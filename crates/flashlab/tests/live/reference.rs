//! `nbd-tester-client`, the tester of the reference implementation. Debian does not package it, so it is built by whoever
//! wants it from the sources of nbd and found on the PATH.

use crate::tools::{Folder, here, with};

#[test]
fn the_reference_tester_is_content() {
    if !here(&["nbd-tester-client"]) {
        return;
    }
    for options in ["", "-w", "-w -f", "-o"] {
        let folder = Folder::new("tester");
        // It wants a fresh export of 50 MiB for each run.
        let script = format!("nbd-tester-client -N tester -u $unixsocket {options}");
        with(&folder, &["tester=memory:size=50M"], &script);
    }
}
