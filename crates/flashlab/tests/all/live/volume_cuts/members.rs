//! Members of a volume with a common power supply, and a server of the volume in this process.

use flashlab_block::crash::{Disk, Image, Point};
use flashlab_block::{BlockDevice, Context, Features, Geometry, Io, IoError, Started};
use flashlab_serve::{Address, Export, Exports, Limits, Listener, Server, Stop};
use flashlab_served::wait::{wait, wait_on};
use flashlab_sim::{Duration, Instant, Rng};
use flashlab_volume::{NewMember, OpenOptions, Options, Volume};
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// Bytes that a member writes atomically.
const SECTOR: u64 = 512;

/// Disks with volatile caches that lose their power at the same instant. Without power, every request fails.
pub(super) struct Supply {
    disks: Vec<Disk>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Number of changes and flushes that remain until the cut; `None` without a planned cut.
    left: Option<u64>,
    /// State of the disks at the cut.
    cut: Option<Point>,
    /// True when the guest has ended, so that no cut will come.
    ended: bool,
}

impl Supply {
    /// Powers disks with these bytes.
    pub(super) fn new(images: &[Image]) -> Arc<Supply> {
        let disks = images.iter().map(|image| Disk::new(image.clone(), SECTOR)).collect();
        Arc::new(Supply { disks, state: Mutex::default(), changed: Condvar::new() })
    }

    pub(super) fn members(self: &Arc<Supply>) -> Vec<Arc<dyn BlockDevice>> {
        let member = |disk: &Disk| Arc::new(Member { disk: disk.clone(), supply: self.clone() }) as _;
        self.disks.iter().map(member).collect()
    }

    /// Plans the cut after `requests` more changes and flushes of the members, unless a cut is planned already.
    pub(super) fn cut_after(&self, requests: u64) {
        self.lock().left.get_or_insert(requests);
    }

    /// Blocks until the cut, or until [`Supply::end`].
    pub(super) fn wait(&self) {
        let mut state = self.lock();
        while state.cut.is_none() && !state.ended {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns true after the cut.
    pub(super) fn is_cut(&self) -> bool {
        self.lock().cut.is_some()
    }

    /// Ends [`Supply::wait`].
    pub(super) fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_all();
    }

    /// Returns the bytes of the disks after the cut, and the number of unflushed writes. `rng` decides for
    /// each such write whether it reached the medium, did not reach it, or was torn. Without a cut, returns
    /// the bytes as they are.
    pub(super) fn images(&self, rng: &mut Rng) -> (Vec<Image>, usize) {
        let state = self.lock();
        let Some(point) = &state.cut else { return (self.disks.iter().map(Disk::image).collect(), 0) };
        let choices = point.choices(8, rng);
        let choice = &choices[rng.below(choices.len() as u64) as usize];
        (point.images(choice), point.unflushed())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A disk on the supply. All members answer one request at a time, so that a cut is one instant for all of them.
struct Member {
    disk: Disk,
    supply: Arc<Supply>,
}

impl BlockDevice for Member {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }
    fn features(&self) -> Features {
        self.disk.features()
    }
    fn start(&self, cx: &Context, io: Io) -> Started {
        let mut state = self.supply.lock();
        if state.cut.is_none() && !matches!(io, Io::Read { .. } | Io::Cache { .. } | Io::Extents { .. }) {
            match &mut state.left {
                Some(0) => {
                    state.cut = Some(Disk::point(&self.supply.disks));
                    self.supply.changed.notify_all();
                }
                Some(left) => *left -= 1,
                None => {}
            }
        }
        match state.cut {
            Some(_) => Started::Done(Err(IoError::ShuttingDown)),
            None => self.disk.start(cx, io),
        }
    }
}

/// Formats new members of `size` bytes. Returns their bytes.
pub(super) fn format(members: usize, size: u64, options: &Options) -> Vec<Image> {
    let supply = Supply::new(&vec![Image::new(size); members]);
    let devices = supply.members();
    let new: Vec<NewMember> = devices.iter().cloned().map(NewMember::new).collect();
    wait(Volume::format(&Context::new(Instant::ZERO), &new, options), &devices).expect("disks that work");
    supply.disks.iter().map(Disk::image).collect()
}

/// A volume that is served over TCP.
pub(super) struct Serving {
    volume: Volume,
    stop: Stop,
    thread: JoinHandle<()>,
    pub(super) port: u16,
}

impl Serving {
    /// Opens the volume on the members, and serves it under the name `volume`.
    pub(super) fn start(supply: &Arc<Supply>, options: OpenOptions) -> Serving {
        let members = supply.members();
        let cx = Context::new(Instant::ZERO);
        let volume =
            wait(Volume::open(&cx, &members, options), &members).expect("a volume opens after a power cut");
        let export = Export {
            name: "volume".into(),
            description: String::new(),
            device: Arc::new(volume.clone()),
            read_only: false,
        };
        let exports = Exports::new(vec![export]).expect("one export");
        let stop = Stop::new().expect("the system has event descriptors");
        let limits = Limits { grace: Duration::from_secs(1), ..Limits::default() };
        let server = Server::new(exports, limits, stop.clone());
        let listener = Listener::bind(&Address::Tcp((Ipv4Addr::LOCALHOST, 0).into())).expect("a free port");
        let Ok(Address::Tcp(address)) = listener.address() else { panic!("the listener has a port") };
        let thread = thread::spawn(move || server.serve(vec![listener]).expect("the server accepts clients"));
        Serving { volume, stop, thread, port: address.port() }
    }

    /// Ends the server. Closes the volume cleanly if its members have power.
    pub(super) fn end(self, supply: &Supply) {
        self.stop.throw();
        self.thread.join().expect("the server does not panic");
        if !supply.is_cut() {
            wait_on(self.volume.close(&Context::new(Instant::ZERO)), &self.volume).expect("disks that work");
        }
    }
}

/// Writes the bytes of a disk to a sparse file.
pub(super) fn store(image: &Image, path: &Path) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::create(path).expect("a writable folder");
    file.set_len(image.size()).expect("the disk has room");
    let mut bytes = vec![0; 64 << 10];
    for offset in (0..image.size()).step_by(bytes.len()) {
        let part = bytes.len().min((image.size() - offset) as usize);
        image.read(offset, &mut bytes[..part]);
        if bytes[..part].iter().any(|byte| *byte != 0) {
            file.write_all_at(&bytes[..part], offset).expect("the disk has room");
        }
    }
}
