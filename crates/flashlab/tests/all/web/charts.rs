//! The charts of the page: rates over the time of the requests.

use super::browser::Browser;
use super::server::WebServer;

/// Intervals of 100 ms under requests of 1 MB that take 85 ms each: one or two of them end in an interval.
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
    // Without a request in flight, nothing moved after the last completion.
    holds("charts.rates([...all, { ...all[0], from_ns: 4e9, to_ns: 41e8, bytes: [0, 0, 0], busy_to_ns: 0 }], 0)[40][1] === 0");
    holds("charts.rates([...all, { ...all[0], from_ns: 4e9, to_ns: 41e8, bytes: [0, 0, 0], busy_to_ns: 0 }], 1)[40][1] === null");
    assert!(browser.errors.is_empty(), "{:#?}", browser.errors);
}
