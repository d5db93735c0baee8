//! The choice of drives for each hot set: the first section of the page of an experiment that compares
//! drives.

use super::{Section, tables};
use crate::markup::{Element, element};
use crate::purchases;
use flashlab_lab::results::{PRICES, Purchase, Results};

pub(super) fn section(results: &Results) -> Option<Section> {
    if results.purchases.is_empty() {
        return None;
    }
    let sentences = results.purchases.iter().map(|purchase| element("li").text(purchase.sentence()));
    let mut body = vec![element("ul").class("note").children(sentences)];
    let prices = results.notes.iter().filter(|note| note.starts_with(PRICES));
    body.extend(prices.map(|note| element("p").text(note)));
    body.extend(results.purchases.iter().map(table));
    body.push(element("p").text(purchases::LEGEND));
    Some(Section::new("purchases", "Which drives should I buy?", "Drives", body))
}

fn table(purchase: &Purchase) -> Element {
    let heads = purchases::heads(purchase);
    let heads: Vec<(&str, bool)> = heads.iter().map(|head| (head.as_str(), !head.is_empty())).collect();
    let rows = purchase.options.iter().map(|option| {
        let cells = purchases::cells(purchase, option);
        element("tr").child(tables::row_head(&cells[0])).children(cells[1..].iter().map(tables::number))
    });
    let title = format!("Hot set of {} GB", purchase.hot_gb);
    let html = element("table")
        .child(element("caption").text(&title))
        .child(tables::head(&heads))
        .child(element("tbody").children(rows));
    tables::scrolling(&title, html)
}
