//! nbdcopy, qemu-io and fio write data to a served device and read it back.

use super::tools::{Folder, are_installed, with};

#[test]
fn nbdcopy_copies_both_ways_without_differences() {
    if !are_installed(&["nbdcopy", "cmp"]) {
        return;
    }
    let folder = Folder::new("nbdcopy");
    folder.noise("there.img", 24 << 20);
    let script = "truncate -s 40M there.img
        nbdcopy there.img $uri; nbdcopy $uri back.img; cmp there.img back.img
        nbdcopy --connections=1 --synchronous $uri once.img; cmp there.img once.img
        # Over a socket that nbdcopy hands over, as a service manager would.
        nbdcopy -- [ \"$PROGRAM\" serve memory:size=40M ] null:";
    with(&folder, &["memory:size=40M"], &script.replace("$PROGRAM", env!("CARGO_BIN_EXE_flashlab")));
    with(
        &folder,
        &["memory:size=40M", "--simple-replies"],
        &script.replace("$PROGRAM", env!("CARGO_BIN_EXE_flashlab")),
    );
}

#[test]
fn nbdcopy_copies_from_one_export_to_another() {
    if !are_installed(&["nbdcopy", "qemu-img"]) {
        return;
    }
    let folder = Folder::new("nbdcopy-exports");
    folder.noise("there.img", 8 << 20);
    let script = "other=\"nbd+unix:///other?socket=$unixsocket\"
        nbdcopy there.img $uri; nbdcopy $uri $other; qemu-img compare -f raw -F raw $uri $other";
    with(&folder, &["memory:size=8M", "other=memory:size=8M"], script);
}

#[test]
fn qemu_io_reads_writes_zeroes_discards_and_flushes() {
    if !are_installed(&["qemu-io"]) {
        return;
    }
    let folder = Folder::new("qemu-io");
    let script = "qemu-io -f raw -t none \\
        -c 'write -P 5 0 1M' -c 'write -f -P 6 4k 4k' -c 'write -z 8k 4k' -c 'write -z -u 12k 4k' \\
        -c 'discard 64k 64k' -c flush \\
        -c 'read -P 5 0 4k' -c 'read -P 6 4k 4k' -c 'read -P 0 8k 8k' -c 'read -P 5 16k 48k' \\
        -c 'read -P 0 64k 64k' -c 'read -P 5 128k 896k' -c 'aio_write -P 9 1M 1M' -c 'aio_read -P 5 128k 128k' \\
        -c aio_flush -c 'read -P 9 1M 1M' $uri";
    let printed = with(&folder, &["memory:size=4M"], script);
    assert!(!printed.contains("Pattern verification failed"), "{printed}");
}

#[test]
fn fio_reads_every_block_back_as_written() {
    if !are_installed(&["fio"]) {
        return;
    }
    let folder = Folder::new("fio");
    for (rw, options) in [
        ("randwrite", "--bs=4k --iodepth=32"),
        ("write", "--bs=128k --iodepth=4"),
        ("randrw", "--bsrange=512-64k --iodepth=16 --fsync=100"),
        ("randwrite", "--bs=4k --iodepth=8 --numjobs=3 --offset_increment=5m"),
    ] {
        // fio's nbd engine passes one request at a time to libnbd, as many programs do.
        let script = format!(
            "fio --enghelp | grep -q nbd || exit 77
             fio --name=a --ioengine=nbd --uri=$uri --rw={rw} --size=5m {options} --verify=crc32c --minimal"
        );
        let output = super::tools::attempt(&folder, &["memory:size=16M"], &script);
        if output.status.code() == Some(77) {
            super::tools::skipped("this fio has no nbd engine");
            return;
        }
        assert!(output.status.success(), "{rw} {options}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
