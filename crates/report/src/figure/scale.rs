//! Positions of values on an axis, and its labelled ticks.

use crate::number;

/// Ratio of the greatest value to the least positive one beyond which an axis without negative values is logarithmic.
pub(crate) const LINEAR_RATIO_MAX: f64 = 50.0;

/// Minimum ratio of a value to the start of a logarithmic axis of bars.
const BAR_MIN: f64 = 1.2;

/// An axis.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Scale {
    /// From `least` to `greatest`.
    Linear { least: f64, greatest: f64 },
    /// From one power of ten to another. With `has_zero`, the start of the axis is zero in place of the least power.
    Logarithmic { least: i32, greatest: i32, has_zero: bool },
}

impl Scale {
    /// Returns the scale for `values`, with room up to `reach`, the top of the deviations.
    pub(crate) fn for_values(values: &[f64], reach: f64) -> Scale {
        let finite = || values.iter().copied().filter(|v| v.is_finite());
        let greatest = finite().chain([reach]).filter(|v| v.is_finite()).fold(0.0, f64::max);
        let least = finite().fold(f64::INFINITY, f64::min);
        let least_positive = finite().filter(|v| *v > 0.0).fold(f64::INFINITY, f64::min);
        if least >= 0.0 && least_positive.is_finite() && greatest / least_positive > LINEAR_RATIO_MAX {
            // Zero takes the place of the power below the least value, so that every other value has a bar. Without a
            // zero, a value close above a power of ten would have no visible bar if the axis began there.
            let has_zero = least == 0.0;
            let least = match has_zero {
                true => least_positive.log10().floor() as i32 - 1,
                false => (least_positive / BAR_MIN).log10().floor() as i32,
            };
            let greatest = (greatest.log10().ceil() as i32).max(least + 1);
            return Scale::Logarithmic { least, greatest, has_zero };
        }
        let least = least.min(0.0);
        let greatest = if greatest > least { greatest } else { least + 1.0 };
        Scale::Linear { least, greatest }
    }

    /// Returns a linear scale for `values` that includes zero, with some space above the greatest value.
    pub(crate) fn from_zero(values: impl Iterator<Item = f64>) -> Scale {
        let (least, greatest) = ends(values.chain([0.0])).unwrap_or((0.0, 0.0));
        let greatest = greatest + (greatest - least) * 0.04;
        Scale::Linear { least, greatest: if greatest > least { greatest } else { least + 1.0 } }
    }

    /// Returns the words that follow the unit in a subtitle.
    pub(crate) fn note(self) -> &'static str {
        match self {
            Scale::Linear { .. } => "",
            Scale::Logarithmic { has_zero: false, .. } => ", logarithmic",
            Scale::Logarithmic { has_zero: true, .. } => {
                ", logarithmic from the first power of ten after zero"
            }
        }
    }

    /// Returns the position of `value`, 0 to 1. A value beyond an end has the position of the end.
    pub(crate) fn fraction(self, value: f64) -> f64 {
        let fraction = match self {
            Scale::Linear { least, greatest } => (value - least) / (greatest - least),
            Scale::Logarithmic { .. } if value <= 0.0 => 0.0,
            Scale::Logarithmic { least, greatest, .. } => {
                (value.log10() - f64::from(least)) / f64::from(greatest - least)
            }
        };
        if fraction.is_nan() { 0.0 } else { fraction.clamp(0.0, 1.0) }
    }

    /// Returns the position at which bars begin: that of zero, or the start of a logarithmic axis.
    pub(crate) fn origin(self) -> f64 {
        match self {
            Scale::Linear { .. } => self.fraction(0.0),
            Scale::Logarithmic { .. } => 0.0,
        }
    }

    /// Returns the values of ticks, with their labels.
    pub(crate) fn ticks(self) -> Vec<(f64, String)> {
        self.ticks_at_most(4.5)
    }

    /// Returns ticks like [`Scale::ticks`], but with at most `count` steps on a linear scale.
    pub(crate) fn ticks_at_most(self, count: f64) -> Vec<(f64, String)> {
        match self {
            Scale::Linear { least, greatest } => {
                let step = step((greatest - least) / count);
                let (first, last) = ((least / step).ceil() as i64, (greatest / step).floor() as i64);
                let decimals = number::decimals_for(step, 1);
                let ticks = (first..=last.min(first.saturating_add(12))).map(|i| i as f64 * step);
                ticks.map(|value| (value, number::tick(value, decimals))).collect()
            }
            Scale::Logarithmic { least, greatest, has_zero } => {
                let stride = ((greatest - least) / 8 + 1) as usize;
                let first = least + i32::from(has_zero);
                let powers = (first..=greatest).step_by(stride).map(|exponent| 10f64.powi(exponent));
                let zero = has_zero.then_some(0.0).into_iter();
                zero.chain(powers)
                    .map(|value| (value, number::tick(value, number::decimals_for(value, 1))))
                    .collect()
            }
        }
    }
}

/// Returns the least and the greatest of the finite values.
pub(crate) fn ends(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|v| v.is_finite()).fold(None, |ends, v| match ends {
        None => Some((v, v)),
        Some((least, greatest)) => Some((f64::min(least, v), f64::max(greatest, v))),
    })
}

/// Returns the smallest product of 1, 2 or 5 and a power of ten that is not less than `wanted`.
pub(crate) fn step(wanted: f64) -> f64 {
    if !(wanted > 0.0 && wanted.is_finite()) {
        return 1.0;
    }
    let power = 10f64.powf(wanted.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|digit| digit * power)
        .find(|s| *s >= wanted * 0.999_999)
        .unwrap_or(power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_range_of_positive_values_is_logarithmic() {
        let scale = Scale::for_values(&[1.3, 773.0], 1111.0);
        assert_eq!(scale, Scale::Logarithmic { least: 0, greatest: 4, has_zero: false });
        assert_eq!(scale.fraction(100.0), 0.5);
        assert_eq!(scale.fraction(-5.0), 0.0);
        assert_eq!(scale.ticks().len(), 5);
    }

    #[test]
    fn the_least_value_of_a_logarithmic_axis_has_a_bar() {
        for least in [0.1, 1.0, 1.1, 10.0] {
            let scale = Scale::for_values(&[least, 1000.0 * least], 1000.0 * least);
            assert!(scale.fraction(least) > 0.015, "{least}: {scale:?}");
        }
    }

    #[test]
    fn a_zero_keeps_the_logarithmic_axis_and_is_its_start() {
        let scale = Scale::for_values(&[10.0, 773.0, 0.0], 773.0);
        assert_eq!(scale, Scale::Logarithmic { least: 0, greatest: 3, has_zero: true });
        assert_eq!(scale.fraction(0.0), 0.0);
        assert!(scale.fraction(10.0) > 0.3, "the least positive value has a bar");
        let ticks = scale.ticks();
        let labels: Vec<&str> = ticks.iter().map(|(_, label)| label.as_str()).collect();
        assert_eq!(labels, ["0", "10", "100", "1,000"]);
        assert_eq!(ticks[0].0, 0.0);
    }

    #[test]
    fn zero_beside_one_positive_value_leaves_the_axis_linear() {
        assert!(matches!(Scale::for_values(&[0.0, 773.0], 773.0), Scale::Linear { .. }));
        assert!(matches!(Scale::for_values(&[-1.0, 0.0, 1.0, 773.0], 773.0), Scale::Linear { .. }));
    }

    #[test]
    fn a_linear_axis_begins_at_zero() {
        let scale = Scale::for_values(&[24.0, 41.0], 42.0);
        assert_eq!(scale.origin(), 0.0);
        assert_eq!(scale.fraction(42.0), 1.0);
        let labels: Vec<String> = scale.ticks().into_iter().map(|(_, label)| label).collect();
        assert_eq!(labels, ["0", "10", "20", "30", "40"]);
    }

    #[test]
    fn an_axis_without_values_still_has_a_scale() {
        for values in [&[][..], &[0.0], &[f64::NAN], &[-3.0], &[1e300, -1e300]] {
            let scale = Scale::for_values(values, f64::NAN);
            assert!(scale.fraction(1.0).is_finite());
            assert!(scale.ticks().len() < 20);
        }
    }
}
