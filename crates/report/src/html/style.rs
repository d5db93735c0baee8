//! The style of pages and figures, with colours as variables in two themes, and the scripts of pages.
//!
//! The theme follows the reader's setting (`prefers-color-scheme`) until the button sets `data-theme`.

use crate::markup::{Element, element};

const LIGHT: &str = include_str!("../style/light.css");
const DARK: &str = include_str!("../style/dark.css");
const FIGURE: &str = include_str!("../style/figure.css");
const PAGE: &str = include_str!("../style/page.css");
const CHARTS: &str = include_str!("../style/charts.js");
const BARS: &str = include_str!("../style/bars.js");
const UPLOT: &str = include_str!("../../vendor/uplot/uPlot.iife.min.js");
const UPLOT_SHEET: &str = include_str!("../../vendor/uplot/uPlot.min.css");
const UPLOT_LICENCE: &str = include_str!("../../vendor/uplot/LICENSE");
const SCRIPT: &str = include_str!("../style/page.js");

/// Returns the style sheet of a figure in a file of its own.
pub(crate) fn figure_sheet() -> Element {
    element("style")
        .verbatim(":root {\n")
        .verbatim(LIGHT)
        .verbatim("}\n@media (prefers-color-scheme: dark) { :root:not([data-theme=\"light\"]) {\n")
        .verbatim(DARK)
        .verbatim("} }\n")
        .verbatim(FIGURE)
}

/// Returns the style sheet of a page.
pub(crate) fn page_sheet() -> Element {
    figure_sheet()
        .verbatim(UPLOT_SHEET)
        .verbatim("\n:root[data-theme=\"dark\"] {\n")
        .verbatim(DARK)
        .verbatim("}\n")
        .verbatim(PAGE)
}

/// The scripts that a page needs besides the one for its theme.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Needs {
    /// The page has charts that uPlot draws.
    pub(crate) charts: bool,
    /// The page has bars. Unlike charts, they keep their static drawing, which the script makes interactive.
    pub(crate) bars: bool,
}

/// Returns the script of a page: it switches the theme, draws charts with uPlot, and shows the values of bars and
/// switches their series. Without the script, charts and bars are static and the button is hidden.
///
/// The scripts of charts and bars are CDATA sections, because their operators are markup in XML; the comments around
/// them hide the markers in HTML. The first line of uPlot, a comment, is left out, because it contains an address; its
/// licence names the author.
pub(crate) fn script(needs: Needs) -> Element {
    let mut script = element("script").verbatim(SCRIPT);
    if needs.charts {
        let uplot = UPLOT.split_once('\n').map_or(UPLOT, |(_, code)| code);
        script = script
            .verbatim("/* uPlot 1.6.32\n")
            .verbatim(UPLOT_LICENCE)
            .verbatim("*/\n//<![CDATA[\n")
            .verbatim(uplot)
            .verbatim(CHARTS)
            .verbatim("//]]>\n");
    }
    if needs.bars {
        script = script.verbatim("//<![CDATA[\n").verbatim(BARS).verbatim("//]]>\n");
    }
    script
}
