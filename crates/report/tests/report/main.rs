//! Tests of the output as text, as markup and in a browser.

mod browser;
mod charts;
mod csv;
mod figure;
mod fixture;
mod hostile;
mod html;
mod json;
mod order;
mod terminal;
