//! A journal of the calls to a timed device's model.

use flashlab_sim::{Instant, Op};

/// Records the requests to a model, the power cuts and the returns of power, so that a reader with an older
/// state of the model can replay them: the same calls give the same answers. The device calls the journal
/// before it sends an answer that depends on the recorded call. Calls come one at a time, and `now` never
/// decreases.
pub trait Journal: Send {
    /// Records a request to the model.
    fn submitted(&mut self, now: Instant, op: Op, offset: u64, length: u64);
    /// Records a power cut.
    fn power_cut(&mut self, now: Instant);
    /// Records the return of power.
    fn power_up(&mut self, now: Instant);
}
