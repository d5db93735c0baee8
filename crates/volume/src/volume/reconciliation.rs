//! One reconciliation: passes over a frozen copy of the map, by priority, until a pass changes nothing.
//!
//! After each pass, a garbage collection makes room where work lacked room. An extent whose work was not
//! possible is not tried again, unless the collection made room for the extent.

use super::limiter::Limiter;
use super::reconcile::{Backlog, Reconciled, Turn};
use super::{Inner, Volume};
use crate::extent::Extent;
use crate::reconcile::{Reason, Work};
use flashlab_block::{Context, IoError};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Largest number of passes. Each pass that changes something brings extents nearer to the goal.
const PASSES_MAX: u32 = 64;

/// A reconciliation, with its result so far.
pub(super) struct Reconciliation<'a, P> {
    volume: &'a Volume,
    cx: &'a Context,
    limiter: Arc<Limiter>,
    progress: P,
    result: Reconciled,
    /// False once `progress` has ended the work.
    goes_on: bool,
    /// Extents whose work is not possible, by their ends, with the reasons.
    given_up: BTreeMap<u64, Reason>,
    turn: Turn,
}

impl<'a, P: FnMut(&Reconciled) -> bool + Send> Reconciliation<'a, P> {
    pub(super) fn new(volume: &'a Volume, cx: &'a Context, rate: u64, progress: P) -> Self {
        let (result, given_up, turn) = (Reconciled::default(), BTreeMap::new(), Turn::new(cx));
        let limiter = Arc::new(Limiter::new(cx, rate));
        Reconciliation { volume, cx, limiter, progress, result, goes_on: true, given_up, turn }
    }

    /// Does all work that can be done.
    pub(super) async fn run(mut self) -> Result<Reconciled, IoError> {
        let (volume, cx, limiter) = (self.volume, self.cx, self.limiter.clone());
        // The journal comes first, because new copies of data could take the space that it needs.
        volume.restore_metadata(cx, &limiter, &mut |bytes| self.collected(bytes)).await?;
        for _ in 0..PASSES_MAX {
            if !self.goes_on {
                break;
            }
            let mut changed = self.pass().await?;
            let inner = volume.gate.pass().await;
            let (position, losses) = {
                let state = inner.lock();
                (state.changes.position(), state.losses)
            };
            inner.commit(cx, position).await?;
            changed |= self.make_room_in_background(&inner).await?;
            drop(inner);
            changed |= self.make_room_for_copies().await?;
            if !changed && volume.gate.current().lock().losses == losses {
                break;
            }
        }
        Ok(self.result)
    }

    /// Reports the result so far. Returns false if the work has to end.
    fn report(&mut self) -> bool {
        self.goes_on = (self.progress)(&self.result);
        self.goes_on
    }

    /// Notes stored bytes that a garbage collection moved. Returns false if the work has to end.
    fn collected(&mut self, bytes: u64) -> bool {
        self.result.moved_bytes += bytes;
        self.report()
    }

    /// Does the next step of each extent that needs one. Returns true if something changed.
    async fn pass(&mut self) -> Result<bool, IoError> {
        let (gate, cx) = (&self.volume.gate, self.cx);
        // The configuration may change between two extents, so the next step of each extent is determined again.
        gate.pass().await.attempt_flushes(cx).await;
        let inner = gate.current();
        inner.attempt_failing(cx, &mut inner.lock());
        let (map, view) = inner.view();
        let Backlog { current, pending } = inner.backlog(&map, &view);
        self.result.pending = pending;
        let mut changed = false;
        for (work, extent) in inner.extents_with(current.into_keys().collect(), &view, map) {
            changed |= self.step(&inner, work, &extent).await?;
            if !self.goes_on {
                break;
            }
        }
        Ok(changed)
    }

    /// Does the next step of an extent, unless it was not possible before. Returns true if it is done.
    async fn step(&mut self, inner: &Inner, work: Work, extent: &Extent) -> Result<bool, IoError> {
        let (cx, bytes) = (self.cx, inner.bytes(extent));
        if let Some(reason) = self.given_up.get(&extent.end()) {
            self.result.pending.entry((work, *reason)).or_default().add(bytes);
            return Ok(false);
        }
        self.turn.begin_extent(inner, cx, bytes).await;
        let before = self.result.moved_bytes;
        let done = self.volume.gate.pass().await.reconcile_extent(cx, extent, &mut self.result).await?;
        match done {
            Ok(()) => self.result.done.entry(work).or_default().add(bytes),
            Err(reason) => {
                self.given_up.insert(extent.end(), reason);
                self.result.pending.entry((work, reason)).or_default().add(bytes);
            }
        }
        if self.report() {
            let (limiter, moved) = (self.limiter.clone(), self.result.moved_bytes - before);
            limiter.wait(cx, moved, &mut || self.report()).await;
        }
        Ok(done.is_ok())
    }

    /// Makes room on a background target that was full. Returns true if there may be room now.
    async fn make_room_in_background(&mut self, inner: &Inner) -> Result<bool, IoError> {
        let is_crowded = self.result.pending.keys().any(|(_, reason)| *reason == Reason::TargetFull);
        if !self.goes_on || !is_crowded {
            return Ok(false);
        }
        let Some(moved) = inner.make_room_in_background(self.cx).await? else { return Ok(false) };
        self.given_up.retain(|_, reason| *reason != Reason::TargetFull);
        self.result.moved_bytes += moved;
        Ok(true)
    }

    /// Makes room for copies that found no space. Returns true if there is room now.
    async fn make_room_for_copies(&mut self) -> Result<bool, IoError> {
        let (volume, cx, limiter) = (self.volume, self.cx, self.limiter.clone());
        let wanted = self.result.waiting_for_space();
        if !self.goes_on || wanted == 0 {
            return Ok(false);
        }
        let progress = &mut |bytes| self.collected(bytes);
        let is_made = volume.make_room_for_copies(cx, (wanted, &limiter), progress).await?;
        if is_made {
            self.given_up.retain(|_, reason| *reason != Reason::NoSpace);
        }
        Ok(is_made)
    }
}
