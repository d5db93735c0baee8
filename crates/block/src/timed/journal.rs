//! What a timed device's model is told, as it is told.

use flashlab_sim::{Instant, Op};

/// Notes all that changes a model, so that who has the model as it once was can bring it to where it is: the same calls give the
/// same answers. It is called before anything is answered that depends on it, one call at a time, and `now` never decreases.
pub trait Journal: Send {
    /// The model was asked this.
    fn asked(&mut self, now: Instant, op: Op, offset: u64, length: u64);
    /// Power was cut.
    fn power_cut(&mut self, now: Instant);
    /// Power was given again.
    fn power_up(&mut self, now: Instant);
}
