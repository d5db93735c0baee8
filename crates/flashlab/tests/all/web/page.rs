//! The controls of the page, each checked by its effect on the device.

use super::browser::Browser;
use super::server::{WebServer, counter, happened};

const WINDOW: (u32, u32) = (1280, 1000);

/// Clicks an element of the page.
fn click(browser: &mut Browser, selector: &str) {
    browser.evaluate(&format!("document.querySelector('{selector}').click()"));
}

/// Fills the fields of a form and submits it.
fn submit(browser: &mut Browser, form: &str, fields: &[(&str, &str)]) {
    for (name, value) in fields {
        let value = serde_json::to_string(value).expect("a string");
        browser.evaluate(&format!("document.getElementById('{form}').elements['{name}'].value = {value}"));
    }
    browser.evaluate(&format!("document.getElementById('{form}').requestSubmit()"));
}

#[test]
fn every_control_of_the_page_has_its_effect_on_the_device() {
    let server = WebServer::start(&["--speed", "10", "sd/kingston"]);
    let Some(mut browser) = Browser::open("controls", &server.url, WINDOW) else { return };
    browser.wait_for("document.documentElement?.dataset.ready === 'true'");
    assert_eq!(browser.evaluate("location.hash"), "", "the token stays in the address bar");

    click(&mut browser, "#pause");
    let paused = server.wait_for("the pause", |state| state["paused"] == true);
    browser.wait_for("document.getElementById('pause').textContent === 'Resume'");
    click(&mut browser, "#step");
    let stepped = server.wait_for("the step", |state| state["now_ns"].as_u64() > paused["now_ns"].as_u64());
    assert_eq!(stepped["paused"], true);
    browser.evaluate(
        "document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'p', bubbles: true })) && true",
    );
    server.wait_for("the key that resumes", |state| state["paused"] == false);
    browser.evaluate(
        "(() => { const s = document.getElementById('speed'); s.value = 2; s.dispatchEvent(new Event('input'));
         s.dispatchEvent(new Event('change')); })()",
    );
    server.wait_for("the speed", |state| state["speed"] == 100.0);
    for target in ["speed", "which-all", "pause"] {
        let press = "new KeyboardEvent('keydown', { key: 'p', bubbles: true })";
        browser.evaluate(&format!("document.getElementById('{target}').dispatchEvent({press})"));
        server.wait_for(target, |state| state["paused"] == true);
        browser.wait_for("document.getElementById('pause').textContent === 'Resume'");
        click(&mut browser, "#pause");
        browser.wait_for("document.getElementById('pause').textContent === 'Pause'");
    }

    click(&mut browser, "#cut");
    server.wait_for("the cut", |state| happened(state, "power cut: ") && happened(state, "power on"));
    click(&mut browser, "#unplug");
    server.wait_for("the unplugging", |state| state["devices"][0]["phase"] == "unplugged");
    click(&mut browser, "#plug");
    server.wait_for("the plugging", |state| state["devices"][0]["phase"] == "running");

    let mapped = counter(&server.state(), 0, "mapped_bytes");
    assert!(mapped > 0);
    submit(&mut browser, "discard", &[("offset", "0"), ("size", "64")]);
    server.wait_for("the discard", |state| happened(state, "the discard completed"));
    submit(&mut browser, "fault", &[("requests", "1")]);
    server.wait_for("the fault", |state| {
        state["devices"][0]["phase"] == "finished" && happened(state, "a request failed (I/O error)")
    });
    submit(
        &mut browser,
        "job",
        &[("text", "--name=w --rw=write --bs=64k --size=256m --direct=1 --time_based --runtime=100d")],
    );
    server.wait_for("the job", |state| {
        state["devices"][0]["phase"] == "running"
            && state["job"].as_str().is_some_and(|job| job.contains("--name=w"))
    });
    browser.wait_for("document.getElementById('running').innerText.startsWith('--name=w')");
    assert_eq!(browser.evaluate("document.getElementById('view-only').hidden"), true);
    submit(&mut browser, "number", &[("key", "flash.t_prog"), ("value", "900us")]);
    server.wait_for("the number", |state| state["devices"][0]["device"] == "sd/kingston:flash.t_prog=900us");
    submit(&mut browser, "beside", &[("device", "sd/sandisk")]);
    server.wait_for("the second device", |state| counter(state, 1, "host_written_bytes") > 0);
    browser.wait_for("document.querySelectorAll('.device').length === 2");
    click(&mut browser, "input[name=which][value=\"1\"]");
    click(&mut browser, "#unplug");
    let state = server.wait_for("the unplugging of one", |state| state["devices"][1]["phase"] == "unplugged");
    assert_eq!(state["devices"][0]["phase"], "running");
    click(&mut browser, "#alone");
    server.wait_for("the removal", |state| {
        state["devices"].as_array().is_some_and(|devices| devices.len() == 1)
    });
    click(&mut browser, "#restart");
    server.wait_for("the new beginning", |state| {
        state["events"]
            .as_array()
            .and_then(|all| all.last())
            .is_some_and(|last| last["text"] == "the device starts as new")
    });

    for mode in ["wear", "valid", "uses"] {
        click(&mut browser, &format!("[data-mode={mode}]"));
        browser.wait_for(&format!("document.querySelector('[data-mode={mode}]').ariaPressed === 'true'"));
    }
    assert!(browser.errors.is_empty(), "{:#?}", browser.errors);

    submit(&mut browser, "number", &[("key", "flash.t_porg"), ("value", "1us")]);
    browser.wait_for("document.getElementById('message').textContent.includes('t_prog')");
}

#[test]
fn the_error_of_a_rejected_command_is_visible_without_scrolling() {
    let server = WebServer::start(&["sd/kingston"]);
    for (width, height) in [(1280, 700), (400, 700)] {
        let test = format!("refusal-{width}");
        let Some(mut browser) = Browser::open(&test, &server.url, (width, height)) else { return };
        browser.wait_for("document.documentElement?.dataset.ready === 'true'");
        browser.evaluate("document.getElementById('changes').open = true");
        browser.evaluate("document.getElementById('job').scrollIntoView()");
        submit(&mut browser, "job", &[("text", "--name=a --direct=1 --rw=randraed")]);
        browser.wait_for("!document.getElementById('notice').hidden");
        let seen = "(() => { const box = document.getElementById('message').getBoundingClientRect();
            const at = document.elementFromPoint(box.x + 5, box.y + 5);
            return scrollY > 0 && box.top >= 0 && box.bottom <= innerHeight && at.id === 'message'; })()";
        assert_eq!(browser.evaluate(seen), true, "the message is not visible at {width}");
        let style = "getComputedStyle(document.getElementById('message')).whiteSpace";
        let shown = browser.evaluate(style);
        assert!(shown.as_str().is_some_and(|style| style.starts_with("pre")), "{shown}");
        click(&mut browser, "#dismiss");
        browser.wait_for("document.getElementById('notice').hidden");
    }
}

#[test]
fn the_page_draws_its_charts_and_fits_a_phone_screen() {
    let server = WebServer::start(&["--speed", "60", "nvme/p32a80"]);
    for (width, height) in [(1280, 1000), (400, 800)] {
        let test = format!("draws-{width}");
        let Some(mut browser) = Browser::open(&test, &server.url, (width, height)) else { return };
        browser.wait_for("document.documentElement?.dataset.ready === 'true'");
        browser.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })");
        browser.wait_for(
            "[...document.querySelectorAll('canvas')].length === 4 && [...document.querySelectorAll('canvas')].every((c) => {
               const bytes = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
               return new Set(new Uint32Array(bytes.buffer)).size > 2; })",
        );
        let wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
        assert_eq!(browser.evaluate(wide), 0, "pixels of overflow at {width}");
        let unnamed = "[...document.querySelectorAll('canvas')].filter((c) => !c.ariaLabel).length
            + [...document.querySelectorAll('input, textarea')].filter((c) => c.labels.length === 0).length
            + [...document.querySelectorAll('button')].filter((c) => c.textContent.trim() === '').length";
        assert_eq!(browser.evaluate(unnamed), 0, "elements without a name for screen readers");
        // An image would hide from screen readers that the arrow keys have an effect.
        let charts = "[...document.querySelectorAll('canvas')].filter((c) => c.role === 'application'
            && document.getElementById(c.getAttribute('aria-describedby'))?.className.includes('readout')).length";
        assert_eq!(browser.evaluate(charts), 4, "charts with their readout");
        assert!(browser.errors.is_empty(), "{:#?}", browser.errors);
    }
}

#[test]
fn a_page_without_its_server_says_so_and_has_no_active_controls() {
    let mut server = WebServer::start(&["sd/kingston"]);
    let Some(mut browser) = Browser::open("lost", &server.url, WINDOW) else { return };
    browser.wait_for("document.documentElement?.dataset.ready === 'true'");
    browser.evaluate("document.getElementById('changes').open = true");
    let full = "document.querySelector('input[name=key]').scrollWidth <= document.querySelector('input[name=key]').clientWidth";
    assert_eq!(browser.evaluate(full), true, "a part of the name of the number is hidden");
    server.kill();
    browser.wait_for("document.querySelector('.phase').textContent === 'not connected'");
    let inert = "document.getElementById('time-controls').inert && document.getElementById('changes').inert";
    assert_eq!(browser.evaluate(inert), true);
    let pace =
        "document.getElementById('pace').textContent === 'the connection to flashlab is lost; trying again'";
    browser.wait_for(pace);
    assert_eq!(browser.evaluate("document.getElementById('notice').hidden"), true);
}

#[test]
fn a_page_without_the_token_is_view_only() {
    let server = WebServer::start(&["sd/kingston"]);
    let url = server.url.split('#').next().expect("a first part");
    let Some(mut browser) = Browser::open("watches", url, WINDOW) else { return };
    browser.wait_for("document.documentElement?.dataset.ready === 'true'");
    let hidden =
        "document.getElementById('time-controls').hidden && document.getElementById('changes').hidden";
    assert_eq!(browser.evaluate(hidden), true);
    let said = "[...document.querySelectorAll('#running, #view-only')].map((part) => part.hidden ? '' : part.innerText).join('|')";
    let said = browser.evaluate(said);
    let (job, reason) = said.as_str().and_then(|said| said.split_once('|')).expect("two texts");
    assert!(job.contains("--rw=randwrite") && reason.contains("with its token"), "{said}");
    assert!(browser.errors.is_empty(), "{:#?}", browser.errors);
}

#[test]
fn a_command_over_http_needs_the_token_and_bad_arguments_are_refused() {
    let server =
        WebServer::start(&["sd/kingston", "--name=a", "--rw=read", "--bs=4k", "--size=1m", "--direct=1"]);
    let json = "Content-Type: application/json\r\n";
    let (status, _) = server.request("POST /api/control", json, "{\"do\":\"pause\"}");
    assert_eq!(status, "HTTP/1.1 401 Unauthorized");
    let headers = format!("{json}Authorization: Bearer {}\r\n", server.token());
    let (status, why) = server.request("POST /api/control", &headers, "{\"do\":\"explode\"}");
    assert_eq!(status, "HTTP/1.1 422 Unprocessable Entity");
    assert!(why.contains("unknown variant `explode`"), "{why}");
    for (arguments, what) in [
        (&["web", "sd/none"][..], "sd/none"),
        (&["web", "sd/kingston", "--name=a", "--rw=sideways"], "sideways"),
        (&["web", "--listen=localhost:x", "sd/kingston"], "PORT or HOST:PORT"),
        (&["web", "--speed=0", "sd/kingston"], "speed"),
    ] {
        let output = crate::live::tools::flashlab(arguments).output().expect("the binary is built");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(message.contains(what), "{arguments:?}: {message}");
    }
}
