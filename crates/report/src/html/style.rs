//! The style of pages and figures: colours as variables in two themes, and one small script that switches them.
//!
//! The theme is the reader's (`prefers-color-scheme`) until the button sets `data-theme`.

use crate::markup::{Element, element};

const LIGHT: &str = include_str!("../style/light.css");
const DARK: &str = include_str!("../style/dark.css");
const FIGURE: &str = include_str!("../style/figure.css");
const PAGE: &str = include_str!("../style/page.css");
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
    figure_sheet().verbatim(":root[data-theme=\"dark\"] {\n").verbatim(DARK).verbatim("}\n").verbatim(PAGE)
}

/// Returns the script that switches the theme. Without it, only the button of the page does not work.
pub(crate) fn script() -> Element {
    element("script").verbatim(SCRIPT)
}
