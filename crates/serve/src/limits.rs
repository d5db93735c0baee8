//! Limits on the resources that clients take from a server.
//!
//! A large request is served whole if [`Limits::bytes_in_flight`] and the share of its connection have room
//! for it, and in pieces of [`SMALL`] bytes otherwise. No request waits for the memory of another connection,
//! so a client that stalls delays nobody else.

use crate::rate::LeastRate;
use flashlab_sim::Duration;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Limits on the resources that clients take from a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum number of connections at a time. Further clients wait until one ends.
    pub connections: usize,
    /// Maximum number of bytes of large requests (those above [`SMALL`]) in memory, over all connections. A
    /// connection takes at most an eighth. A payload counts as it arrives, except for its first [`SMALL`]
    /// bytes. The data of a reply counts from the read until it is sent.
    pub bytes_in_flight: u64,
    /// Time that a client has to select an export.
    pub handshake: Duration,
    /// Minimum rate at which a client has to send a request that it has begun, and to receive its replies.
    pub least_rate: LeastRate,
    /// Time after which a connection without requests is closed; `None` leaves it open.
    pub idle: Option<Duration>,
    /// Time after which a connection without requests is closed if another client waits for it; `None` leaves it open.
    pub idle_when_full: Option<Duration>,
    /// Time that connections have to finish when the server ends.
    pub grace: Duration,
    /// True if structured replies are offered. Without them, replies contain no holes, there is no block status, and
    /// clients that use libnbd need two fewer system calls per read.
    pub structured_replies: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 4096,
            bytes_in_flight: 1 << 30,
            handshake: Duration::from_secs(10),
            least_rate: LeastRate::default(),
            idle: None,
            idle_when_full: Some(Duration::from_secs(60)),
            grace: Duration::from_secs(10),
            structured_replies: true,
        }
    }
}

impl Limits {
    /// Returns the time after which a receiving thread checks these limits again.
    pub(crate) fn check_interval(&self) -> Duration {
        let idle = [self.idle, self.idle_when_full].into_iter().flatten();
        idle.fold(self.least_rate.window, Duration::min).max(Duration::from_ms(1))
    }
}

/// Maximum size in bytes of a request that does not count towards [`Limits::bytes_in_flight`]: a connection's own
/// buffers hold it.
pub const SMALL: usize = 1 << 20;

/// Number of connections that may use their maximum share of the bytes in flight at the same time.
const SHARES: u64 = 8;
/// Address space of announced payloads, as a multiple of the bytes in flight. Pages take memory only when
/// bytes arrive in them.
const ADDRESSES: u64 = 4;

/// The memory budget for the large requests of all connections.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes_in_flight: u64,
    bytes: AtomicU64,
    addresses: AtomicU64,
}

/// One connection's share of a [`Budget`].
#[derive(Clone, Debug)]
pub(crate) struct Share<'a> {
    budget: &'a Budget,
    left: Rc<Cell<u64>>,
}

/// Bytes taken from a [`Share`]. Dropping the value returns them.
#[derive(Debug)]
pub(crate) struct Reservation<'a> {
    share: Share<'a>,
    bytes: u64,
}

/// Address space taken from a [`Budget`]. Dropping the value returns it.
#[derive(Debug)]
pub(crate) struct AddressReservation<'a>(&'a Budget, u64);

impl Budget {
    pub(crate) fn new(bytes_in_flight: u64) -> Budget {
        let addresses = bytes_in_flight.saturating_mul(ADDRESSES).into();
        Budget { bytes_in_flight, bytes: bytes_in_flight.into(), addresses }
    }

    /// Returns the share of a new connection.
    pub(crate) fn share(&self) -> Share<'_> {
        self.share_of(self.bytes_in_flight / SHARES)
    }

    /// Returns a share of at most `bytes`.
    pub(crate) fn share_of(&self, bytes: u64) -> Share<'_> {
        Share { budget: self, left: Rc::new(Cell::new(bytes)) }
    }

    /// Reserves address space for an announced payload.
    pub(crate) fn reserve_addresses(&self, bytes: u64) -> Option<AddressReservation<'_>> {
        try_subtract(&self.addresses, bytes).then_some(AddressReservation(self, bytes))
    }
}

impl<'a> Share<'a> {
    /// Takes `bytes`, if the share and the budget both have room.
    pub(crate) fn try_reserve(&self, bytes: u64) -> Option<Reservation<'a>> {
        let left = self.left.get().checked_sub(bytes)?;
        try_subtract(&self.budget.bytes, bytes).then(|| {
            self.left.set(left);
            Reservation { share: self.clone(), bytes }
        })
    }
}

impl<'a> Reservation<'a> {
    /// Splits off `bytes`, or all bytes if there are fewer.
    pub(crate) fn split(&mut self, bytes: u64) -> Reservation<'a> {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Reservation { share: self.share.clone(), bytes }
    }

    /// Adds `other`, which has to belong to the same share.
    pub(crate) fn join(&mut self, mut other: Reservation<'a>) {
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

fn try_subtract(from: &AtomicU64, bytes: u64) -> bool {
    from.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.share.left.update(|left| left + self.bytes);
        self.share.budget.bytes.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

impl Drop for AddressReservation<'_> {
    fn drop(&mut self) {
        self.0.addresses.fetch_add(self.1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_are_limited_by_the_share_and_by_the_budget() {
        let budget = Budget::new(64);
        let shares: Vec<_> = (0..9).map(|_| budget.share()).collect();
        assert!(shares[0].try_reserve(9).is_none());
        let mut reservations: Vec<_> = shares.iter().map_while(|share| share.try_reserve(8)).collect();
        assert_eq!(reservations.len(), 8);
        let half = reservations[0].split(4);
        assert!(shares[8].try_reserve(4).is_none());
        drop(half);
        let mut half = shares[8].try_reserve(4).expect("the other half was returned");
        assert!(shares[0].try_reserve(5).is_none());
        drop(reservations);
        half.join(shares[8].try_reserve(4).expect("the share has another half"));
        assert!(shares[8].try_reserve(1).is_none());
        drop(half);
        assert!(shares[8].try_reserve(8).is_some());
    }
}
