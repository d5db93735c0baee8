//! Figures of the evidence behind the findings of a probe: lines with points over one quantity.

use super::{
    Figure, Key, SERIES,
    plot::{self, HorizontalAxis, Plot},
    scale::Scale,
    symbol,
};
use crate::{
    markup::element,
    number,
    svg::{self, Anchor},
};
use flashlab_fit::probe::{Finding, Findings};

const TOP: f64 = 14.0;
const PLOT: f64 = 190.0;
const AXIS: f64 = 38.0;
/// Maximum number of points of a line whose points have marks.
const MARKS_MAX: usize = 48;

/// Returns one figure for each finding that has evidence.
pub fn figures(findings: &Findings) -> Vec<Figure> {
    findings.findings.iter().filter_map(figure).collect()
}

/// Returns the figure of a finding; `None` without evidence.
pub fn figure(finding: &Finding) -> Option<Figure> {
    let evidence = &finding.evidence;
    let (x_unit, x_factor) =
        scaled(&evidence.x, evidence.lines.iter().flat_map(|l| l.points.iter().map(|p| p.0)));
    let (y_unit, y_factor) =
        scaled(&evidence.y, evidence.lines.iter().flat_map(|l| l.points.iter().map(|p| p.1)));
    let lines: Vec<(&str, Vec<(f64, f64)>)> = evidence
        .lines
        .iter()
        .map(|line| {
            let points = line.points.iter().map(|(x, y)| (x * x_factor, y * y_factor)).collect();
            (line.name.as_str(), points)
        })
        .collect();
    let all = || lines.iter().flat_map(|line| &line.1);
    all().next()?;
    let xs: Vec<f64> = all().map(|point| point.0).collect();
    let scale = Scale::from_zero(all().map(|point| point.1));
    let x_axis = HorizontalAxis::for_points(plot::gutter(scale, PLOT), &xs);
    let plot = Plot { x_axis, scale, top: TOP, height: PLOT };
    let height = plot.bottom() + AXIS;
    let mut svg = svg::drawing(height, finding.name.title(), &finding.reason);
    plot.frame(&mut svg);
    plot.label(&mut svg, &plot.x_axis.point_ticks(&xs, &[]), plot.bottom() + 16.0);
    svg.push(svg::text(plot.right(), 0.0, plot.bottom() + 30.0, Anchor::End, &x_unit).class("tick"));
    let mut canvas = svg::canvas(height);
    for (i, (name, points)) in lines.iter().enumerate() {
        let class = format!("line s{}", i % SERIES);
        canvas.push(svg::named(name).child(plot.line(points).element().class(class)));
    }
    svg.push(canvas);
    for (i, (name, points)) in lines.iter().enumerate().filter(|(_, line)| line.1.len() <= MARKS_MAX) {
        for (x, y) in points {
            let label = format!("{name}, {} {x_unit}: {} {y_unit}", number::compact(*x), number::compact(*y));
            let mark = element("path")
                .class(format!("mark s{}", i % SERIES))
                .attr("d", symbol::simulated(i % SERIES));
            svg.push(svg::symbol(plot.x_axis.x(*x), plot.y(*y), label).child(mark));
        }
    }
    let legend = lines
        .iter()
        .enumerate()
        .map(|(i, (name, _))| Key::paths([(format!("line s{}", i % SERIES), symbol::LINE)], name))
        .collect();
    let mut subtitle = format!("{y_unit} over {x_unit}: {}", crate::probe::value(finding));
    let unit = x_unit.rsplit_once(", ").map_or(x_unit.as_str(), |(_, unit)| unit);
    if let Some(remark) = plot.x_axis.remark(unit) {
        subtitle += &format!("; {remark}");
    }
    Some(Figure { title: finding.name.title().to_owned(), subtitle, height, svg, legend })
}

/// Converts a label such as `range, B` to a readable unit for these values. Returns the label and the factor.
fn scaled(label: &str, values: impl Iterator<Item = f64>) -> (String, f64) {
    let most = values.fold(0.0, f64::max);
    let units: &[(f64, &'static str); 4] = match label.rsplit_once(", ").map(|(_, unit)| unit) {
        Some("B") => &number::SIZES,
        Some("ns") => &number::TIMES,
        _ => return (label.to_owned(), 1.0),
    };
    let (size, unit) = number::unit_for(most, units);
    let what = label.rsplit_once(", ").map_or(label, |(what, _)| what);
    (format!("{what}, {unit}"), 1.0 / size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_fit::probe::{Confidence, Evidence, Line, Name, Value};

    #[test]
    fn a_logarithmic_axis_has_ticks_at_its_points_and_is_labelled_as_logarithmic() {
        let points: Vec<(f64, f64)> = (0..20).map(|n| (f64::from(1 << n), 1.0)).collect();
        let evidence = Evidence {
            x: "range, blocks".into(),
            y: "time, ns".into(),
            lines: vec![Line { name: "reads".into(), points }],
        };
        let finding = Finding {
            name: Name::ALL[0],
            value: Value::NoEffect,
            confidence: Confidence::High,
            reason: String::new(),
            evidence,
            written_bytes: 0,
        };
        let figure = figure(&finding).expect("the finding has evidence");
        assert!(figure.subtitle.ends_with("; blocks logarithmic"), "{}", figure.subtitle);
        let svg = figure.svg.to_string();
        assert!([">1<", ">524,288<"].iter().all(|tick| svg.contains(tick)), "{svg}");
    }
}
