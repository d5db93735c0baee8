//! Tests of each resource: the page, the state, commands and metrics.

use crate::client::{Running, status};
use flashlab_web::Limits;

#[test]
fn the_page_and_its_modules_are_served_with_a_policy_against_foreign_content() {
    let server = Running::start(Limits::default());
    let page = server.exchange(
        format!("GET / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", server.address).as_bytes(),
    );
    assert!(page.contains("content-security-policy: default-src 'self'"), "{page}");
    assert!(page.contains("x-content-type-options: nosniff"), "{page}");
    assert!(!page.contains("access-control-allow"), "{page}");
    let mut files: Vec<&str> =
        page.split("src=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    files.extend([
        "live.css",
        "server.js",
        "blocks.js",
        "charts.js",
        "controls.js",
        "format.js",
        "selection.js",
    ]);
    for file in files {
        let (status, content) = server.request(&format!("GET /{file}"), &[], "");
        assert_eq!(status, 200, "{file}");
        assert!(content.len() > 100, "{file}: {content}");
    }
}

#[test]
fn a_command_reaches_the_subject_and_a_refusal_reaches_the_client() {
    let server = Running::start(Limits::default());
    assert_eq!(server.command("{\"do\":\"pause\"}"), (200, "{}".to_owned()));
    assert_eq!(server.command("{\"do\":\"refuse\"}"), (422, "no such thing\n".to_owned()));
    let (status, state) = server.request("GET /api/state", &[], "");
    assert_eq!((status, state.as_str()), (200, "{\"commands\":[{\"do\":\"pause\"}]}"));
}

#[test]
fn metrics_are_served_with_and_without_a_page() {
    let server = Running::start(Limits::default());
    assert_eq!(server.request("GET /metrics", &[], ""), (200, "# TYPE a counter\na 1\n".to_owned()));
    let alone = Running::with(Limits::default(), 0, false);
    assert_eq!(alone.request("GET /metrics?x=1", &[], "").0, 200);
    let head = format!("HEAD /metrics HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", alone.address);
    let head = alone.exchange(head.as_bytes());
    assert!(status(&head) == 200 && head.ends_with("\r\n\r\n"), "{head}");
    assert_eq!(alone.request("GET /", &[], ""), (404, "the metrics are at /metrics\n".to_owned()));
    assert_eq!(alone.command("{}").0, 404);
}

#[test]
fn an_unknown_resource_and_a_wrong_method_are_named() {
    let server = Running::start(Limits::default());
    assert_eq!(server.request("GET /none", &[], ""), (404, "the page is at /\n".to_owned()));
    assert_eq!(server.request("GET /../Cargo.toml", &[], "").0, 404);
    let authorization = format!("Authorization: Bearer {}", server.token);
    let (status, why) = server.request("DELETE /api/state", &[&authorization], "");
    assert_eq!((status, why.as_str()), (405, "/api/state supports GET, HEAD only\n"));
    assert_eq!(server.request("GET /api/control", &[], "").0, 405);
}
