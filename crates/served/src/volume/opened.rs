//! An open volume as the bottom of a stack of layers.

use super::claim::{self, Claims};
use super::failures::Failures;
use super::gauges;
use super::orders;
use super::pace::Reconciling;
use super::removal::Removals;
use super::scrubs::Scrubs;
use super::search::{Absent, Search};
use super::wear::Wear;
use super::{CodecHost, all_errors, close_states, is_shared, shared_device};
use crate::bottom::Bytes;
use crate::closing::{Background, Caller, Closing, Gauge};
use crate::device_store::DeviceStore;
use crate::sources::{Opener, Sources};
use crate::wait::wait_on;
use crate::{Served, StateWriter};
use flashlab_block::{BlockDevice, Context, Geometry, IoError, ThreadPool};
use flashlab_catalogue::library::Library;
use flashlab_sim::{Duration, Instant, Observer, Store};
use flashlab_volume::format::Claim;
use flashlab_volume::{Reconciled, Rounds, Volume};
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Pause of background work after an error.
const PAUSE: Duration = Duration::from_secs(1);
/// Time between two looks at the members.
const WATCH_EVERY: Duration = Duration::from_ms(500);

/// An open volume, with the state files of its members.
#[derive(Clone)]
pub struct OpenPool {
    /// The volume.
    pub volume: Volume,
    pub(super) claims: Arc<Claims>,
    /// Work of the members that are simulated.
    pub(super) wear: Wear,
    /// Writers of the members' state files.
    pub(super) state_writers: Arc<Mutex<Vec<Arc<StateWriter>>>>,
    pub(super) scrubs: Arc<Scrubs>,
    pub(super) removals: Arc<Removals>,
    pub(super) reconciling: Arc<Reconciling>,
    pub(super) absent: Arc<Absent>,
    /// Number of errors of background work.
    pub(super) work_errors: Arc<AtomicU64>,
    /// Profiles for further members.
    pub(super) library: Arc<Library>,
    /// Openers of further members outside this process.
    pub(super) openers: &'static [Opener],
    /// Seed of the members that are simulated.
    pub(super) seed: u64,
    /// The host that runs the codecs in simulated time; `None` in real time.
    pub(super) codecs: Option<CodecHost>,
}

impl fmt::Debug for OpenPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenPool").field("volume", &self.volume).finish_non_exhaustive()
    }
}

impl Closing for OpenPool {
    fn close(&self) -> Result<(), String> {
        let closed = wait_on(self.volume.close(&Context::new(Instant::ZERO)), &self.volume);
        let closed = closed.map_err(|error| format!("the volume cannot be closed: {error}"));
        self.claims.release();
        all_errors([closed, self.close_members()])
    }

    fn state_writers(&self) -> Vec<Arc<StateWriter>> {
        self.state_writers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn background<'a>(
        &'a self,
        cx: &'a Context,
        rate: u64,
        is_stopped: &'a (dyn Fn() -> bool + Sync),
    ) -> Option<Background<'a>> {
        if self.volume.features().read_only {
            return None;
        }
        Some(Box::pin(async move {
            let (mut work, mut watch) = (pin!(self.work(cx, rate, is_stopped)), pin!(self.watch(cx)));
            poll_fn(|task| {
                // The watch never ends by itself.
                let _ = watch.as_mut().poll(task);
                work.as_mut().poll(task)
            })
            .await;
        }))
    }

    fn command(&self, words: &[&str], caller: &Caller<'_>) -> Option<Result<String, String>> {
        orders::execute(self, words, caller)
    }

    fn spends_simulated_time(&self) -> bool {
        self.codecs.is_some()
    }

    fn remarks(&self) -> Vec<String> {
        self.wear.remarks().into_iter().chain(self.codec_remarks()).collect()
    }

    fn observe(&self, to: &mut dyn Observer) {
        self.wear.observe(to);
    }

    fn gauges(&self) -> Vec<Gauge> {
        gauges::of(&self.volume, self.work_errors.load(Ordering::Relaxed))
    }

    fn describe_work(&self) -> Option<String> {
        self.reconciling.describe(|| self.volume.backlog().current_bytes())
    }
}

impl Bytes for OpenPool {
    fn geometry(&self) -> Geometry {
        BlockDevice::geometry(&self.volume)
    }
    fn into_device(self: Box<Self>) -> io::Result<Arc<dyn BlockDevice>> {
        // In simulated time, the order of events must not depend on threads.
        if self.codecs.is_none() {
            // Codecs use all cores, and no codec delays the other requests of its connection.
            let cores = thread::available_parallelism().map_or(1, usize::from);
            self.volume.compute_on(Arc::new(ThreadPool::new("codec", cores)?));
        }
        Ok(Arc::new(self.volume))
    }
    fn into_store(self: Box<Self>) -> Box<dyn Store> {
        Box::new(DeviceStore(Arc::new(self.volume)))
    }
}

impl OpenPool {
    /// Does background work until the server ends or the volume fails. No scrub or removal begins afterwards.
    ///
    /// A scrub is the least urgent work, so it runs between the rounds of the other work.
    async fn work(&self, cx: &Context, rate: u64, is_stopped: &(dyn Fn() -> bool + Sync)) {
        let (mut rounds, mut search) = (Rounds::default(), Search::default());
        let has_opened = search.has_opened();
        while !is_stopped() {
            search.look(self, cx).await;
            let ends = || is_stopped() || has_opened.load(Ordering::Relaxed);
            let next = match self.round(cx, rate, (&mut rounds, &ends)).await {
                Ok(next) => next,
                // Removals and scrubs may still succeed.
                Err(error) if self.goes_on_after(cx, error).await => cx.now() + WATCH_EVERY,
                Err(_) => break,
            };
            if self.removals.is_wanted() {
                let progress = |done: &Reconciled| self.reports(done) && !is_stopped();
                self.reconciling.begin();
                self.removals.run(&self.volume, cx, rate, (&progress, is_stopped)).await;
                self.reconciling.end();
                rounds = Rounds::default();
                continue;
            }
            let is_interrupted = || is_stopped() || self.removals.is_wanted() || cx.now() >= next;
            self.scrubs.run(&self.volume, cx, rate, &is_interrupted).await;
            if !is_stopped() {
                // The next round finds the error of a volume that fails during the pause.
                let _ = self.volume.pause(cx, next).await;
            }
        }
        self.scrubs.end();
        self.removals.end();
    }

    /// Does a round of background work, which ends early if `is_stopped` returns true or the removal of a member is wanted.
    /// Returns the instant at which the next round is due.
    async fn round(
        &self,
        cx: &Context,
        rate: u64,
        (rounds, is_stopped): (&mut Rounds, &(dyn Fn() -> bool + Sync)),
    ) -> Result<Instant, IoError> {
        self.reconciling.begin();
        let progress = |done: &Reconciled| self.reports(done) && !is_stopped() && !self.removals.is_wanted();
        let next = rounds.round(&self.volume, cx, rate, progress).await;
        self.reconciling.end();
        next
    }

    /// Notes the progress of a reconciliation. Returns true.
    fn reports(&self, done: &Reconciled) -> bool {
        self.reconciling.reach(done.done.values().map(|amount| amount.bytes).sum());
        true
    }

    /// Logs the members that begin to fail, those that work again, and the loss of data.
    async fn watch(&self, cx: &Context) {
        let (mut failures, mut lost) = (Failures::new(&self.volume.health()), 0);
        loop {
            failures.log(&self.volume.health());
            let before = std::mem::replace(&mut lost, self.volume.lost_bytes());
            if lost > before {
                tracing::error!(bytes = lost - before, "data is lost: every copy of it is bad");
            }
            cx.sleep_until(cx.now() + WATCH_EVERY).await;
        }
    }

    /// Logs and counts an error of background work. Returns false if the volume has failed and answers all requests
    /// with an error. Otherwise pauses, and returns true.
    async fn goes_on_after(&self, cx: &Context, error: IoError) -> bool {
        self.work_errors.fetch_add(1, Ordering::Relaxed);
        if self.volume.failure().is_some() {
            tracing::error!(%error, "the volume has failed, and its background work ends");
            return false;
        }
        tracing::warn!(%error, "background work of the volume failed; it continues shortly");
        cx.sleep_until(cx.now() + PAUSE).await;
        true
    }

    /// Stores the states of the members without closing the volume. The volume must not answer writes afterwards.
    ///
    /// # Errors
    /// Returns the reasons, as a sentence for the user.
    pub fn close_members(&self) -> Result<(), String> {
        close_states(&self.state_writers())
    }

    /// Claims the device of a further member, if other programs can use the device too.
    ///
    /// # Errors
    /// Returns the reason, as a sentence for the user, if another program uses the device.
    pub(super) fn claimed(&self, served: &Served) -> Result<Arc<dyn BlockDevice>, String> {
        if !is_shared(served) {
            return Ok(served.device.clone());
        }
        let shared = vec![shared_device(served)];
        let claimed = match Claim::has_place(self.volume.usage().bucket) {
            true => self.claims.claim(shared).map(|mut devices| devices.remove(0)),
            false => claim::refuse_in_use(&shared).map(|()| served.device.clone()),
        };
        claimed.map_err(|error| error.to_string())
    }

    /// Returns the sources of further members.
    pub(super) fn sources(&self) -> Sources<'_> {
        Sources { library: &self.library, openers: self.openers, is_simulated: self.codecs.is_some() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::orders::WORK_IS_OVER;
    use crate::wait::wait;
    use flashlab_block::{Executor, Features, Io, Memory, Pages, Started};
    use flashlab_volume::{NewMember, OpenOptions, Options};
    use std::sync::atomic::AtomicBool;

    /// A device in memory whose flushes can fail.
    struct Flushing {
        memory: Memory,
        fails: AtomicBool,
    }

    impl BlockDevice for Flushing {
        fn geometry(&self) -> Geometry {
            BlockDevice::geometry(&self.memory)
        }
        fn features(&self) -> Features {
            self.memory.features()
        }
        fn start(&self, cx: &Context, io: Io) -> Started {
            if matches!(io, Io::Flush) && self.fails.load(Ordering::Relaxed) {
                return Started::Done(Err(IoError::Medium));
            }
            self.memory.start(cx, io)
        }
    }

    /// Returns a volume with some data on one device.
    fn pool() -> (OpenPool, Arc<Flushing>) {
        let memory = Memory::new(8 << 20, Pages::Small).expect("memory");
        let device = Arc::new(Flushing { memory, fails: AtomicBool::new(false) });
        let devices: [Arc<dyn BlockDevice>; 1] = [device.clone()];
        let (cx, member) = (Context::new(Instant::ZERO), NewMember::new(device.clone()));
        let options = Options { bucket: 64 << 10, extent_max: 16 << 10, ..Options::new([7; 16]) };
        wait(Volume::format(&cx, &[member], &options), &devices).expect("a device of the right size");
        let volume =
            wait(Volume::open(&cx, &devices, OpenOptions::default()), &devices).expect("a new volume");
        let pool = OpenPool {
            volume,
            claims: Arc::default(),
            wear: Wear::default(),
            state_writers: Arc::default(),
            scrubs: Arc::default(),
            removals: Arc::default(),
            reconciling: Arc::default(),
            absent: Arc::default(),
            work_errors: Arc::default(),
            library: Arc::new(Library::built_in().expect("the profiles of the crate")),
            openers: &[],
            seed: 1,
            codecs: None,
        };
        store(&pool).write(0, &[7; 4096]).expect("a device that works");
        (pool, device)
    }

    fn store(pool: &OpenPool) -> DeviceStore {
        DeviceStore(Arc::new(pool.volume.clone()))
    }

    fn order(pool: &OpenPool, words: &[&str]) -> Result<String, String> {
        let caller = Caller { advance: &|| (), find_use: &|_| None };
        pool.command(words, &caller).expect("a command of a volume")
    }

    fn gauge(pool: &OpenPool, name: &str) -> f64 {
        pool.gauges().into_iter().find(|gauge| gauge.name == name).expect("a number of a volume").value
    }

    #[test]
    fn background_work_goes_on_after_an_error_of_a_volume_that_works() {
        let (pool, _) = pool();
        let mut executor = Executor::new(1);
        let (cx, working) = (executor.context(), pool.clone());
        let goes_on = executor.block_on(async move { working.goes_on_after(&cx, IoError::Medium).await });
        assert!(goes_on);
        assert_eq!(gauge(&pool, "flashlab_volume_work_errors"), 1.0);
        assert_eq!(gauge(&pool, "flashlab_volume_has_failed"), 0.0);
        assert!(order(&pool, &["scrub"]).is_ok());
    }

    #[test]
    fn background_work_ends_with_a_volume_that_failed_and_orders_are_refused() {
        let (pool, device) = pool();
        device.fails.store(true, Ordering::Relaxed);
        assert!(store(&pool).sync().is_err());
        let mut executor = Executor::new(1);
        let (cx, working) = (executor.context(), pool.clone());
        executor.block_on(async move { working.work(&cx, 0, &|| false).await });
        assert_eq!(order(&pool, &["scrub"]), Err(WORK_IS_OVER.to_owned()));
        assert_eq!(order(&pool, &["scrub", "status"]), Ok("no scrub since the server started\n".to_owned()));
        assert_eq!(pool.removals.reserve(), Err(WORK_IS_OVER.to_owned()));
        assert_eq!(gauge(&pool, "flashlab_volume_has_failed"), 1.0);
        assert_eq!(gauge(&pool, "flashlab_volume_member_is_failing"), 1.0);
    }
}
