//! Describes the shape of a curve in words (flat, broken at a knee, falling), and which of its points were fitted.
//!
//! The description of a shape is derived only from the simulated points and their map look-ups, so it cannot claim
//! anything that the figure does not show. The number of predictions also depends on the published points.

use crate::number;
use flashlab_lab::results::{Curve, CurvePoint, CurveSeries, MapHits, Role};

/// Maximum relative difference between the figures before a knee and the last of them.
const PLATEAU_MAX: f64 = 0.25;
/// Minimum relative fall of the figure in one step at a knee.
const FALL_MIN: f64 = 0.2;
/// Maximum relative difference between the figures of a flat curve.
const FLAT_MAX: f64 = 0.02;

/// The step in which a curve falls after a level part.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Knee {
    /// Last point of the level part.
    pub(crate) before: CurvePoint,
    /// The following point.
    pub(crate) after: CurvePoint,
}

/// Returns the finite points of a series.
pub(crate) fn points(series: &CurveSeries) -> Vec<CurvePoint> {
    series.points.iter().filter(|p| p.x.is_finite() && p.y.is_finite()).copied().collect()
}

/// Returns the first knee of a series.
pub(crate) fn knee(series: &CurveSeries) -> Option<Knee> {
    let points = points(series);
    (2..points.len()).find_map(|i| {
        let (before, after) = (points[i - 1], points[i]);
        let is_level = points[..i].iter().all(|p| (p.y - before.y).abs() <= PLATEAU_MAX * before.y.abs());
        (is_level && fall(before, after) >= FALL_MIN).then_some(Knee { before, after })
    })
}

/// Returns the relative fall of the figure from one point to the next.
fn fall(before: CurvePoint, after: CurvePoint) -> f64 {
    if before.y > 0.0 { (before.y - after.y) / before.y } else { 0.0 }
}

/// Returns a sentence on the shape of this series. A sentence on a fall includes the share of map look-ups
/// that read the array, if this share is known and changes.
pub(crate) fn sentence(curve: &Curve, series: &CurveSeries) -> Option<String> {
    let points = points(series);
    let (first, last) = (points.first()?, points.last()?);
    let at = |x: f64| number::with_unit(number::written(x), &curve.x_unit);
    let figure = |y: f64| number::with_unit(number::compact(y), &curve.y_unit);
    let greatest = points.iter().map(|p| p.y).fold(f64::NEG_INFINITY, f64::max);
    let least = points.iter().map(|p| p.y).fold(f64::INFINITY, f64::min);
    if let Some((name, difference)) = equal(curve, series, &points) {
        if difference == 0.0 {
            return Some(format!("The same as {name} everywhere."));
        }
        return Some(format!("Within {} of {name} everywhere.", number::percent(100.0 * difference, 2)));
    }
    if points.len() == 1 {
        return Some(format!("{} at {}.", figure(first.y), at(first.x)));
    }
    if greatest - least <= FLAT_MAX * greatest.abs() {
        return Some(format!(
            "Flat: {} to {} over the whole range.",
            number::compact(least),
            figure(greatest)
        ));
    }
    if let Some(Knee { before, after }) = knee(series) {
        return Some(format!(
            "Breaks after {}: {} there, {} at {}{}.",
            at(before.x),
            figure(before.y),
            figure(after.y),
            at(after.x),
            rise_of_misses(series, before.x, after.x)
        ));
    }
    let step = points.windows(2).max_by(|a, b| fall(a[0], a[1]).total_cmp(&fall(b[0], b[1])))?;
    if fall(step[0], step[1]) >= FALL_MIN {
        return Some(format!(
            "Falls most from {} to {}: {} to {}{}; {} at {}.",
            at(step[0].x),
            at(step[1].x),
            number::compact(step[0].y),
            figure(step[1].y),
            rise_of_misses(series, step[0].x, step[1].x),
            figure(last.y),
            at(last.x)
        ));
    }
    Some(format!("No break: {} at {}, {} at {}.", figure(first.y), at(first.x), figure(last.y), at(last.x)))
}

/// Returns the first earlier series with points at the same places whose figures differ by at most
/// [`FLAT_MAX`], and the largest relative difference.
fn equal<'a>(curve: &'a Curve, series: &CurveSeries, own: &[CurvePoint]) -> Option<(&'a str, f64)> {
    let before = curve.series.iter().take_while(|other| !std::ptr::eq(*other, series));
    before.filter(|_| own.len() > 1).find_map(|other| {
        let others = points(other);
        let is_same_range = others.len() == own.len() && others.iter().zip(own).all(|(a, b)| a.x == b.x);
        let difference = others.iter().zip(own).map(|(a, b)| (a.y - b.y).abs() / a.y.abs().max(b.y.abs()));
        let difference = difference.filter(|difference| !difference.is_nan()).fold(0.0, f64::max);
        (is_same_range && difference <= FLAT_MAX).then_some((other.name.as_str(), difference))
    })
}

/// Returns the clause `, while the map look-ups that read the array rise from 0 % to 11 %`, or an empty string if the
/// shares are unknown or equal.
fn rise_of_misses(series: &CurveSeries, before: f64, after: f64) -> String {
    let miss = |x: f64| {
        let hits: Option<&MapHits> = series.map_hits.iter().find(|hits| hits.x == x);
        hits.map(|hits| hits.miss).filter(|miss| (0.0..=1.0).contains(miss))
    };
    match (miss(before), miss(after)) {
        (Some(a), Some(b)) if a != b => format!(
            ", while the map look-ups that read the array {} from {} to {}",
            if b > a { "rise" } else { "fall" },
            number::share(a),
            number::share(b)
        ),
        _ => String::new(),
    }
}

/// Returns the roles of the points: `Fitted: HMB off at 1 GiB; ... 3 other points are predictions with a measurement,
/// 71 without one.`
pub(crate) fn roles(curve: &Curve) -> String {
    let places = [
        ("Fitted", at_places(curve, Role::Fitted)),
        ("Resting on an assumption", at_places(curve, Role::Assumed)),
        ("Resting on numbers without a source", at_places(curve, Role::Unsourced)),
    ];
    let named = places.iter().filter(|(_, places)| !places.is_empty());
    let text: String = named.map(|(what, places)| format!("{what}: {places}. ")).collect();
    let others = if text.is_empty() { "" } else { " other" };
    let (measured, unmeasured) = predictions(curve);
    text + &match (measured, unmeasured) {
        (0, 0) => "No point is a prediction.".into(),
        (1, 0) => format!("One{others} point is a prediction."),
        (n, 0) => format!("All{others} {n} points are predictions."),
        (0, 1) => format!("One{others} point has no measurement."),
        (0, n) => format!("None of the{others} {n} points has a measurement."),
        (1, n) => format!("One{others} point is a prediction with a measurement, {n} without one."),
        (m, n) => {
            format!("{m}{others} points are predictions with a measurement, {n} without one.")
        }
    }
}

/// Returns true if a figure of the series was published at `x`.
pub(crate) fn is_published(series: &CurveSeries, x: f64) -> bool {
    series.published.iter().any(|published| published.x == x)
}

/// Returns the number of predicted points with a published figure, and the number of those without.
fn predictions(curve: &Curve) -> (usize, usize) {
    let mut count = (0, 0);
    for series in &curve.series {
        for point in series.points.iter().filter(|point| point.role == Role::Predicted) {
            match is_published(series, point.x) {
                true => count.0 += 1,
                false => count.1 += 1,
            }
        }
    }
    count
}

/// Returns the places of the points of this role: `HMB off at 1 GiB; HMB 128 MiB at 1, 128 GiB`.
fn at_places(curve: &Curve, role: Role) -> String {
    let of = |series: &CurveSeries| {
        let points = series.points.iter().filter(|point| point.role == role);
        points.map(|point| number::written(point.x)).collect::<Vec<_>>()
    };
    let parts: Vec<String> = curve
        .series
        .iter()
        .filter_map(|series| {
            let places = of(series);
            let is_all = places.len() == series.points.len() && places.len() > 3;
            match places.as_slice() {
                [] => None,
                _ if is_all => Some(format!("{} everywhere", series.name)),
                places => Some(format!(
                    "{} at {}",
                    series.name,
                    number::with_unit(places.join(", "), &curve.x_unit)
                )),
            }
        })
        .collect();
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_lab::results::{Published, PublishedPoint};

    fn curve(ys: &[f64], miss: &[f64]) -> Curve {
        let xs = (0..ys.len()).map(|i| f64::from(1u32 << i));
        let role = |i| if i == 0 { Role::Fitted } else { Role::Predicted };
        let points = xs.clone().zip(ys).enumerate().map(|(i, (x, y))| CurvePoint { x, y: *y, role: role(i) });
        let hits =
            xs.clone().zip(miss).map(|(x, miss)| MapHits { x, sram: 0.0, hmb: 1.0 - miss, miss: *miss });
        let series = CurveSeries {
            name: "HMB".into(),
            variant: false,
            points: points.collect(),
            published: vec![],
            map_hits: hits.collect(),
        };
        Curve {
            chart: "randread".into(),
            title: String::new(),
            x_unit: "GiB".into(),
            y_unit: "kIOPS".into(),
            series: vec![series],
            notes: vec![],
        }
    }

    fn sentence_of(ys: &[f64], miss: &[f64]) -> String {
        let curve = curve(ys, miss);
        number::plain(&sentence(&curve, &curve.series[0]).unwrap_or_default())
    }

    #[test]
    fn a_level_curve_that_falls_in_one_step_has_its_knee_there() {
        assert_eq!(
            sentence_of(&[58.0, 51.0, 50.0, 33.0, 26.0], &[0.0, 0.0, 0.0, 0.11, 0.2]),
            "Breaks after 4 GiB: 50.0 kIOPS there, 33.0 kIOPS at 8 GiB, while the map look-ups that read the array rise \
             from 0 % to 11 %."
        );
    }

    #[test]
    fn a_curve_that_falls_from_the_first_point_on_has_no_knee() {
        let falling = curve(&[20.0, 12.9, 10.9, 10.2, 9.8], &[]);
        assert_eq!(knee(&falling.series[0]), None);
        assert_eq!(
            sentence_of(&[20.0, 12.9, 10.9, 10.2, 9.8], &[]),
            "Falls most from 1 GiB to 2 GiB: 20.0 to 12.9 kIOPS; 9.80 kIOPS at 16 GiB."
        );
    }

    #[test]
    fn flat_gentle_and_single_point_curves_have_a_sentence() {
        assert_eq!(sentence_of(&[73.0, 72.9, 73.1], &[]), "Flat: 72.9 to 73.1 kIOPS over the whole range.");
        assert_eq!(
            sentence_of(&[58.0, 55.0, 52.0], &[]),
            "No break: 58.0 kIOPS at 1 GiB, 52.0 kIOPS at 4 GiB."
        );
        assert_eq!(sentence_of(&[58.0], &[]), "58.0 kIOPS at 1 GiB.");
        assert_eq!(sentence_of(&[f64::NAN], &[]), "");
    }

    #[test]
    fn a_curve_that_equals_another_curve_names_the_other_curve() {
        let mut curve = curve(&[73.0, 56.0, 46.0], &[]);
        let mut other = curve.series[0].clone();
        other.name = "HMB 240 MiB".into();
        other.points[2].y = 46.46;
        curve.series.push(other);
        let text = sentence(&curve, &curve.series[1]).unwrap_or_default();
        assert_eq!(number::plain(&text), "Within 0.99 % of HMB everywhere.");
    }

    #[test]
    fn fitted_points_are_named_and_only_measured_points_count_as_predictions() {
        assert_eq!(
            number::plain(&roles(&curve(&[3.0, 2.0, 1.0], &[]))),
            "Fitted: HMB at 1 GiB. None of the other 2 points has a measurement."
        );
        let mut measured = curve(&[3.0, 2.0, 1.0], &[]);
        let figure = Published::Figure { mean: 2.1, sd: None };
        measured.series[0].published.push(PublishedPoint { x: 2.0, figure });
        assert_eq!(
            number::plain(&roles(&measured)),
            "Fitted: HMB at 1 GiB. One other point is a prediction with a measurement, 1 without one."
        );
    }
}
