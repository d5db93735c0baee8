//! Pages in notebooks.

/// Height of a page in a notebook, in pixels.
const HEIGHT: u32 = 640;

/// Returns a page in a separate frame, so that its style and the style of the notebook do not mix.
pub(crate) fn framed(page: &str) -> String {
    let page = page.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        "<iframe title=\"flashlab\" style=\"width:100%;height:{HEIGHT}px;border:0\" srcdoc=\"{page}\"></iframe>"
    )
}
