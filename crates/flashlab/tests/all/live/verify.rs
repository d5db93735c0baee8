//! `verify=` of `flashlab bench` and of fio: each program verifies data that the other has written.

use super::tools::{Folder, are_installed, flashlab};
use std::process::{Command, Output};

/// Methods that fio computes as their standards define them.
const METHODS: [&str; 11] = [
    "md5", "crc64", "crc32", "crc32c", "crc16", "crc7", "sha3-224", "sha3-256", "sha3-384", "sha3-512",
    "xxhash",
];

fn fio(folder: &Folder, options: &str) -> Output {
    let common = "--name=a --filename=disk.img --size=1m --bs=4k --ioengine=psync --verify_fatal=1";
    let words = common.split(' ').chain(options.split(' '));
    Command::new("fio").args(words).current_dir(folder).output().expect("fio is here")
}

fn bench(folder: &Folder, options: &str) -> Output {
    let words = ["bench", "file:disk.img,size=1M", "--name=a", "--direct=1", "--bs=4k"];
    let words: Vec<&str> = words.into_iter().chain(options.split(' ')).collect();
    flashlab(&words).current_dir(folder).output().expect("the program is built")
}

fn check_success(output: &Output, what: &str) {
    let text = [&output.stdout[..], &output.stderr].concat();
    assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&text));
}

#[test]
fn fio_and_bench_verify_each_others_data() {
    if !are_installed(&["fio"]) {
        return;
    }
    let methods = METHODS.map(|method| format!("--verify={method}"));
    let others = [
        "--verify=crc32c --verify_interval=512",
        "--verify_pattern=0xdeadbe%o",
        "--verify=pattern --verify_pattern=\"ab\"",
    ];
    for method in methods.iter().map(String::as_str).chain(others) {
        let folder = Folder::new("verify");
        check_success(&fio(&folder, &format!("--rw=write --do_verify=0 {method}")), method);
        check_success(&bench(&folder, &format!("--rw=read {method}")), method);
        check_success(&bench(&folder, &format!("--rw=randwrite {method}")), method);
        check_success(&fio(&folder, &format!("--rw=read {method}")), method);
        // fio and bench each detect a changed byte in the middle of a block.
        let path = folder.path("disk.img");
        let mut bytes = std::fs::read(&path).expect("the path exists");
        bytes[40_000] ^= 1;
        std::fs::write(&path, bytes).expect("the file can be written");
        for output in
            [bench(&folder, &format!("--rw=read {method}")), fio(&folder, &format!("--rw=read {method}"))]
        {
            assert!(!output.status.success(), "{method}: the damage was not detected");
        }
    }
}
