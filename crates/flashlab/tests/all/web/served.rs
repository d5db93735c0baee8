//! `serve --web`: the live page of served devices.

use super::browser::Browser;
use super::server::{WebServer, counter, happened};
use crate::live::tools::{Folder, flashlab};
use serde_json::Value;

/// Sum of a figure over all intervals of the first device.
fn sum(state: &Value, of: impl Fn(&Value) -> u64) -> u64 {
    state["devices"][0]["intervals"].as_array().into_iter().flatten().map(of).sum()
}

fn writes(interval: &Value) -> u64 {
    interval["requests"][1].as_u64().unwrap_or(0)
}

fn write(folder: &Folder, size: &str) -> std::process::Output {
    let size = format!("--size={size}");
    flashlab(&["load", "nbd+unix:///card?socket=s.sock", "--rw=write", "--bs=64k", &size])
        .current_dir(folder)
        .output()
        .expect("the binary is built")
}

#[test]
fn the_page_of_a_server_shows_its_clients_requests_and_its_controls_act_on_the_device() {
    let folder = Folder::new("served-page");
    let server =
        WebServer::serve(&folder, &["card=sd/kingston+error", "plain=memory:size=1M", "--speed", "100"]);
    let empty = server.wait_for("the way to connect", |state| state["hint"].is_string());
    let hint = empty["hint"].as_str().expect("the hint is a text");
    assert!(hint.contains("\nflashlab load 'nbd+unix:///card?socket="), "{hint}");
    // The page is there before the server listens for clients.
    while !write(&folder, "4m").status.success() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let state = server.wait_for("the requests", |state| sum(state, writes) >= 64);
    assert!(state["hint"].is_null(), "the hint remains after a request");
    assert_eq!(state["devices"].as_array().map(Vec::len), Some(1), "a device without a model is left out");
    assert_eq!(sum(&state, writes) % 64, 0);
    assert_eq!(
        counter(&state, 0, "host_written_bytes"),
        sum(&state, |interval| interval["bytes"][1].as_u64().unwrap())
    );
    let mechanisms = |interval: &Value| {
        interval["mechanisms_ns"].as_array().into_iter().flatten().filter_map(Value::as_u64).sum()
    };
    assert!(sum(&state, mechanisms) > 0);
    // The clock runs without requests. The last second of the history has none, so the page shows rates of zero.
    let quiet = server.wait_for("a second without requests", |state| {
        let all = state["devices"][0]["intervals"].as_array().expect("a list");
        all.len() > 10 && all[all.len() - 10..].iter().all(|interval| writes(interval) == 0)
    });
    server.wait_for("the clock", |state| state["now_ns"].as_u64() > quiet["now_ns"].as_u64());
    let (status, metrics) = server.request("GET /metrics", "", "");
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert!(metrics.contains("flashlab_device_host_written_bytes{export=\"card\"}"));
    let headers = format!("Content-Type: application/json\r\nAuthorization: Bearer {}\r\n", server.token());
    let (status, why) = server.request("POST /api/control", &headers, "{\"do\":\"job\",\"text\":\"\"}");
    assert_eq!(status, "HTTP/1.1 422 Unprocessable Entity");
    assert!(why.contains("the command is not valid"), "{why}");
    for (command, reason) in [
        ("{\"do\":\"cut\",\"device\":7}", "there is no device 7; the first one is 0"),
        ("{\"do\":\"fault\",\"requests\":0}", "expected at least 1 request"),
    ] {
        let (status, why) = server.request("POST /api/control", &headers, command);
        assert_eq!((status.as_str(), why.trim_end()), ("HTTP/1.1 422 Unprocessable Entity", reason));
    }

    let Some(mut browser) = Browser::open("served", &server.url, (1280, 1000)) else { return };
    browser.wait_for("document.documentElement?.dataset.ready === 'true'");
    browser.wait_for("document.querySelector('.tiles dd').textContent === '0'");
    let shown = |id: &str| format!("!document.getElementById('{id}').hidden");
    for (id, is_shown) in
        [("power", true), ("fault", true), ("job", false), ("discard", false), ("time-controls", false)]
    {
        assert_eq!(browser.evaluate(&shown(id)), is_shown, "{id}");
    }
    browser.evaluate("document.getElementById('cut').click()");
    server.wait_for("the cut", |state| happened(state, "power cut"));
    browser.evaluate("document.getElementById('unplug').click()");
    server.wait_for("the unplugging", |state| state["devices"][0]["phase"] == "unplugged");
    assert!(!write(&folder, "1m").status.success(), "a client wrote without power");
    browser.evaluate("document.getElementById('plug').click()");
    server.wait_for("the plugging", |state| state["devices"][0]["phase"] == "idle");
    browser.evaluate(
        "(() => { const form = document.getElementById('fault'); form.elements.requests.value = 2; form.requestSubmit(); })()",
    );
    server.wait_for("the fault", |state| happened(state, "the next 2 requests fail"));
    assert!(!write(&folder, "1m").status.success(), "no request of a client failed");
    assert!(browser.errors.is_empty(), "{:#?}", browser.errors);
}

#[test]
fn a_server_without_a_simulated_device_has_no_page() {
    let folder = Folder::new("served-no-page");
    let output =
        flashlab(&["serve", "memory:size=1M", "--web=0", "--unix=s.sock"]).current_dir(&folder).output();
    let output = output.expect("the binary is built");
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("--web shows simulated devices, and none is served"), "{message}");
}
