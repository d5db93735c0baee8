//! TLS with third-party clients: libnbd (GnuTLS) and QEMU.

use super::certificates;
use super::tools::{Folder, are_installed, attempt, flashlab, with};

const SECURE: [&str; 5] =
    ["memory:size=32M", "--tls=require", "--tls-certificates=certificates", "--tls-verify-peer", "--unix=-"];

fn folder(name: &str) -> Folder {
    let folder = Folder::new(name);
    certificates::make(&folder.path("certificates"));
    folder
}

#[test]
fn nbdinfo_and_nbdcopy_speak_tls_both_ways() {
    if !are_installed(&["nbdinfo", "nbdcopy"]) {
        return;
    }
    let folder = folder("tls-libnbd");
    folder.noise("a.img", 32 << 20);
    let script = "case $uri in nbds+unix:*tls-certificates=*) ;; *) echo $uri; exit 1;; esac
        nbdinfo $uri; nbdcopy a.img $uri; nbdcopy $uri b.img; cmp a.img b.img";
    let told = with(&folder, &SECURE, script);
    assert!(told.contains("newstyle-fixed with TLS"), "{told}");
}

#[test]
fn our_load_speaks_tls_to_our_server_and_to_nbdkit() {
    let folder = folder("tls-load");
    let load = |uri: &str| {
        let program = env!("CARGO_BIN_EXE_flashlab");
        format!("{program} load {uri} --rw=randrw --bs=4k --iodepth=16 --connections=2 --verify")
    };
    with(&folder, &SECURE, &load("\"$uri\""));
    if !are_installed(&["nbdkit"]) {
        return;
    }
    let uri = "\"nbds+unix:///?socket=$unixsocket&tls-certificates=certificates\"";
    let output = std::process::Command::new("nbdkit")
        .args(["-U", "-", "--tls=require", "--tls-verify-peer", "--tls-certificates=certificates"])
        .args(["memory", "32M", "--run", &load(uri)])
        .current_dir(&folder)
        .output()
        .expect("the program is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn qemu_img_speaks_tls() {
    if !are_installed(&["qemu-img"]) {
        return;
    }
    let folder = folder("tls-qemu");
    let script = "qemu-img info --object tls-creds-x509,id=t,dir=certificates,endpoint=client \
        --image-opts driver=nbd,path=$unixsocket,tls-creds=t,tls-hostname=localhost";
    let told = with(&folder, &SECURE, script);
    assert!(told.contains("32 MiB"), "{told}");
}

#[test]
fn clients_without_tls_or_certificate_are_refused() {
    if !are_installed(&["nbdinfo"]) {
        return;
    }
    let folder = folder("tls-refused");
    let failed = |script: &str| !attempt(&folder, &SECURE, script).status.success();
    assert!(failed("nbdinfo \"nbd+unix:///?socket=$unixsocket\""));
    certificates::make(&folder.path("others"));
    assert!(failed("nbdinfo \"nbds+unix:///?socket=$unixsocket&tls-certificates=others\""));
    with(&folder, &SECURE, "nbdinfo \"$uri\"");
}

#[test]
fn options_without_certificates_are_refused() {
    let folder = Folder::new("tls-options");
    let refused = |arguments: &[&str]| {
        let words = [&["serve", "memory:size=1M"], arguments].concat();
        let output = flashlab(&words).current_dir(&folder).output().expect("the binary is built");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(refused(&["--tls", "require"]).contains("--tls-certificates"));
    assert!(refused(&["--tls-verify-peer"]).contains("--tls-certificates"));
    assert!(refused(&["--tls-certificates", "nowhere"]).contains("nowhere/server-cert.pem"));
}
