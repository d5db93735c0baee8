//! What is said of the whole: paragraphs of plain text, in which the few marks that an author of plain text uses are
//! shown as what they mean: `## ` a heading, `- ` an entry of a list, back quotes a name.

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

/// The entries of a list, on lines of their own or joined into one.
fn entries(list: &str) -> impl Iterator<Item = &str> {
    list.split("\n- ").flat_map(|entry| entry.split(" - "))
}

/// The text with what stands between back quotes as names; a last one without a partner stays as it is.
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
    fn marks_are_shown_as_what_they_mean() {
        assert_eq!(paragraph("a `b` < c").to_string().trim_end(), "<p>a <code>b</code> &lt; c</p>");
        assert_eq!(paragraph("one ` alone").to_string().trim_end(), "<p>one ` alone</p>");
        assert_eq!(paragraph("## Order").to_string().trim_end(), "<h3 class=\"note\">Order</h3>");
        assert!(paragraph("- one - two").to_string().contains("<li>one</li>\n<li>two</li>"));
    }
}
