//! What the crate writes, judged as text, as markup and in a browser.

mod csv;
mod fixture;
mod json;
mod terminal;
