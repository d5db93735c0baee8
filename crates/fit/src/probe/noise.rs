//! The noise of the host: delays that requests meet on the way to the device and back.
//!
//! A control measurement repeats one read at one place. A device takes nearly the same time for each
//! repetition, so the shortest time shows the device, and the excess of the others shows the host. Controls
//! run between the patterns, and between the series of patterns that read. A finding that rests on times
//! keeps its high confidence only if the effect behind it is larger than the effect that the measured delays
//! can feign. Delays of earlier patterns count as well, because a load may come in phases:
//!
//! - Threads of a busy host wait at the same time, so that a greater queue depth hides their delays. A gain from queue
//!   depth must exceed three mean delays.
//! - A load that begins or ends during a pattern makes one of two series slower. A difference of means must exceed the
//!   largest mean delay, and four times the difference between the largest and the smallest mean delay.
//! - A stall makes a single request slow. A difference between single requests must exceed the longest delay.

use super::Confidence;

/// Number of reads that warm up the device at the start of a control measurement, and are not evaluated.
pub(super) const WARM: usize = 8;
/// Number of evaluated reads of a control measurement.
pub(super) const READS: usize = 256;
/// Share of the device's time above which the mean delay is worth a remark.
const WORTH_A_REMARK: f64 = 0.05;

/// The effect behind a finding, as a time per request in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) enum Effect {
    /// The finding does not rest on times.
    #[default]
    Untimed,
    /// Difference between the means of two series.
    Means(f64),
    /// Difference between single requests.
    Singles(f64),
    /// Time that a greater queue depth saves.
    Overlap(f64),
}

/// A control measurement: the shortest read, and the mean and the longest delay beyond it, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Control {
    shortest: f64,
    mean: f64,
    longest: f64,
}

impl Control {
    /// Returns the delays of repeated reads with these latencies.
    pub(super) fn of(latencies: &[f64]) -> Control {
        let shortest = latencies.iter().copied().reduce(f64::min).unwrap_or(0.0);
        let longest = latencies.iter().copied().reduce(f64::max).unwrap_or(0.0) - shortest;
        let mean = super::statistics::mean(latencies) - shortest;
        Control { shortest, mean: mean.max(0.0), longest }
    }
}

/// The delays of the host up to the end of a pattern.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Noise {
    controls: Vec<Control>,
}

impl Noise {
    /// Returns the noise that these controls show.
    pub(super) fn of(controls: Vec<Control>) -> Noise {
        Noise { controls }
    }

    fn greatest(&self, of: fn(&Control) -> f64) -> f64 {
        self.controls.iter().map(of).fold(0.0, f64::max)
    }

    fn mean(&self) -> f64 {
        self.greatest(|control| control.mean)
    }

    /// Returns the greatest confidence that a finding with this effect can have.
    pub(super) fn limit(&self, effect: Effect) -> Confidence {
        let least = self.controls.iter().map(|control| control.mean).reduce(f64::min).unwrap_or(0.0);
        let change = self.mean() - least;
        let is_certain = match effect {
            Effect::Untimed => true,
            Effect::Means(time) => time >= self.mean() && time >= 4.0 * change,
            Effect::Singles(time) => time >= self.greatest(|control| control.longest),
            Effect::Overlap(time) => time >= 3.0 * self.mean(),
        };
        if is_certain { Confidence::High } else { Confidence::Low }
    }

    /// Returns a remark about delays that may hide or feign the effect of a finding; `None` on a quiet host.
    pub(super) fn remark(&self) -> Option<String> {
        let time = self.controls.iter().map(|control| control.shortest).reduce(f64::min).unwrap_or(0.0);
        let (mean, longest) = (self.mean(), self.greatest(|control| control.longest));
        (mean > WORTH_A_REMARK * time).then(|| {
            format!("the host delays requests by {:.0} us, and up to {:.0} us", mean / 1e3, longest / 1e3)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(before: &[f64], after: &[f64]) -> Noise {
        Noise::of(vec![Control::of(before), Control::of(after)])
    }

    #[test]
    fn a_quiet_host_limits_nothing() {
        let quiet = noise(&[500e3; 4], &[500e3; 4]);
        for effect in [Effect::Untimed, Effect::Means(1.0), Effect::Singles(1.0), Effect::Overlap(1.0)] {
            assert_eq!(quiet.limit(effect), Confidence::High);
        }
        assert_eq!(quiet.remark(), None);
    }

    #[test]
    fn each_effect_must_exceed_the_delays_that_feign_it() {
        // The mean delay is 100 us before the pattern (0, 0, 0 and 400 us) and 150 us after it.
        let noisy = noise(&[500e3, 500e3, 500e3, 900e3], &[700e3, 700e3, 700e3, 1_300e3]);
        let limits = |effect: fn(f64) -> Effect, enough: f64| {
            assert_eq!(noisy.limit(effect(0.99 * enough)), Confidence::Low);
            assert_eq!(noisy.limit(effect(1.01 * enough)), Confidence::High);
        };
        limits(Effect::Means, 200e3);
        limits(Effect::Singles, 600e3);
        limits(Effect::Overlap, 450e3);
        assert_eq!(noisy.limit(Effect::Untimed), Confidence::High);
        assert_eq!(noisy.remark().as_deref(), Some("the host delays requests by 150 us, and up to 600 us"));
    }
}
