//! The disk of a USB stick: any device that holds bytes.
//!
//! A timed device answers when its model completes the request, so the stick has the timing of the simulated
//! device. An untimed device, such as a file, may answer from its worker threads. The thread that serves the
//! stick waits for the answer, because a stick executes one operation at a time.

use flashlab_block::{Answer, BlockDevice, Context, Io, IoError, Outcome, Started, Timed};
use flashlab_sim::{Geometry, Instant, PowerCut};
use flashlab_usb::{Disk, DiskError, Done, Operation};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// Smallest block of a stick in bytes; hosts accept no smaller ones.
const BLOCK: u64 = 512;

/// A device that holds bytes, as the disk of a USB stick.
pub struct BlockDisk {
    device: Arc<dyn BlockDevice>,
    /// The part of the device that loses its volatile data at a power cut, if there is one.
    power: Option<Arc<Timed>>,
    is_read_only: bool,
    running: Option<Running>,
    /// Effect of the last power cut.
    last_cut: PowerCut,
}

/// An operation in progress.
enum Running {
    Ended(Instant, Outcome),
    Pending(Instant, Pin<Box<dyn Future<Output = Outcome> + Send>>),
}

impl BlockDisk {
    /// Creates the disk. `power` is the timed part of `device`, which loses its power together with the stick.
    pub fn new(device: Arc<dyn BlockDevice>, power: Option<Arc<Timed>>, is_read_only: bool) -> BlockDisk {
        let is_read_only = is_read_only || device.features().read_only;
        BlockDisk { device, power, is_read_only, running: None, last_cut: PowerCut::default() }
    }

    /// Returns the ranges that were not durable at the last power cut.
    pub fn last_cut(&self) -> &PowerCut {
        &self.last_cut
    }
}

impl Disk for BlockDisk {
    fn geometry(&self) -> Geometry {
        let geometry = self.device.geometry();
        let block = geometry.block.max(BLOCK);
        Geometry { capacity: geometry.capacity / block * block, block, ..geometry }
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    fn start(&mut self, now: Instant, operation: Operation) {
        let io = match operation {
            Operation::Read { offset, length } => Io::Read { offset, buffer: vec![0; length as usize] },
            Operation::Write { offset, bytes, durable } => Io::Write { offset, data: bytes.into(), durable },
            Operation::Flush => Io::Flush,
            Operation::Discard { offset, length } if self.device.features().discard => {
                Io::Discard { offset, length, durable: false }
            }
            // A host must not rely on the effect of a discard.
            Operation::Discard { .. } => {
                self.running = Some(Running::Ended(now, Ok(Answer::Done)));
                return;
            }
        };
        self.running = Some(match self.device.start(&Context::new(now), io) {
            Started::Done(outcome) => Running::Ended(now, outcome),
            Started::Pending(future) => Running::Pending(now, future),
        });
    }

    fn next_due(&self) -> Option<Instant> {
        match self.running.as_ref()? {
            Running::Ended(at, _) => Some(*at),
            Running::Pending(started, _) => Some(self.device.next_due().unwrap_or(*started)),
        }
    }

    fn complete(&mut self, limit: Instant) -> Option<(Instant, Done)> {
        let (at, outcome) = match self.running.take()? {
            Running::Ended(at, outcome) if at <= limit => (at, outcome),
            Running::Pending(started, future) if started <= limit => {
                match advance(&*self.device, started, future, limit) {
                    Ok(ended) => ended,
                    Err(pending) => {
                        self.running = Some(pending);
                        return None;
                    }
                }
            }
            later => {
                self.running = Some(later);
                return None;
            }
        };
        Some((at, done(outcome)))
    }

    fn set_power(&mut self, now: Instant, on: bool) {
        self.running = None;
        let Some(timed) = &self.power else { return };
        if on {
            timed.power_up(now);
            return;
        }
        match timed.power_cut(now) {
            Ok(cut) => self.last_cut = cut,
            Err(error) => tracing::warn!(%error, "the bytes after a power cut cannot be written"),
        }
    }
}

/// Advances the device until the request that began at `started` has ended, but not beyond `limit`. If the device is
/// not timed, waits for its answer. Returns the request as an error if it has not ended.
fn advance(
    device: &dyn BlockDevice,
    started: Instant,
    mut future: Pin<Box<dyn Future<Output = Outcome> + Send>>,
    limit: Instant,
) -> Result<(Instant, Outcome), Running> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut at = started;
    loop {
        if let Poll::Ready(outcome) = future.as_mut().poll(&mut task::Context::from_waker(&waker)) {
            return Ok((at, outcome));
        }
        match device.next_due() {
            Some(due) if due > limit => return Err(Running::Pending(started, future)),
            Some(due) => {
                at = at.max(due);
                device.advance(at);
            }
            None => thread::park(),
        }
    }
}

/// Wakes the thread that waits for the answer.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn done(outcome: Outcome) -> Done {
    match outcome {
        Ok(Answer::Read(buffer)) => Ok(buffer),
        Ok(_) => Ok(Vec::new()),
        Err(IoError::ReadOnly) => Err(DiskError::ReadOnly),
        Err(IoError::Medium) => Err(DiskError::Medium),
        Err(_) => Err(DiskError::Failed),
    }
}

impl fmt::Debug for BlockDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockDisk").field("geometry", &self.device.geometry()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_block::model::{Throttle, Throttled, Untimed};
    use flashlab_block::{Access, File, Memory, Pages};
    use flashlab_sim::{Duration, Store};

    const PAGE: usize = 4096;

    fn write(disk: &mut BlockDisk, now: Instant, byte: u8) {
        disk.start(now, Operation::Write { offset: 0, bytes: vec![byte; PAGE], durable: false });
    }
    fn read(disk: &mut BlockDisk, now: Instant) {
        disk.start(now, Operation::Read { offset: 0, length: PAGE as u32 });
    }

    fn timed(delay: Duration) -> (Arc<Timed>, BlockDisk) {
        let memory = Memory::new(1 << 20, Pages::Small).expect("there is memory");
        let store: Box<dyn Store> = Box::new(memory);
        let geometry = Geometry { capacity: 1 << 20, block: 512, request_max: 1 << 20 };
        let pace = Throttle::Delay { read: delay, write: delay, flush: Duration::ZERO };
        let model = Throttled::new(Box::new(Untimed::new(geometry)), pace);
        let timed = Arc::new(Timed::new(Box::new(model), store));
        (timed.clone(), BlockDisk::new(timed.clone(), Some(timed), false))
    }

    #[test]
    fn an_operation_takes_the_time_of_the_model() {
        let delay = Duration::from_ms(3);
        let (_, mut disk) = timed(delay);
        let start = Instant::ZERO + Duration::from_secs(1);
        write(&mut disk, start, 7);
        assert_eq!(disk.next_due(), Some(start + delay));
        assert!(disk.complete(start + Duration::from_ms(2)).is_none());
        assert_eq!(disk.complete(start + Duration::from_secs(9)), Some((start + delay, Ok(vec![]))));
        read(&mut disk, start + delay);
        assert_eq!(disk.complete(Instant::MAX), Some((start + delay + delay, Ok(vec![7; PAGE]))));
        assert_eq!(disk.next_due(), None);
    }

    #[test]
    fn a_power_cut_ends_the_operation_and_the_power_comes_back() {
        let (timed, mut disk) = timed(Duration::from_ms(3));
        write(&mut disk, Instant::ZERO, 7);
        let later = Instant::ZERO + Duration::from_ms(1);
        disk.set_power(later, false);
        assert!(!timed.is_powered() && disk.next_due().is_none() && disk.complete(Instant::MAX).is_none());
        disk.set_power(later, true);
        read(&mut disk, later);
        let (_, bytes) = disk.complete(Instant::MAX).expect("it has power");
        assert_eq!(bytes, Ok(vec![0; PAGE]), "the write had not ended");
    }

    #[test]
    fn an_untimed_device_completes_each_operation_at_the_start_of_the_operation() {
        let path = std::env::temp_dir().join(format!("flashlab-stick-{}", std::process::id()));
        std::fs::write(&path, vec![5; 1 << 20]).expect("the disk has room");
        let file = File::open(&path, None, Access::Cached, false).expect("it exists");
        std::fs::remove_file(&path).expect("it exists");
        let mut disk = BlockDisk::new(Arc::new(file), None, false);
        for round in 0..20 {
            let now = Instant::ZERO + Duration::from_ms(round);
            read(&mut disk, now);
            assert_eq!(disk.next_due(), Some(now));
            let (at, bytes) = disk.complete(now).expect("it answers");
            assert_eq!((at, bytes.map(|bytes| bytes[0])), (now, Ok(5)));
        }
    }

    #[test]
    fn a_device_of_single_bytes_has_blocks_of_512_bytes() {
        let memory = Memory::new(10_000, Pages::Small).expect("there is memory");
        let disk = BlockDisk::new(Arc::new(memory), None, false);
        assert_eq!((disk.geometry().block, disk.geometry().capacity), (512, 19 * 512));
    }

    #[test]
    fn requests_beyond_the_end_fail() {
        let (_, mut disk) = timed(Duration::ZERO);
        disk.start(Instant::ZERO, Operation::Read { offset: 1 << 20, length: 512 });
        let (_, done) = disk.complete(Instant::ZERO).expect("it is refused at once");
        assert_eq!(done, Err(DiskError::Failed));
    }
}
