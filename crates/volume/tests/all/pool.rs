//! Small volumes on disks of the crash library.

use flashlab_block::crash::{Disk, Image};
use flashlab_block::{BlockDevice, Context, Executor, Features, Geometry, Io, IoError, Job, Started};
use flashlab_sim::Duration;
use flashlab_volume::format::{SUPERBLOCK_SIZE, Superblock, copy_offsets};
use flashlab_volume::keys::{Cipher, Kdf, MasterKey, Passphrase};
use flashlab_volume::{Encryption, NewMember, OpenOptions, Options, Threads, Volume, VolumeError};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Size of a member in bytes.
pub(crate) const MEMBER: u64 = 896 << 10;
/// Size of a block of the small volumes.
pub(crate) const BLOCK: u64 = 512;

/// Returns the options of a small volume.
pub(crate) fn options() -> Options {
    Options {
        block: BLOCK as u32,
        bucket: 16 << 10,
        checksum_block: 1024,
        extent_max: 4096,
        ..Options::new([0x5a; 16])
    }
}

/// Creates disks that answer immediately.
pub(crate) fn disks(count: usize) -> Vec<Disk> {
    (0..count).map(|_| Disk::new(Image::new(MEMBER), BLOCK)).collect()
}

/// Creates disks with these bytes and a latency.
pub(crate) fn disks_of(images: Vec<Image>) -> Vec<Disk> {
    let disk = |image| Disk::new(image, BLOCK).with_latency(Duration::from_us(100));
    images.into_iter().map(disk).collect()
}

pub(crate) fn devices(disks: &[Disk]) -> Vec<Arc<dyn BlockDevice>> {
    disks.iter().map(|disk| Arc::new(disk.clone()) as Arc<dyn BlockDevice>).collect()
}

/// Formats the disks.
pub(crate) fn format(disks: &[Disk], options: &Options) -> Result<(), VolumeError> {
    let members: Vec<NewMember> = devices(disks).into_iter().map(NewMember::new).collect();
    let options = options.clone();
    run(|cx| async move { Volume::format(&cx, &members, &options).await })
}

/// Costs of a key derivation that takes microseconds.
pub(crate) const QUICK_KDF: Kdf = Kdf::Argon2id { memory_kib: 8, passes: 1, lanes: 1 };

pub(crate) fn passphrase(text: &str) -> Passphrase {
    Passphrase::new(text.as_bytes()).expect("not empty")
}

/// Returns the keys of an encrypted volume that opens with the passphrase `right`.
pub(crate) fn encryption(cipher: Cipher) -> Encryption {
    Encryption {
        master: MasterKey::from_random(&mut [3; 32]),
        cipher,
        passphrase: passphrase("right"),
        kdf: QUICK_KDF,
        salt: [4; 32],
    }
}

/// Returns the options of a small encrypted volume.
pub(crate) fn encrypted() -> Options {
    Options { encryption: Some(encryption(Cipher::ChaCha20Poly1305)), ..options() }
}

/// Returns options that open a volume without encryption, with another salt in each call.
pub(crate) fn open_options() -> OpenOptions {
    static MOUNTS: AtomicU64 = AtomicU64::new(0);
    let mut salt = [0x5a; 16];
    salt[..8].copy_from_slice(&MOUNTS.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    OpenOptions { salt, ..OpenOptions::default() }
}

/// Returns options that open an encrypted volume with the passphrase `right`.
pub(crate) fn unlocking() -> OpenOptions {
    OpenOptions { passphrase: Some(passphrase("right")), ..open_options() }
}

/// Returns options that open the volume on the disks, with the passphrase `right` if it is encrypted.
pub(crate) fn options_for(disks: &[Disk]) -> OpenOptions {
    let superblock = |image: Image| {
        copy_offsets(image.size()).into_iter().find_map(|at| {
            let mut bytes = vec![0; SUPERBLOCK_SIZE];
            image.read(at, &mut bytes);
            Superblock::decode(&bytes).ok()
        })
    };
    let found = disks.iter().find_map(|disk| superblock(disk.image()));
    let is_encrypted = found.is_some_and(|superblock| superblock.key.is_some());
    if is_encrypted { unlocking() } else { open_options() }
}

/// Opens a volume on the disks, with the passphrase `right` if it is encrypted.
pub(crate) fn open(disks: &[Disk]) -> Result<Volume, VolumeError> {
    open_with(disks, options_for(disks))
}

/// Opens a volume on the disks.
pub(crate) fn open_with(disks: &[Disk], options: OpenOptions) -> Result<Volume, VolumeError> {
    let devices = devices(disks);
    run(|cx| async move { Volume::open(&cx, &devices, options).await })
}

/// Runs a future on an executor of its own.
pub(crate) fn run<T, F>(future: impl FnOnce(Context) -> F) -> T
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let mut executor = Executor::new(1);
    let cx = executor.context();
    executor.block_on(future(cx))
}

/// Threads of a simulation: each computation is a task of the executor, which runs it at any time.
pub(crate) struct Later(pub(crate) Context);

impl Threads for Later {
    fn run(&self, job: Job) {
        self.0.spawn(async move { job() });
    }
    fn worthwhile_ns(&self) -> u64 {
        0
    }
}

/// A disk that can fail. Clones share it.
#[derive(Clone)]
pub(crate) struct Switched {
    disk: Disk,
    faults: Arc<Mutex<Faults>>,
}

#[derive(Default)]
struct Faults {
    dead: bool,
    changes: u64,
    /// Number of the write or flush that fails. All later ones also fail if the flag is set.
    fails: Option<(u64, bool)>,
    power_losses: u64,
}

/// Returns a disk that can fail, and that shares the contents of `disk`.
pub(crate) fn switched(disk: &Disk) -> Switched {
    Switched { disk: disk.clone(), faults: Arc::default() }
}

impl Switched {
    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().expect("no code panics with the lock")
    }

    /// Makes every request fail from now on.
    pub(crate) fn die(&self) {
        self.faults().dead = true;
    }

    /// Counts power losses.
    pub(crate) fn lose_power(&self, times: u64) {
        self.faults().power_losses += times;
    }

    /// Makes requests succeed again.
    pub(crate) fn revive(&self) {
        self.faults().dead = false;
    }

    /// Makes the write or flush after `n` further ones fail. All later ones also fail if `for_ever` is set.
    pub(crate) fn fail_change(&self, n: u64, for_ever: bool) {
        let mut faults = self.faults();
        faults.fails = Some((faults.changes + n, for_ever));
    }
}

impl BlockDevice for Switched {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }
    fn features(&self) -> Features {
        self.disk.features()
    }
    fn start(&self, cx: &Context, io: Io) -> Started {
        let mut faults = self.faults();
        let is_change = !matches!(io, Io::Read { .. });
        let n = faults.changes;
        faults.changes += u64::from(is_change);
        let fails = |(at, for_ever): (u64, bool)| is_change && (n == at || for_ever && n > at);
        if faults.dead || faults.fails.is_some_and(fails) {
            return Started::Done(Err(IoError::Medium));
        }
        drop(faults);
        self.disk.start(cx, io)
    }
    fn power_losses(&self) -> u64 {
        self.faults().power_losses
    }
}
