//! Random samples of a space.

use crate::error::SweepError;
use crate::plan::POINTS_MAX;
use crate::point::{Point, Value};
use flashlab_sim::Rng;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// A random sample. The nth point depends only on the ranges, the seed and n, so a larger sample begins with
/// the smaller one.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// Number of points.
    #[serde(deserialize_with = "count")]
    pub(crate) count: u64,
    /// Seed of the draws.
    #[serde(default = "one")]
    pub(crate) seed: u64,
    /// The range of each name.
    #[serde(deserialize_with = "crate::plan::in_order", serialize_with = "crate::plan::as_map")]
    pub(crate) range: Vec<(String, Range)>,
}

fn one() -> u64 {
    1
}

/// Reads a number of points, which is at least 1. The plan checks the upper bound for all kinds of points.
fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    struct Count;
    impl Visitor<'_> for Count {
        type Value = u64;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a number of points from 1 to {POINTS_MAX}")
        }

        fn visit_i64<E: de::Error>(self, value: i64) -> Result<u64, E> {
            let count = u64::try_from(value).ok().filter(|count| *count > 0);
            count.ok_or_else(|| {
                E::custom(format_args!("{value} is not a valid number of points; give at least 1"))
            })
        }

        fn visit_u64<E: de::Error>(self, value: u64) -> Result<u64, E> {
            self.visit_i64(i64::try_from(value).unwrap_or(i64::MAX))
        }
    }
    deserializer.deserialize_u64(Count)
}

/// The values of a name.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Range {
    /// A value from a list, each with the same probability.
    Choice(Vec<Value>),
    /// A number between two bounds with the same unit: `{ from = "100us", to = "2ms", scale = "log" }`.
    Between(Between),
}

/// Two bounds of a number.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Between {
    from: Value,
    to: Value,
    #[serde(default)]
    scale: Scale,
    /// True to draw whole numbers only. On a linear scale, they have the same probability.
    #[serde(default)]
    whole: bool,
}

/// The scale on which the draws are uniform.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scale {
    /// The number itself.
    #[default]
    Linear,
    /// The logarithm of the number.
    Log,
}

impl Sample {
    /// Draws the points.
    pub(crate) fn points(&self) -> Result<Vec<Point>, SweepError> {
        let ranges: Result<Vec<Drawn<'_>>, _> =
            self.range.iter().map(|(name, range)| Drawn::new(name, range)).collect();
        let ranges = ranges?;
        let point = |n| {
            let mut rng = Rng::for_purpose(self.seed, n);
            Point(ranges.iter().map(|range| (range.name.to_owned(), range.draw(&mut rng))).collect())
        };
        Ok((0..self.count).map(point).collect())
    }
}

/// A range that has been checked.
struct Drawn<'a> {
    name: &'a str,
    kind: DrawnKind<'a>,
}

enum DrawnKind<'a> {
    Choice(&'a [Value]),
    Between { from: f64, to: f64, unit: Option<&'a str>, scale: Scale, whole: bool },
}

impl<'a> Drawn<'a> {
    fn new(name: &'a str, range: &'a Range) -> Result<Drawn<'a>, SweepError> {
        let fault = |fault: &str| SweepError::Plan(format!("sample.range: {name}: {fault}"));
        let kind = match range {
            Range::Choice(values) if values.is_empty() => return Err(fault("the list has no values")),
            Range::Choice(values) => DrawnKind::Choice(values),
            Range::Between(Between { from, to, scale, whole }) => {
                let bounds = split(from).zip(split(to));
                let ((from, unit), (to, other)) = bounds.ok_or_else(|| {
                    fault("a bound is a number with or without a unit, such as 3, 0.5 or \"250us\"")
                })?;
                if unit != other {
                    return Err(fault("the bounds have different units; write both in the same one"));
                }
                if from >= to {
                    return Err(fault("`from` has to be smaller than `to`"));
                }
                if *scale == Scale::Log && from <= 0.0 {
                    return Err(fault("on a logarithmic scale, `from` has to be above zero"));
                }
                if *whole && from.ceil() > to.floor() {
                    return Err(fault("there is no whole number between `from` and `to`"));
                }
                DrawnKind::Between { from, to, unit, scale: *scale, whole: *whole }
            }
        };
        Ok(Drawn { name, kind })
    }

    fn draw(&self, rng: &mut Rng) -> Value {
        match self.kind {
            DrawnKind::Choice(values) => values[rng.below(values.len() as u64) as usize].clone(),
            DrawnKind::Between { from, to, unit, scale, whole } => {
                let share = rng.unit();
                let between = |from: f64, to: f64| match scale {
                    Scale::Linear => from + (to - from) * share,
                    Scale::Log => from * (share * (to / from).ln()).exp(),
                };
                let number = if whole {
                    let (least, greatest) = (from.ceil(), to.floor());
                    // Each whole number, including the ends, represents the range that rounds to it. Adding
                    // 0.0 turns -0 into 0.
                    between(least - 0.5, greatest + 0.5).round().clamp(least, greatest) + 0.0
                } else {
                    rounded(between(from, to), from, to)
                };
                unit.map_or(Value::Number(number), |unit| Value::Text(format!("{number}{unit}")))
            }
        }
    }
}

/// Splits a value into its number and its unit. The unit is `None` if the plan has a number instead of text.
fn split(value: &Value) -> Option<(f64, Option<&str>)> {
    match value {
        Value::Number(number) => Some((*number, None)),
        Value::Flag(_) => None,
        Value::Text(text) => {
            let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
            Some((text[..end].parse().ok()?, Some(&text[end..])))
        }
    }
}

/// Rounds a number between `from` and `to`, so that it is short and the same on every machine. The result has
/// six significant digits, or more if the range would otherwise have fewer than about a hundred values.
fn rounded(number: f64, from: f64, to: f64) -> f64 {
    let magnitude = from.abs().max(to.abs());
    let digits = (exponent(magnitude) - exponent(to - from) + 3).clamp(6, 17) as usize;
    let text = format!("{number:.*e}", digits - 1);
    text.parse::<f64>().expect("a formatted number is a number").clamp(from, to)
}

/// Returns the decimal exponent of a positive number: 2 for 123.
fn exponent(number: f64) -> i32 {
    let text = format!("{number:e}");
    let exponent = text.split_once('e').and_then(|(_, exponent)| exponent.parse().ok());
    exponent.expect("the scientific notation has an exponent")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(text: &str) -> Sample {
        toml::from_str(text).expect("the text is a sample")
    }

    const TWO: &str = "[range]\n\"flash.t_prog\" = { from = \"100us\", to = \"10000us\", scale = \"log\" }\n\
                       \"ftl.victim\" = [\"greedy\", \"fifo\"]\n";

    #[test]
    fn a_larger_sample_begins_with_the_smaller_one() {
        let small = sample(&format!("count = 10\n{TWO}")).points().unwrap();
        let large = sample(&format!("count = 100\n{TWO}")).points().unwrap();
        assert_eq!(small[..], large[..10]);
        let other = sample(&format!("count = 10\nseed = 2\n{TWO}")).points().unwrap();
        assert_ne!(small, other);
    }

    #[test]
    fn draws_are_uniform_on_their_scale_and_keep_the_unit() {
        let points = sample(&format!("count = 4000\n{TWO}")).points().unwrap();
        let times: Vec<f64> = points
            .iter()
            .map(|point| match split(&point.0[0].1) {
                Some((number, Some("us"))) => number,
                other => panic!("{other:?}"),
            })
            .collect();
        assert!(times.iter().all(|time| (100.0..=10_000.0).contains(time)));
        let below = times.iter().filter(|time| **time < 1_000.0).count();
        assert!((1_880..2_120).contains(&below), "half of the draws lie below the geometric mean: {below}");
        let greedy = points.iter().filter(|point| point.0[1].1 == Value::Text("greedy".into())).count();
        assert!((1_880..2_120).contains(&greedy), "{greedy}");
    }

    #[test]
    fn draws_from_a_narrow_range_of_large_numbers_stay_inside() {
        let points = sample("count = 100\n[range]\na = { from = 1234561, to = 1234564 }").points().unwrap();
        let draws: Vec<f64> = points.iter().filter_map(|point| Some(split(&point.0[0].1)?.0)).collect();
        assert!(draws.iter().all(|draw| (1_234_561.0..=1_234_564.0).contains(draw)), "{draws:?}");
        let distinct: std::collections::BTreeSet<u64> = draws.iter().map(|draw| draw.to_bits()).collect();
        assert!(distinct.len() > 50, "{draws:?}");
        let wide = rounded(1_234.567_89, 1_000.0, 2_000.0);
        assert_eq!((wide, rounded(99.999_999_9, 1.0, 99.999_99)), (1_234.57, 99.999_99));
    }

    #[test]
    fn whole_draws_include_both_bounds() {
        let points =
            sample("count = 200\n[range]\niodepth = { from = 1, to = 4, whole = true }").points().unwrap();
        let mut seen: Vec<String> = points.iter().map(|point| point.0[0].1.to_string()).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen, ["1", "2", "3", "4"]);
    }

    /// Returns how many of 6,000 draws from a range have each of `values`.
    fn counts<const N: usize>(range: &str, values: [f64; N]) -> [usize; N] {
        let points = sample(&format!("count = 6000\n[range]\na = {{ {range} }}")).points().unwrap();
        values.map(|value| points.iter().filter(|point| point.0[0].1 == Value::Number(value)).count())
    }

    #[test]
    fn the_ends_of_whole_numbers_are_drawn_as_often_as_the_others() {
        for (range, values) in
            [("from = 1, to = 4", [1.0, 2.0, 3.0, 4.0]), ("from = -0.7, to = 3.2", [0.0, 1.0, 2.0, 3.0])]
        {
            let counts = counts(&format!("{range}, whole = true"), values);
            assert_eq!(counts.iter().sum::<usize>(), 6_000, "{range}: {counts:?}");
            assert!(counts.iter().all(|count| (1_400..1_600).contains(count)), "{range}: {counts:?}");
        }
    }

    #[test]
    fn whole_numbers_on_a_logarithmic_scale_become_rarer_in_proportion() {
        let counts = counts("from = 1, to = 4, scale = \"log\", whole = true", [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(counts.iter().sum::<usize>(), 6_000, "{counts:?}");
        let expected = |n: f64| 6_000.0 * ((n + 0.5) / (n - 0.5)).ln() / 9_f64.ln();
        for (n, count) in [1.0, 2.0, 3.0, 4.0].into_iter().zip(counts) {
            let (expected, count) = (expected(n), count as f64);
            assert!((count - expected).abs() < 150.0, "{count} draws of {n}, not {expected:.0}");
        }
    }

    #[test]
    fn impossible_ranges_are_refused_with_their_name() {
        for (range, part) in [
            ("a = []", "no values"),
            ("a = { from = 2, to = 1 }", "smaller"),
            ("a = { from = \"1us\", to = \"1ms\" }", "different units"),
            ("a = { from = 0, to = 1, scale = \"log\" }", "above zero"),
            ("a = { from = \"x\", to = 1 }", "a number with or without a unit"),
            ("a = { from = 1.2, to = 1.8, whole = true }", "no whole number"),
        ] {
            let error = sample(&format!("count = 1\n[range]\n{range}")).points().unwrap_err().to_string();
            assert!(error.starts_with("sample.range: a: ") && error.contains(part), "{range}: {error}");
        }
    }
}
