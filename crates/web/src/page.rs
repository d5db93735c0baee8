//! The files of the page.

/// A file of the page.
pub(crate) struct PageFile {
    pub(crate) path: &'static str,
    pub(crate) media_type: &'static str,
    pub(crate) content: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! file {
    ($path:literal, $name:literal, $media_type:expr) => {
        PageFile { path: $path, media_type: $media_type, content: include_str!(concat!("../page/", $name)) }
    };
}

const FILES: [PageFile; 9] = [
    file!("/", "index.html", HTML),
    file!("/live.css", "live.css", CSS),
    file!("/live.js", "live.js", SCRIPT),
    file!("/server.js", "server.js", SCRIPT),
    file!("/blocks.js", "blocks.js", SCRIPT),
    file!("/charts.js", "charts.js", SCRIPT),
    file!("/controls.js", "controls.js", SCRIPT),
    file!("/format.js", "format.js", SCRIPT),
    file!("/selection.js", "selection.js", SCRIPT),
];

/// Returns the file of the page at `path`.
pub(crate) fn find(path: &str) -> Option<&'static PageFile> {
    FILES.iter().find(|file| file.path == path)
}
