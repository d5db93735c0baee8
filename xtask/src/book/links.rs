//! Links of the site's pages to files outside of docs/.
//!
//! mdbook copies such a link as it is, but replaces the ending `.md` by `.html`. The site is a folder of the checkout,
//! so the links can point to the files there.

use crate::Outcome;
use crate::tidy::files;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Pages that mdbook generates itself: the print page and the 404 page.
const OWN_PAGES: [&str; 2] = ["print.html", "404.html"];

/// Rewrites the links in `site` that point outside `docs`, so that they point to files of the checkout.
///
/// # Errors
/// Lists the dead links.
pub(super) fn repair(site: &Path, docs: &Path) -> Outcome {
    let mut dead = Vec::new();
    for page in files(site, ".html") {
        let text = fs::read_to_string(&page).map_err(|error| format!("{}: {error}", page.display()))?;
        let at = page.strip_prefix(site).expect("a page of the site");
        let mut repaired = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some((before, link)) = rest.split_once("href=\"") {
            let (link, after) = link.split_once('"').unwrap_or((link, ""));
            repaired += before;
            repaired += "href=\"";
            match target(link, at, site, docs) {
                Some(target) => repaired += &target,
                None => {
                    repaired += link;
                    if !OWN_PAGES.iter().any(|own| at == Path::new(own)) {
                        dead.push(format!("{}: {link}", at.display()));
                    }
                }
            }
            repaired.push('"');
            rest = after;
        }
        repaired += rest;
        fs::write(&page, repaired).map_err(|error| format!("{}: {error}", page.display()))?;
    }
    if dead.is_empty() { Ok(()) } else { Err(format!("dead links:\n  {}", dead.join("\n  "))) }
}

/// Returns a link from `page` to the target of `link`; `None` if the target does not exist.
fn target(link: &str, page: &Path, site: &Path, docs: &Path) -> Option<String> {
    let end = link.find(['#', '?']).unwrap_or(link.len());
    let (path, part) = link.split_at(end);
    if path.is_empty() || path.contains(':') || path.starts_with('/') {
        return Some(link.to_owned());
    }
    let folder = page.parent().expect("a page is in a folder");
    if site.join(folder).join(path).exists() {
        return Some(link.to_owned());
    }
    // mdbook writes the page of README.md to index.html, but leaves links to it as README.html.
    if let Some(path) = path.strip_suffix("README.html")
        && site.join(folder).join(path).join("index.html").exists()
    {
        return Some(format!("{path}index.html{part}"));
    }
    let markdown = path.strip_suffix(".html").map(|stem| format!("{stem}.md"));
    let source = [Some(path.to_owned()), markdown].into_iter().flatten();
    let source = source.map(|path| normal(&docs.join(folder).join(path))).find(|path| path.exists())?;
    let up = normal(&site.join(folder)).components().count();
    Some(format!("{}{}{part}", "../".repeat(up), source.display()))
}

/// Removes `..` from a relative path.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_point_to_pages_of_the_site_or_to_files_of_the_checkout() {
        let root = std::env::temp_dir().join(format!("flashlab-links-{}", std::process::id()));
        let (site, docs) = (root.join("target/book"), root.join("docs"));
        for file in [
            "target/book/a.html",
            "target/book/d/index.html",
            "crates/x/y.rs",
            "docs/d/README.md",
            "e/README.md",
        ] {
            let file = root.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        let text = "<a href=\"d/README.html#part\"> <a href=\"https://x.org\"> <a href=\"#top\"> <a href=\"a.html\">";
        fs::write(site.join("a.html"), text).unwrap();
        let nested = "<a href=\"../../crates/x/y.rs\"> <a href=\"../../e/README.html#part\">";
        fs::write(site.join("d/index.html"), nested).unwrap();
        assert_eq!(repair(&site, &docs), Ok(()));
        let read = |page: &str| fs::read_to_string(site.join(page)).unwrap();
        assert_eq!(read("a.html"), text.replace("README.html", "index.html"));
        for link in read("d/index.html").split('"').skip(1).step_by(2) {
            let path = link.trim_end_matches("#part");
            let steps = path.matches("../").count();
            let depth = site.join("d").components().count();
            assert!(steps == normal(&site.join("d")).components().count() && steps == depth, "{link}");
            assert!(Path::new("/").join(path.trim_start_matches("../")).exists(), "{link}");
        }
        fs::write(site.join("a.html"), "<a href=\"nothing.html\">").unwrap();
        assert_eq!(repair(&site, &docs), Err("dead links:\n  a.html: nothing.html".to_owned()));
        fs::remove_dir_all(root).unwrap();
    }
}
