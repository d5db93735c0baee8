//! A rescue stick from end to end: composed from its recipe, served as a USB stick, found by U-Boot, booted into Linux.
//! U-Boot and the kernel run in QEMU in software emulation, for about half a minute.
//!
//! U-Boot comes from Debian's package u-boot-qemu, the kernel from `target/guest-mmc`. In this QEMU, a second in
//! U-Boot takes less than half a second of real time.

use super::guest::kernel_in;
use super::tools::{Folder, are_installed, flashlab, skipped, with};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

const ROM: &str = "/usr/lib/u-boot/qemu-x86/u-boot.rom";
/// Longest wait for a text; only a hang reaches this limit.
const LIMIT: Duration = Duration::from_secs(600);

/// A machine in QEMU with its serial console.
struct Console {
    qemu: Child,
    output: Receiver<Vec<u8>>,
    /// Output that no call has consumed.
    left: Vec<u8>,
    printed: Vec<u8>,
}

impl Console {
    /// Starts a machine with U-Boot and the stick behind a usbredir socket.
    fn start(socket: &Path) -> Console {
        let stick = format!("socket,path={},id=stick", socket.display());
        let mut qemu = Command::new("qemu-system-x86_64")
            .args(["-accel", "tcg", "-m", "512", "-nodefaults", "-no-reboot", "-display", "none"])
            .args(["-serial", "stdio", "-bios", ROM, "-chardev", &stick])
            .args(["-device", "usb-ehci", "-device", "usb-redir,chardev=stick"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("QEMU is installed");
        let mut from = qemu.stdout.take().expect("the stream is piped");
        let (send, output) = channel();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                if send.send(buffer[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Console { qemu, output, left: Vec::new(), printed: Vec::new() }
    }

    /// Types a line.
    fn line(&mut self, text: &str) {
        let input = self.qemu.stdin.as_mut().expect("the stream is piped");
        input.write_all(text.as_bytes()).and_then(|()| input.write_all(b"\r")).expect("QEMU runs");
    }

    /// Waits for a text, and returns the output before it.
    fn expect(&mut self, text: &str) -> String {
        loop {
            let found = self.left.windows(text.len()).position(|window| window == text.as_bytes());
            if let Some(at) = found {
                let before = self.left.drain(..at + text.len()).collect::<Vec<u8>>();
                return String::from_utf8_lossy(&before[..at]).into_owned();
            }
            match self.output.recv_timeout(LIMIT) {
                Ok(bytes) => {
                    self.printed.extend(&bytes);
                    self.left.extend(bytes);
                }
                Err(_) => {
                    panic!("no {text:?} on the console:\n{}", String::from_utf8_lossy(&self.printed))
                }
            }
        }
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

/// Stops a server when it is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Composes the stick in `folder` as the guide says. Returns false if a program is missing.
fn compose(folder: &Folder) -> bool {
    let tools =
        ["qemu-system-x86_64", "busybox", "mksquashfs", "mke2fs", "mkfs.vfat", "mcopy", "debugfs", "sfdisk"];
    if !are_installed(&tools) {
        return false;
    }
    let Some((_, modules)) = kernel_in("guest-mmc", "usb-storage.ko") else {
        return skipped("no Debian kernel with usb-storage in target/guest-mmc or /boot");
    };
    if !Path::new(ROM).exists() {
        return skipped("u-boot-qemu is not installed");
    }
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let Some(kernel) = bootable(&modules) else { return skipped("no compressed kernel in target/guest-mmc") };
    std::fs::copy(docs.join("rescue-stick-pc.toml"), folder.path("rescue-stick-pc.toml"))
        .expect("the path exists");
    let made = Command::new("sh")
        .arg(docs.join("rescue-stick-pc.sh"))
        .args([Path::new("."), &kernel, &modules])
        .current_dir(folder)
        .output()
        .expect("there is a shell");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let composed = flashlab(&["image", "compose", "rescue-stick-pc.toml", "--to", "stick.img"])
        .current_dir(folder)
        .output()
        .expect("the program is built");
    assert!(composed.status.success(), "{}", String::from_utf8_lossy(&composed.stderr));
    true
}

/// Returns the kernel beside its modules in the form that U-Boot loads; [`kernel_in`] prefers the decompressed one.
fn bootable(modules: &Path) -> Option<PathBuf> {
    let boot = modules.ancestors().map(|folder| folder.join("boot")).find(|folder| folder.is_dir())?;
    let mut kernels: Vec<PathBuf> =
        std::fs::read_dir(boot).ok()?.flatten().map(|entry| entry.path()).collect();
    kernels.sort();
    kernels
        .into_iter()
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-")))
}

const LOAD: &str = "load usb 0:1 1000000 vmlinuz; load usb 0:1 6000000 initrd.img";
const BOOT: &str = "setenv bootargs console=ttyS0 quiet no_timer_check; zboot 1000000 - 6000000 ${filesize}";

#[test]
fn u_boot_finds_a_stick_that_needs_a_reset_after_a_pause_and_boots_its_system() {
    let folder = Folder::new("rescue");
    if !compose(&folder) {
        return;
    }
    let arguments =
        ["serve", "file:stick.img", "--usbredir", "stick.sock", "--quirk", "needs-reset=1s", "--print-uri"];
    let mut server = flashlab(&arguments);
    let server = server.current_dir(&folder).stdout(Stdio::piped()).spawn().expect("the program is built");
    let mut server = Server(server);
    // The server prints its address once it listens.
    let mut printed = [0; 1];
    server
        .0
        .stdout
        .as_mut()
        .expect("the stream is piped")
        .read_exact(&mut printed)
        .expect("the server listens");

    let mut console = Console::start(&folder.path("stick.sock"));
    console.expect("Hit any key");
    console.line("");
    console.expect("=> ");
    console.line(&format!("usb start; {LOAD}"));
    let plain = console.expect("Can't set block device");
    assert!(plain.contains("0 Storage Device(s) found"), "{plain}");
    console.expect("=> ");
    console.line(&format!("sleep 10; usb reset; sleep 10; {LOAD}"));
    let paused = console.expect("=> ");
    assert!(paused.contains("1 Storage Device(s) found"), "{paused}");
    assert_eq!(paused.matches("bytes read").count(), 2, "{paused}");
    console.line(BOOT);
    console.expect("This is the rescue system.");
    let greeting = console.expect("rescue# ");
    assert!(greeting.contains("overlay on / type overlay"), "{greeting}");
    console.line("cat /etc/hostname; echo kept > /note; sync");
    assert!(console.expect("rescue# ").contains("\nrescue\r"));
    console.line("exit");
    assert!(console.qemu.wait().expect("the process ends").success());
    drop(server);

    // The change lies on the stick, beside the unchanged image.
    let script = "dd if=stick.img of=root.ext3 bs=1M skip=65 2>/dev/null
        debugfs -R 'cat w/upper/note' root.ext3 2>/dev/null; debugfs -R 'cat squashfs.img.md5' root.ext3 2>/dev/null
        debugfs -R 'cat squashfs.img' root.ext3 2>/dev/null | md5sum | cut -c-32";
    let kept = with(&folder, &["memory:size=1M"], script);
    let lines: Vec<&str> = kept.lines().collect();
    assert_eq!((lines.len(), lines[0]), (3, "kept"), "{kept}");
    assert!(lines[1].starts_with(lines[2]), "{kept}");
}
