//! The answers of an experiment that compares choices: the first section of its page.

use super::{Section, tables};
use crate::answers;
use crate::markup::{Element, element};
use flashlab_lab::results::{Answer, Results};

pub(super) fn section(results: &Results) -> Option<Section> {
    if results.answers.is_empty() {
        return None;
    }
    let sentences = results.answers.iter().map(|answer| element("li").text(answer.sentence()));
    let mut body = vec![element("ul").class("note").children(sentences)];
    body.extend(results.answers.iter().map(table));
    body.push(element("p").text(answers::LEGEND));
    Some(Section::new("answers", "What should I use?", "Answers", body))
}

fn table(answer: &Answer) -> Element {
    let heads = answers::HEADS.map(|head| (head, !head.is_empty()));
    let rows = answer.choices.iter().map(|choice| {
        let [name, figures @ ..] = answers::cells(answer, choice);
        element("tr").child(tables::row_head(&name)).children(figures.iter().map(tables::number))
    });
    let caption = element("caption").text(&answer.question);
    let html =
        element("table").child(caption).child(tables::head(&heads)).child(element("tbody").children(rows));
    tables::scrolling(&answer.question, html)
}
