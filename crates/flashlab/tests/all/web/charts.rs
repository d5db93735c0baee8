//! The charts of the page: rates over the time of the requests, the scale of wear, axes, and values under the pointer.

use super::browser::Browser;
use super::server::WebServer;

/// Intervals of 100 ms, and requests of 1 MB that take 85 ms each, so that one or two requests end in each interval.
const INTERVALS: &str = "Array.from({ length: 40 }, (_, index) => {
    const [from, to] = [index * 1e8, (index + 1) * 1e8];
    const [before, count] = [Math.floor(from / 85e6), Math.floor(to / 85e6) - Math.floor(from / 85e6)];
    return { from_ns: from, to_ns: to, wall_ns: 1e8, requests: [0, count, 0], bytes: [0, count * 1e6, 0], failed: 0,
        busy_from_ns: before * 85e6, busy_to_ns: (before + count) * 85e6, latency_max_ns: 85e6,
        mechanisms_ns: [count * 85e6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], latencies: [[24, count]], is_changed: false };
})";

#[test]
fn the_bandwidth_of_long_requests_is_steady() {
    let server = WebServer::start(&["sd/kingston"]);
    let Some(mut browser) = Browser::open("charts", &server.url, (1280, 1000)) else { return };
    browser.wait_for("document.documentElement?.dataset.ready === 'true'");
    let rates = |expression: &str| {
        format!(
            "import('/charts.js').then((charts) => {{ const all = {INTERVALS};
                 const even = (values) => Math.max(...values) / Math.min(...values) < 1.001;
                 return {expression}; }})"
        )
    };
    let mut holds = |expression: &str| {
        assert_eq!(browser.evaluate(&rates(expression)), true, "{expression}");
    };
    holds("new Set(all.map((interval) => interval.requests[1])).size === 2");
    holds("even(charts.rates(all, 1).map((rate) => rate[1]).filter((rate) => rate !== null))");
    holds("Math.abs(charts.rates(all, 1)[5][1] * 85e6 / 1e15 - 1) < 0.001");
    holds("even(all.slice(20).map((_, index) => charts.summary(all.slice(0, 20 + index), 1).writeRate))");
    // Without a request in flight, nothing is transferred after the last completion.
    holds(
        "charts.rates([...all, { ...all[0], from_ns: 4e9, to_ns: 41e8, bytes: [0, 0, 0], busy_to_ns: 0 }], 0)[40][1] === 0",
    );
    holds(
        "charts.rates([...all, { ...all[0], from_ns: 4e9, to_ns: 41e8, bytes: [0, 0, 0], busy_to_ns: 0 }], 1)[40][1] === null",
    );
    assert!(browser.errors.is_empty(), "{:#?}", browser.errors);
}

#[test]
fn the_scale_of_wear_begins_at_zero_and_has_the_colours_of_reports() {
    let colours = |css: &str| -> Vec<String> {
        let css = css.split([';', '{', '}']).map(str::trim);
        let steps = css.filter(|rule| {
            let digits = rule.strip_prefix("--h").and_then(|rest| rest.split(':').next());
            digits.is_some_and(|digits| digits.parse::<u8>().is_ok())
        });
        steps.map(str::to_owned).collect()
    };
    let live = colours(include_str!("../../../../web/page/live.css"));
    let light = colours(include_str!("../../../../report/src/style/light.css"));
    let dark = colours(include_str!("../../../../report/src/style/dark.css"));
    assert_eq!((light.len(), live), (11, [light, dark].concat()));

    let server = WebServer::start(&["--speed", "100", "sd/kingston"]);
    let Some(mut browser) = Browser::open("wear", &server.url, (1280, 1000)) else { return };
    browser.wait_for("document.documentElement?.dataset.ready === 'true'");
    browser.evaluate("document.querySelector('[data-mode=wear]').click()");
    browser.wait_for(
        "(() => { const texts = [...document.querySelectorAll('.blocks .legend li')].map((item) => item.textContent);
         return texts[0] === '0 erases' && /^[1-9][0-9]* erases?$/.test(texts.at(-2)) && texts.at(-1) === 'just erased'; })()",
    );
    let inks = "[...document.querySelectorAll('.blocks .legend i')].map((ink) => ink.style.background)";
    let inks = browser
        .evaluate(&format!("(() => {{ const inks = {inks}; return [inks[0], inks.at(-2)].join(); }})()"));
    assert_eq!(inks, "var(--h0),var(--h10)", "the fewest and the most erases");
    let unit = browser.evaluate("document.querySelector('.blocks .unit').textContent");
    assert!(unit.as_str().is_some_and(|unit| unit.starts_with("1 cell = 3 blocks of ")), "{unit}");
    assert!(browser.errors.is_empty(), "{:#?}", browser.errors);
}

#[test]
fn axes_end_at_round_values_and_two_devices_share_them() {
    let server = WebServer::start(&["sd/kingston"]);
    let Some(mut browser) = Browser::open("axes", &server.url, (1280, 1000)) else { return };
    browser.wait_for("document.documentElement?.dataset.ready === 'true'");
    let shown = browser.evaluate(
        "Promise.all([import('/charts.js'), import('/format.js')]).then(([charts, format]) => {
            const tops = [[10.3 * 1048576, 1024], [1048576, 1024], [900 * 1024, 1024], [1010 * 1024, 1024]];
            const times = [[654e3, 1000], [1e6, 1000], [1001, 1000]];
            const slow = { intervals: [{ from_ns: 0, to_ns: 1e8, latencies: [[15, 1]], requests: [0, 1, 0],
                mechanisms_ns: [1.6e6] }], rates: [[0, 5e6, 0]] };
            const fast = { intervals: [{ from_ns: 0, to_ns: 1e8, latencies: [[9, 1]], requests: [0, 1, 0],
                mechanisms_ns: [1.1e5] }, slow.intervals[0]], rates: [[0, 9e7, 0], [0, 0, 0]] };
            const axes = charts.axes([slow, fast]);
            return [...tops.map(([value, base]) => format.bytes(charts.roundUp(value, base))),
                ...times.map(([value, base]) => format.latency(charts.roundUp(value, base))),
                format.bytes(axes.bandwidth), format.latency(axes.latency), axes.low, axes.high, axes.longest.length,
                ...[5e8, 90e9, 330e9, 18330e9, 360000e9].map(format.span)].join('; '); })",
    );
    assert_eq!(
        shown,
        "20 MiB; 1 MiB; 1000 KiB; 1 MiB; 800 µs; 1 ms; 2 µs; 100 MiB; 2 ms; 8; 16; 2; \
         500 ms; 1 min 30 s; 5 min 30 s; 5 h 5 min; 4 d 4 h"
    );
}

#[test]
fn pointer_and_arrow_keys_show_the_values_of_charts_and_blocks() {
    let server = WebServer::start(&["--speed", "100", "sd/kingston"]);
    let Some(mut browser) = Browser::open("values", &server.url, (1280, 1000)) else { return };
    browser.wait_for("document.documentElement?.dataset.ready === 'true'");
    browser.wait_for("document.querySelector('.tiles dd').textContent !== '0'");
    browser.evaluate(
        "(() => { window.send = (part, key) => { const canvas = document.querySelector(`.${part} canvas`);
           canvas.focus(); canvas.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true })); };
         window.text = (part) => document.querySelector(`.${part} .readout`).textContent;
         window.point = (part, right, y) => { const canvas = document.querySelector(`.${part} canvas`);
           const box = canvas.getBoundingClientRect();
           canvas.dispatchEvent(new PointerEvent('pointermove', { clientX: box.right - right, clientY: box.y + y })); }; })()",
    );
    // The pointer selects the same interval in all charts.
    browser.evaluate("point('heat', 12, 80)");
    browser.wait_for("/^00:.*: [0-9]+ requests, mean .*, greatest .*; .* to .*: [0-9]+$/.test(text('heat'))");
    browser.wait_for(
        "/^00:.* MiB\\/s written$/.test(text('bandwidth')) && text('mechanisms').includes('program')",
    );
    browser
        .evaluate("document.querySelector('.heat canvas').dispatchEvent(new PointerEvent('pointerleave'))");
    browser.wait_for("text('bandwidth') === ''");
    // The key chooses an interval, which keeps its values while time goes on.
    browser.evaluate("send('mechanisms', 'ArrowLeft')");
    browser.wait_for("text('mechanisms').includes('program')");
    let chosen = browser.evaluate("text('mechanisms')");
    browser.evaluate("new Promise((done) => setTimeout(done, 500))");
    assert_eq!(browser.evaluate("text('mechanisms')"), chosen);
    browser.evaluate("send('mechanisms', 'ArrowLeft')");
    browser.wait_for(&format!("text('mechanisms') !== {chosen} && text('mechanisms').includes('program')"));
    browser.evaluate("send('blocks', 'ArrowRight')");
    browser.evaluate("send('blocks', 'ArrowRight')");
    browser.wait_for("/^blocks? .*: .*[0-9]+ erases?, .*, [0-9]+ % valid$/.test(text('blocks'))");
    browser.evaluate("send('blocks', 'Escape')");
    browser.wait_for("text('blocks').includes('arrow keys')");
    assert!(browser.errors.is_empty(), "{:#?}", browser.errors);
}
