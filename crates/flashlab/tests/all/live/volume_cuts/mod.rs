//! Filesystems on a volume through power cuts. A QEMU guest writes to ext4 or XFS over NBD. At a random
//! request, the power of the guest and of the volume's members is cut.
//!
//! The members are disks of the crash library: a random part of the unflushed writes reaches the medium, and
//! some of these writes are torn. After each cut, `flashlab volume check` finds no fault, and the next guest
//! replays the journal of the filesystem. Each file whose fsync was answered then has its contents, by its
//! checksum and by fio's verification of each 4 KiB. A file that is overwritten in place has the old or the
//! new contents in each 4 KiB. e2fsck or xfs_repair finds no error. Some cuts come during that recovery.
//!
//! A seed chooses the requests at which the power is cut and the fate of the unflushed writes. The timing of the guest
//! varies, so a seed does not repeat a run exactly. `FLASHLAB_FULL` makes ten cuts for each filesystem; they take
//! minutes, so the quick form leaves them out.

mod members;

use super::guest::{initial_filesystem, kernel};
use super::tools::{Folder, are_installed, flashlab, skipped};
use flashlab_block::crash::Image;
use flashlab_sim::Rng;
use flashlab_volume::encode::Compressor;
use flashlab_volume::keys::{Cipher, Kdf, MasterKey, Passphrase};
use flashlab_volume::{Encryption, OpenOptions, Options};
use members::{Serving, Supply, format, store};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;

const INIT: &str = include_str!("init.sh");
/// Kernel modules that the network card, NBD and the filesystems need.
const MODULES: [&str; 15] = [
    "virtio",
    "virtio_ring",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "failover",
    "net_failover",
    "virtio_net",
    "nbd",
    "crc16",
    "*crc32c*",
    "mbcache",
    "jbd2",
    "ext4",
    "xfs",
];
const TOOLS: [&str; 6] = ["nbd-client", "fio", "mke2fs", "e2fsck", "mkfs.xfs", "xfs_repair"];
const MEMBER: u64 = 448 << 20;
const CUTS: u64 = 10;
const PASSPHRASE: &str = "power cut";

#[test]
fn ext4_on_two_copies_survives_power_cuts() {
    cuts("ext4", Options { replicas: 2, ..Options::new([4; 16]) });
}

#[test]
fn xfs_on_an_encrypted_and_compressed_stripe_survives_power_cuts() {
    let encryption = Encryption {
        master: MasterKey::from_random(&mut [5; 32]),
        cipher: Cipher::ChaCha20Poly1305,
        passphrase: passphrase(),
        kdf: Kdf::Argon2id { memory_kib: 8, passes: 1, lanes: 1 },
        salt: [5; 32],
    };
    let options = Options { encryption: Some(encryption), ..Options::new([5; 16]) };
    cuts("xfs", Options { compression: Compressor::Lz4, ..options });
}

fn passphrase() -> Passphrase {
    Passphrase::new(PASSPHRASE.as_bytes()).expect("not empty")
}

/// The power cuts of one filesystem.
struct Cuts {
    filesystem: &'static str,
    folder: Folder,
    kernel: std::path::PathBuf,
    is_encrypted: bool,
    rng: Rng,
    /// MD5 sums of the files whose contents are durable; empty for the file that is overwritten.
    durable: BTreeMap<String, String>,
    /// Number of the next new file.
    round: u64,
}

fn cuts(filesystem: &'static str, options: Options) {
    if std::env::var_os("FLASHLAB_FULL").is_none() {
        skipped("guests with ten power cuts take minutes; FLASHLAB_FULL runs them");
        return;
    }
    if !are_installed(&["qemu-system-x86_64", "busybox"]) || !are_installed(&TOOLS) {
        return;
    }
    let Some((kernel, modules)) = kernel() else {
        skipped("no Debian kernel in target/guest or /boot");
        return;
    };
    let seed = std::env::var("FLASHLAB_CUT_SEED").ok().map_or(1, |seed| seed.parse().expect("a number"));
    let folder = Folder::new(&format!("volume-cuts-{filesystem}"));
    initial_filesystem(&folder, INIT, &TOOLS, &modules, &MODULES);
    std::fs::write(folder.path("secret"), PASSPHRASE).expect("a writable folder");
    std::fs::set_permissions(folder.path("secret"), PermissionsExt::from_mode(0o600)).expect("an own file");
    let mut images = format(2, MEMBER, &options);
    let is_encrypted = options.encryption.is_some();
    let (rng, durable) = (Rng::new(seed), BTreeMap::new());
    let mut cuts = Cuts { filesystem, folder, kernel, is_encrypted, rng, durable, round: 1 };
    for number in 0..=CUTS {
        let (after, unflushed) = cuts.boot(number, &images);
        images = after;
        cuts.check(&images);
        let durable = cuts.durable.len();
        let _ = writeln!(
            std::io::stderr(),
            "{filesystem}, seed {seed}, cut {number}: {unflushed} unflushed writes, {durable} durable files"
        );
    }
    assert!(cuts.round > CUTS, "the guest wrote {} files only", cuts.round);
}

impl Cuts {
    /// Boots the guest on members with these bytes, and cuts the power. The last guest only checks, and shuts down
    /// cleanly. Returns the bytes that remain, and the number of unflushed writes at the cut.
    fn boot(&mut self, number: u64, images: &[Image]) -> (Vec<Image>, usize) {
        let supply = Supply::new(images);
        let mut salt = [7; 16];
        salt[..8].copy_from_slice(&number.to_le_bytes());
        let passphrase = self.is_encrypted.then(passphrase);
        let serving = Serving::start(&supply, OpenOptions { salt, passphrase, ..OpenOptions::default() });
        let is_last = number == CUTS;
        // Every fourth cut comes early enough to interrupt the mount with its replay.
        if number % 4 == 3 {
            supply.cut_after(self.rng.below(40));
        }
        let guest = self.guest(number, serving.port, is_last);
        let checked = self.watch(guest, &supply, is_last);
        serving.end(&supply);
        assert!(checked || number % 4 == 3, "the guest did not check the filesystem");
        supply.images(&mut self.rng)
    }

    /// Follows the guest until its power is cut or it ends. Returns true if the guest found everything in
    /// order.
    fn watch(&mut self, mut guest: Guest, supply: &Arc<Supply>, is_last: bool) -> bool {
        let (watched, pid) = (supply.clone(), guest.0.id());
        let killer = thread::spawn(move || {
            watched.wait();
            let pid = rustix::process::Pid::from_raw(pid as i32).expect("not zero");
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        });
        let output = BufReader::new(guest.0.stdout.take().expect("the stream is piped"));
        let (mut held, mut is_checked, mut is_done) = (BTreeMap::new(), false, false);
        let mut printed = String::new();
        for line in output.split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            printed += &format!("{line}\n");
            let words: Vec<&str> = line.strip_prefix("GUEST ").unwrap_or("").split(' ').collect();
            match words[..] {
                ["HOLDS", name, sum, ..] => _ = held.insert(name.to_owned(), sum.to_owned()),
                ["CHECKED"] => {
                    let expected = self.durable.iter().filter(|(name, _)| *name != "slot");
                    let expected: BTreeMap<_, _> =
                        expected.map(|(name, sum)| (name.clone(), sum.clone())).collect();
                    assert_eq!(held, expected, "{printed}");
                    is_checked = true;
                    if !is_last {
                        supply.cut_after(40 + self.rng.below(3000));
                    }
                }
                ["SYNCED", name, ..] => {
                    self.durable.insert(name.to_owned(), words.get(2).copied().unwrap_or("").to_owned());
                    let round = name.strip_prefix('r').and_then(|round| round.parse().ok());
                    self.round = round.map_or(self.round, |round: u64| round + 1);
                }
                ["REMOVES", name] => _ = self.durable.remove(name),
                ["DONE"] => is_done = true,
                _ => {}
            }
        }
        let was_cut = supply.is_cut();
        supply.end();
        killer.join().expect("the thread does not panic");
        assert!(was_cut != is_last && is_done == is_last, "{printed}");
        is_checked
    }

    /// Starts a guest.
    fn guest(&self, number: u64, port: u16, is_last: bool) -> Guest {
        let expected: Vec<&str> = self.durable.keys().map(String::as_str).collect();
        let parameters = format!(
            "console=ttyS0 panic=-1 quiet no_timer_check FS={} PORT={port} FORMAT={} ROUND={} LAST={} EXPECT=\"{}\"",
            self.filesystem,
            u8::from(number == 0),
            self.round,
            u8::from(is_last),
            expected.join(" "),
        );
        let mut qemu = Command::new("qemu-system-x86_64");
        qemu.args(["-accel", "tcg", "-m", "1024", "-nodefaults", "-no-reboot", "-display", "none"]);
        qemu.args(["-serial", "stdio", "-initrd", "initrd", "-append", &parameters, "-kernel"])
            .arg(&self.kernel);
        qemu.args(["-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net,romfile="]);
        qemu.stdin(Stdio::null()).stdout(Stdio::piped()).current_dir(&self.folder);
        Guest(qemu.spawn().expect("the program was found"))
    }

    /// Checks the structures of the volume and all copies with the command.
    fn check(&self, images: &[Image]) {
        let names: Vec<String> = (0..images.len()).map(|member| format!("{member}.img")).collect();
        for (image, name) in images.iter().zip(&names) {
            store(image, &self.folder.path(name));
        }
        let mut check = flashlab(&["volume", "check", &names.join(":")]);
        if self.is_encrypted {
            check.args(["--passphrase-file", "secret"]);
        }
        let output = check.current_dir(&self.folder).output().expect("the program is built");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(printed.ends_with("the volume is sound\n"), "{output:?}");
    }
}

/// A running QEMU, killed on drop.
struct Guest(Child);

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}
