//! Claims on members that nothing locks, such as the exports of NBD servers.
//!
//! Two programs that write to one volume destroy it. A lock on the file keeps the second one away from a file, and an
//! exclusive opening from a block device, but any number of clients may use an export. So a program that opens such a member
//! for writing stores a claim on it, and renews the claim every two seconds:
//!
//! - The next program finds the claim, watches it for six seconds, and opens the volume only if it was not renewed: its
//!   owner was killed. The owner of a volume that is closed releases its claims, so nobody waits.
//! - An owner that finds the claim of another program sends no more requests to the member. An owner that was suspended for
//!   some seconds looks at its claim before each request until it has renewed it.

use super::random;
use crate::ServedError;
use crate::wait::execute;
use flashlab_block::{Answer, BlockDevice, Context, Features, Geometry, Io, IoError, Payload, Started};
use flashlab_sim::Instant;
use flashlab_volume::format::{CLAIM_OFFSET, CLAIM_SIZE, Claim, SUPERBLOCK_SIZE, Superblock, copy_offsets};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{self, Duration};

/// Time between two renewals of a claim.
const RENEW_EVERY: Duration = Duration::from_secs(2);
/// Age of a renewal from which on the owner looks at its claim before each request. It is shorter than [`WATCH`].
const STALE_AFTER: Duration = Duration::from_secs(4);
/// Time without a renewal after which the owner of a claim counts as gone.
const WATCH: Duration = Duration::from_secs(6);
/// Time between a new claim and the look whether another program has written one at the same moment.
const SETTLE: Duration = Duration::from_millis(200);

/// A device that nothing locks, with its name.
pub(super) type Shared = (String, Arc<dyn BlockDevice>);

/// The claims of an open volume.
#[derive(Default)]
pub(super) struct Claims {
    /// Random identifier of this opening of the volume.
    owner: OnceLock<[u8; 16]>,
    leases: Mutex<Vec<Weak<Lease>>>,
}

impl Claims {
    /// Claims devices. Returns devices in the same order that pass on requests while the claim holds.
    ///
    /// # Errors
    /// Fails if another program has opened a device for writing.
    pub(super) fn claim(&self, devices: Vec<Shared>) -> Result<Vec<Arc<dyn BlockDevice>>, ServedError> {
        self.claim_with(devices, &thread::sleep, RENEW_EVERY)
    }

    fn claim_with(
        &self,
        devices: Vec<Shared>,
        pause: &dyn Fn(Duration),
        renew_every: Duration,
    ) -> Result<Vec<Arc<dyn BlockDevice>>, ServedError> {
        if devices.is_empty() {
            return Ok(Vec::new());
        }
        let new = random()?;
        let owner = *self.owner.get_or_init(|| new);
        // A member that returns has a claim of this opening.
        let found = refuse_in_use_with(&devices, Some(owner), pause)?;
        let leases: Vec<Arc<Lease>> = devices
            .into_iter()
            .zip(found)
            .map(|(device, found)| Arc::new(Lease::new(device, owner, found)))
            .collect();
        // An error of a member is the business of the volume.
        let taken: Vec<bool> = leases.iter().map(|lease| lease.take()).collect();
        if taken.contains(&true) {
            pause(SETTLE);
        }
        let mut claimed = leases.iter().zip(taken).filter(|(_, taken)| *taken);
        if let Some((lost, _)) = claimed.find(|(lease, _)| !lease.renew()) {
            leases.iter().for_each(|lease| lease.release());
            return Err(ServedError::InUse(lost.name.clone()));
        }
        self.lock().extend(leases.iter().map(Arc::downgrade));
        let start = |lease: Arc<Lease>| -> Arc<dyn BlockDevice> {
            let renewing = lease.clone();
            let thread = thread::Builder::new().name("claim".to_owned());
            // Without a thread, each request looks at the claim.
            let _ = thread.spawn(move || renewing.renew_until_end(renew_every));
            Arc::new(Claimed(lease))
        };
        Ok(leases.into_iter().map(start).collect())
    }

    /// Releases all claims. Their devices accept no more requests.
    pub(super) fn release(&self) {
        let leases = std::mem::take(&mut *self.lock());
        leases.iter().filter_map(Weak::upgrade).for_each(|lease| lease.release());
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Lease>>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refuses devices that another program has opened for writing.
///
/// # Errors
/// Returns the error for the first device whose claim is renewed.
pub(super) fn refuse_in_use(devices: &[Shared]) -> Result<(), ServedError> {
    refuse_in_use_with(devices, None, &thread::sleep).map(drop)
}

/// Refuses devices with claims of others that are renewed. Returns the claims that were found.
fn refuse_in_use_with(
    devices: &[Shared],
    owner: Option<[u8; 16]>,
    pause: &dyn Fn(Duration),
) -> Result<Vec<Option<Claim>>, ServedError> {
    let found: Vec<Option<Claim>> = devices.iter().map(|(_, device)| read_claim(&**device)).collect();
    let is_foreign = |claim: &Claim| claim.is_held() && Some(claim.owner) != owner;
    let Some(held) = found.iter().position(|claim| claim.as_ref().is_some_and(is_foreign)) else {
        return Ok(found);
    };
    let (name, seconds) = (&devices[held].0, WATCH.as_secs());
    tracing::info!(
        "{name}: the volume was not closed, or another program uses it; this takes {seconds} s to find out"
    );
    pause(WATCH);
    let is_changed = |found: &Option<Claim>, device: &dyn BlockDevice| {
        found.as_ref().is_none_or(is_foreign) && read_claim(device) != *found
    };
    let changed = devices.iter().zip(&found).find(|((_, device), found)| is_changed(found, &**device));
    match changed {
        Some(((name, _), _)) => Err(ServedError::InUse(name.clone())),
        None => Ok(found),
    }
}

fn read_claim(device: &dyn BlockDevice) -> Option<Claim> {
    execute(device, request()).ok().and_then(|answer| claim_in(&answer))
}

/// Returns the request that reads a claim.
fn request() -> Io {
    Io::Read { offset: CLAIM_OFFSET, buffer: vec![0; CLAIM_SIZE] }
}

/// Returns the claim in the answer to [`request`], if there is one.
fn claim_in(answer: &Answer) -> Option<Claim> {
    let Answer::Read(bytes) = answer else { return None };
    Claim::decode(bytes).ok()
}

/// Returns true if the device is a member of a volume that leaves a place for a claim.
fn has_place(device: &dyn BlockDevice) -> bool {
    copy_offsets(device.geometry().capacity).into_iter().any(|offset| {
        let read = Io::Read { offset, buffer: vec![0; SUPERBLOCK_SIZE] };
        let Ok(Answer::Read(bytes)) = execute(device, read) else { return false };
        Superblock::decode(&bytes).is_ok_and(|superblock| Claim::has_place(superblock.bucket))
    })
}

/// The claim of this program on one device.
struct Lease {
    name: String,
    device: Arc<dyn BlockDevice>,
    owner: [u8; 16],
    /// The claim on the device when it was opened: its owner is gone.
    found: Option<Claim>,
    /// True if another program has the device.
    is_lost: AtomicBool,
    /// True if the claim was released.
    is_over: AtomicBool,
    /// Number of renewals; zero if the device has no claim, because it is no member yet or has no place for one. The
    /// lock is held while the claim is read and written.
    renewals: Mutex<u64>,
    /// Time of the last renewal.
    renewed: Mutex<Option<time::Instant>>,
}

impl Lease {
    fn new((name, device): Shared, owner: [u8; 16], found: Option<Claim>) -> Lease {
        let (is_lost, is_over, renewals, renewed) = Default::default();
        Lease { name, device, owner, found, is_lost, is_over, renewals, renewed }
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.renewals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn renewed(&self) -> MutexGuard<'_, Option<time::Instant>> {
        self.renewed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the first claim. Returns false if the device has no place for one, or fails.
    fn take(&self) -> bool {
        has_place(&*self.device) && self.write(&mut self.lock())
    }

    fn write(&self, renewals: &mut u64) -> bool {
        let is_written = self.store(Claim { owner: self.owner, renewal: *renewals + 1 });
        if is_written {
            *renewals += 1;
            *self.renewed() = Some(now());
        }
        is_written
    }

    fn store(&self, claim: Claim) -> bool {
        let data = Payload::from(claim.encode());
        execute(&*self.device, Io::Write { offset: CLAIM_OFFSET, data, durable: false }).is_ok()
    }

    /// Renews the claim. Returns false if another program has the device.
    fn renew(&self) -> bool {
        let mut renewals = self.lock();
        if self.is_over.load(Ordering::SeqCst) {
            return true;
        }
        match execute(&*self.device, request()).map(|answer| claim_in(&answer)) {
            Ok(claim) if *renewals == 0 && self.is_free(claim) || self.is_own(claim) => {
                self.write(&mut renewals);
            }
            Ok(_) => self.lose(),
            // The member fails, which the volume notices by itself.
            Err(_) => {}
        }
        !self.is_lost.load(Ordering::SeqCst)
    }

    fn is_own(&self, claim: Option<Claim>) -> bool {
        claim.is_some_and(|claim| claim.owner == self.owner)
    }

    /// Returns true if no other program has claimed the device since it was opened.
    fn is_free(&self, claim: Option<Claim>) -> bool {
        claim.is_none_or(|claim| !claim.is_held() || Some(claim) == self.found)
    }

    fn lose(&self) {
        if !self.is_lost.swap(true, Ordering::SeqCst) {
            tracing::error!(
                "{}: another program has opened this member for writing; no further request is sent to it",
                self.name
            );
        }
    }

    /// Renews the claim until it is released or lost. A device that becomes a member gets its first claim.
    fn renew_until_end(&self, every: Duration) {
        loop {
            thread::park_timeout(every);
            let is_member = *self.lock() > 0 || has_place(&*self.device);
            if self.is_over.load(Ordering::SeqCst) || is_member && !self.renew() {
                return;
            }
        }
    }

    /// Returns true if the last renewal is so old that another program may have the device.
    fn is_stale(&self) -> bool {
        self.renewed().is_some_and(|at| now().saturating_duration_since(at) > STALE_AFTER)
    }

    /// Returns the error of a request that must not reach the device.
    fn refusal(&self) -> Option<IoError> {
        let is_ended = self.is_lost.load(Ordering::SeqCst) || self.is_over.load(Ordering::SeqCst);
        is_ended.then_some(IoError::ShuttingDown)
    }

    fn release(&self) {
        let renewals = self.lock();
        let was_over = self.is_over.swap(true, Ordering::SeqCst);
        if !was_over && *renewals > 0 && !self.is_lost.load(Ordering::SeqCst) {
            // If this fails, the next program watches the claim.
            let _ = self.store(Claim { owner: self.owner, renewal: 0 });
        }
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "a claim on a device that other programs use expires in real time"
)]
fn now() -> time::Instant {
    time::Instant::now()
}

/// A device that passes on requests while the claim on it holds. Releases the claim when it is dropped.
struct Claimed(Arc<Lease>);

impl Drop for Claimed {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl BlockDevice for Claimed {
    fn geometry(&self) -> Geometry {
        self.0.device.geometry()
    }
    fn features(&self) -> Features {
        self.0.device.features()
    }
    fn start(&self, cx: &Context, io: Io) -> Started {
        if let Some(error) = self.0.refusal() {
            return Started::Done(Err(error));
        }
        if !self.0.is_stale() {
            return self.0.device.start(cx, io);
        }
        let (lease, cx) = (self.0.clone(), cx.clone());
        Started::Pending(Box::pin(async move {
            let answer = lease.device.start(&cx, request()).outcome().await?;
            if !lease.is_own(claim_in(&answer)) {
                lease.lose();
            }
            match lease.refusal() {
                Some(error) => Err(error),
                None => lease.device.start(&cx, io).outcome().await,
            }
        }))
    }
    fn next_due(&self) -> Option<Instant> {
        self.0.device.next_due()
    }
    fn advance(&self, now: Instant) {
        self.0.device.advance(now);
    }
    fn power_losses(&self) -> u64 {
        self.0.device.power_losses()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::wait;
    use flashlab_block::{Memory, Pages};
    use flashlab_volume::{NewMember, Options, Volume};
    use std::cell::Cell;

    /// No thread of a test renews a claim by itself.
    const NEVER: Duration = Duration::from_secs(1 << 20);

    fn disk() -> Arc<dyn BlockDevice> {
        Arc::new(Memory::new(8 << 20, Pages::Small).expect("memory"))
    }

    /// Makes a device the member of a new volume.
    fn format(device: &Arc<dyn BlockDevice>, bucket: u32) {
        let options = Options { bucket, extent_max: 4096, ..Options::new([7; 16]) };
        let (cx, members) = (Context::new(Instant::ZERO), [NewMember::new(device.clone())]);
        let formatted = Volume::format(&cx, &members, &options);
        wait(formatted, std::slice::from_ref(device)).expect("a device of the right size");
    }

    fn member() -> Arc<dyn BlockDevice> {
        let device = disk();
        format(&device, 64 << 10);
        device
    }

    /// Claims a device as another program would; `pause` runs instead of each pause.
    fn claim(
        device: &Arc<dyn BlockDevice>,
        pause: &dyn Fn(Duration),
    ) -> (Claims, Result<Arc<dyn BlockDevice>, String>) {
        let claims = Claims::default();
        let claimed = claims.claim_with(vec![("nbd://a".to_owned(), device.clone())], pause, NEVER);
        let claimed = claimed.map(|mut devices| devices.remove(0)).map_err(|error| error.to_string());
        (claims, claimed)
    }

    fn write(device: &dyn BlockDevice) -> Result<(), IoError> {
        let data = Payload::from(vec![1; 4096]);
        execute(device, Io::Write { offset: 1 << 20, data, durable: false }).map(drop)
    }

    fn lease(claims: &Claims) -> Arc<Lease> {
        claims.lock()[0].upgrade().expect("the device is in use")
    }

    const DONE: Result<(), IoError> = Ok(());
    const OVER: Result<(), IoError> = Err(IoError::ShuttingDown);

    #[test]
    fn a_member_in_use_is_refused_and_its_owner_goes_on() {
        let device = member();
        let (first, claimed) = claim(&device, &|_| ());
        let claimed = claimed.expect("nobody else uses it");
        let (_, second) = claim(&device, &|_| assert!(lease(&first).renew()));
        assert!(second.is_err_and(|error| error.contains("nbd://a")));
        assert_eq!((write(&*claimed), lease(&first).renew()), (DONE, true));
        let shared = [("nbd://a".to_owned(), device.clone())];
        assert!(refuse_in_use_with(&shared, None, &|_| assert!(lease(&first).renew())).is_err());
    }

    #[test]
    fn a_member_of_a_killed_program_is_watched_once_and_taken_over() {
        let device = member();
        let (first, claimed) = claim(&device, &|_| ());
        let claimed = claimed.expect("nobody else uses it");
        let watched = Cell::new(0);
        let (_, second) = claim(&device, &|time| watched.set(watched.get() + u32::from(time == WATCH)));
        assert_eq!((watched.get(), second.map(|device| write(&*device))), (1, Ok(DONE)));
        // The first program was suspended only. It finds the other claim, and stops.
        assert_eq!((lease(&first).renew(), write(&*claimed)), (false, OVER));
    }

    #[test]
    fn a_suspended_owner_looks_at_its_claim_before_its_next_request() {
        let device = member();
        let (first, claimed) = claim(&device, &|_| ());
        let claimed = claimed.expect("nobody else uses it");
        let long_ago = now().checked_sub(STALE_AFTER * 2).expect("the machine runs for a while");
        *lease(&first).renewed() = Some(long_ago);
        assert_eq!(write(&*claimed), DONE);
        let (_, second) = claim(&device, &|_| ());
        assert_eq!((write(&*claimed), second.map(|device| write(&*device))), (OVER, Ok(DONE)));
    }

    #[test]
    fn a_closed_member_opens_without_a_pause_and_accepts_no_late_request() {
        let device = member();
        let (first, claimed) = claim(&device, &|_| ());
        let claimed = claimed.expect("nobody else uses it");
        first.release();
        assert_eq!(write(&*claimed), OVER);
        let no_watch = |time: Duration| assert_ne!(time, WATCH);
        let (_, second) = claim(&device, &no_watch);
        drop(second.expect("the claim was released"));
        assert!(claim(&device, &no_watch).1.is_ok(), "a dropped device releases its claim");
    }

    #[test]
    fn a_member_that_returns_to_the_program_that_claimed_it_is_not_watched() {
        let device = member();
        let (claims, first) = claim(&device, &|_| ());
        let again = claims.claim_with(
            vec![("nbd://b".to_owned(), device.clone())],
            &|time| assert_ne!(time, WATCH),
            NEVER,
        );
        let again = again.expect("the claim is its own");
        assert_eq!((write(&*again[0]), first.map(|device| write(&*device))), (DONE, Ok(DONE)));
    }

    #[test]
    fn of_two_programs_that_claim_at_the_same_moment_the_later_one_wins() {
        let device = member();
        let (later, winner) = (Claims::default(), Cell::new(None));
        let (_, first) = claim(&device, &|_| {
            let shared = vec![("nbd://a".to_owned(), device.clone())];
            // The other program looked for a claim before there was one.
            let zeroes = Payload::from(vec![0; CLAIM_SIZE]);
            execute(&*device, Io::Write { offset: CLAIM_OFFSET, data: zeroes, durable: false })
                .expect("memory");
            winner.set(later.claim_with(shared, &|_| (), NEVER).ok());
        });
        assert!(first.is_err());
        assert_eq!(winner.take().map(|devices| write(&*devices[0])), Some(DONE));
    }

    #[test]
    fn a_late_first_claim_replaces_that_of_a_killed_program_only() {
        let device = disk();
        let (first, claimed) = claim(&device, &|_| ());
        let claimed = claimed.expect("it is free");
        format(&device, 64 << 10);
        let (killed, second) = claim(&device, &|_| ());
        let second = second.expect("the first program has no claim yet");
        assert_eq!((lease(&first).renew(), write(&*claimed), write(&*second)), (false, OVER, DONE));

        // The second program is killed: its claim stays, and is no longer renewed.
        std::mem::forget(second);
        let superblocks = copy_offsets(device.geometry().capacity);
        for offset in superblocks {
            let data = Payload::from(vec![0; SUPERBLOCK_SIZE]);
            execute(&*device, Io::Write { offset, data, durable: false }).expect("memory");
        }
        let (third, claimed) = claim(&device, &|_| ());
        let claimed = claimed.expect("nobody renews the claim");
        format(&device, 64 << 10);
        assert_eq!((lease(&third).renew(), write(&*claimed), lease(&killed).renew()), (true, DONE, false));
    }

    #[test]
    fn a_device_gets_its_claim_when_it_becomes_a_member_with_a_place_for_one() {
        for (bucket, is_claimed) in [(16 << 10, false), (32 << 10, true)] {
            let device = disk();
            let (claims, claimed) = claim(&device, &|_| ());
            assert_eq!(claimed.map(|device| write(&*device)).expect("it is free"), DONE);
            assert_eq!(read_claim(&*device), None);
            let (kept, claimed) = claim(&device, &|_| ());
            let claimed = claimed.expect("it is free");
            format(&device, bucket);
            assert_eq!(has_place(&*device), is_claimed);
            let lease = lease(&kept);
            if has_place(&*device) {
                assert!(lease.renew());
            }
            assert_eq!(read_claim(&*device).is_some_and(|claim| claim.is_held()), is_claimed);
            drop((claimed, claims));
        }
    }
}
