//! Notes on the whole experiment: paragraphs of plain text with a few marks, which are rendered: `## ` begins a
//! heading, `- ` an entry of a list, and back quotes enclose a name.

use super::Section;
use crate::markup::{Element, element};
use flashlab_lab::results::Results;

pub(super) fn section(results: &Results) -> Option<Section> {
    let body: Vec<Element> = results.notes.iter().map(|note| paragraph(note)).collect();
    (!body.is_empty()).then_some(Section { id: "notes", title: "Notes", short: "Notes", intro: None, body })
}

pub(super) fn paragraph(text: &str) -> Element {
    if let Some(heading) = text.strip_prefix('#') {
        return quoted(element("h3").class("note"), heading.trim_start_matches('#').trim_start());
    }
    match text.strip_prefix("- ") {
        Some(list) => {
            element("ul").class("note").children(entries(list).map(|entry| quoted(element("li"), entry)))
        }
        None => quoted(element("p"), text),
    }
}

/// Returns the entries of a list, which are on lines of their own or joined into one line.
fn entries(list: &str) -> impl Iterator<Item = &str> {
    list.split("\n- ").flat_map(|entry| entry.split(" - "))
}

/// Renders text between back quotes as code. A last back quote without a partner is copied unchanged.
fn quoted(mut html: Element, text: &str) -> Element {
    let mut rest = text;
    while let Some((before, quote)) = rest.split_once('`')
        && let Some((name, after)) = quote.split_once('`')
    {
        html = html.text(before).child(element("code").text(name));
        rest = after;
    }
    html.text(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_become_elements() {
        assert_eq!(paragraph("a `b` < c").to_string().trim_end(), "<p>a <code>b</code> &lt; c</p>");
        assert_eq!(paragraph("one ` alone").to_string().trim_end(), "<p>one ` alone</p>");
        assert_eq!(paragraph("## Order").to_string().trim_end(), "<h3 class=\"note\">Order</h3>");
        assert!(paragraph("- one - two").to_string().contains("<li>one</li>\n<li>two</li>"));
    }
}
