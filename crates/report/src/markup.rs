//! Elements of HTML and SVG. The construction of elements guarantees that every element is closed and all
//! text is escaped.
//!
//! The output is HTML that is also well-formed XML: empty elements close themselves, and every attribute has a value.
//! Text and values are escaped when they are written, and characters that XML forbids become U+FFFD. Only text compiled
//! into the program ([`Element::verbatim`]) is copied unchanged.

use std::fmt::{Display, Formatter, Result, Write};

/// An element with its attributes and children.
#[derive(Clone, Debug)]
pub(crate) struct Element {
    name: &'static str,
    attributes: Vec<(&'static str, String)>,
    children: Vec<Node>,
}

#[derive(Clone, Debug)]
enum Node {
    Element(Element),
    Text(String),
    Verbatim(&'static str),
}

/// Returns an element without attributes or children.
pub(crate) fn element(name: &'static str) -> Element {
    Element { name, attributes: vec![], children: vec![] }
}

impl Element {
    pub(crate) fn attr(mut self, name: &'static str, value: impl Display) -> Self {
        self.attributes.push((name, value.to_string()));
        self
    }
    pub(crate) fn class(self, names: impl Display) -> Self {
        self.attr("class", names)
    }
    pub(crate) fn text(mut self, text: impl Display) -> Self {
        self.children.push(Node::Text(text.to_string()));
        self
    }
    pub(crate) fn child(mut self, child: Element) -> Self {
        self.children.push(Node::Element(child));
        self
    }
    pub(crate) fn children(mut self, children: impl IntoIterator<Item = Element>) -> Self {
        self.children.extend(children.into_iter().map(Node::Element));
        self
    }
    /// Adds a style sheet or script of this crate.
    pub(crate) fn verbatim(mut self, text: &'static str) -> Self {
        self.children.push(Node::Verbatim(text));
        self
    }
    pub(crate) fn push(&mut self, child: Element) {
        self.children.push(Node::Element(child));
    }

    /// Returns the element and its descendants without the attributes that carry data for scripts (`data-`).
    pub(crate) fn without_data(&self) -> Element {
        let is_data = |name: &str| name.starts_with("data-");
        let children = self.children.iter().map(|child| match child {
            Node::Element(element) => Node::Element(element.without_data()),
            other => other.clone(),
        });
        Element {
            name: self.name,
            attributes: self.attributes.iter().filter(|(name, _)| !is_data(name)).cloned().collect(),
            children: children.collect(),
        }
    }

    /// Returns true if the element or a descendant has the attribute.
    pub(crate) fn contains_attribute(&self, name: &str) -> bool {
        self.attributes.iter().any(|(own, _)| *own == name)
            || self.children.iter().any(|child| match child {
                Node::Element(element) => element.contains_attribute(name),
                Node::Text(_) | Node::Verbatim(_) => false,
            })
    }

    /// Returns true if the element gets lines of its own, which makes the source easier to read.
    fn is_block(&self) -> bool {
        !matches!(
            self.name,
            "a" | "b" | "code" | "em" | "i" | "small" | "span" | "strong" | "td" | "th" | "tspan" | "title"
        )
    }
    /// Returns true for an empty element that closes itself: one without content in HTML, or an SVG shape.
    fn closes_itself(&self) -> bool {
        matches!(self.name, "br" | "hr" | "meta" | "col" | "rect" | "line" | "circle" | "path" | "polygon")
            && self.children.is_empty()
    }
}

impl Display for Element {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "<{}", self.name)?;
        for (name, value) in &self.attributes {
            write!(f, " {name}=\"")?;
            escape(f, value)?;
            f.write_char('"')?;
        }
        if self.closes_itself() {
            f.write_str("/>")?;
        } else {
            f.write_char('>')?;
            for child in &self.children {
                match child {
                    Node::Element(element) => element.fmt(f)?,
                    Node::Text(text) => escape(f, text)?,
                    Node::Verbatim(text) => f.write_str(text)?,
                }
            }
            write!(f, "</{}>", self.name)?;
        }
        if self.is_block() { f.write_char('\n') } else { Ok(()) }
    }
}

fn escape(f: &mut Formatter<'_>, text: &str) -> Result {
    for c in text.chars() {
        match c {
            '&' => f.write_str("&amp;")?,
            '<' => f.write_str("&lt;")?,
            '>' => f.write_str("&gt;")?,
            '"' => f.write_str("&quot;")?,
            '\t' | '\n' | '\r' => f.write_char(c)?,
            c if c.is_control() || matches!(c, '\u{FFFE}' | '\u{FFFF}') => f.write_char('\u{FFFD}')?,
            c => f.write_char(c)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_values_are_escaped() {
        let e = element("b").attr("title", "\"a\" & <b>").text("x < y\u{0} & \"z\"");
        assert_eq!(
            e.to_string(),
            "<b title=\"&quot;a&quot; &amp; &lt;b&gt;\">x &lt; y\u{FFFD} &amp; &quot;z&quot;</b>"
        );
    }

    #[test]
    fn empty_elements_close_in_both_languages() {
        assert_eq!(element("br").to_string(), "<br/>\n");
        assert_eq!(element("td").to_string(), "<td></td>");
    }
}
