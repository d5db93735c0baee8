//! The numbers of the page: a value that rounds up to the next unit has that unit.

use super::browser::Browser;
use super::server::WebServer;

#[test]
fn numbers_round_up_to_the_next_unit() {
    let server = WebServer::start(&["sd/kingston"]);
    let Some(mut browser) = Browser::open("format", &server.url, (1280, 1000)) else { return };
    browser.wait_for("document.documentElement?.dataset.ready === 'true'");
    let shown = browser.evaluate(
        "import('/format.js').then((format) => [
            ...[0, 5, 999.4, 999.6, 9_996, 99_960, 999_999].map(format.latency),
            ...[1023, 1024, 1536, 1023 * 1024, 1023.9 * 1024].map(format.bytes),
            ...[1000, 12.34, 1, 0.9991, 0.001].map(format.factor),
            ...[0, 9_999.4, 9_999.6, 12_345, 999_950].map(format.count),
        ].join('; '))",
    );
    assert_eq!(
        shown,
        "0 ns; 5 ns; 999 ns; 1.00 µs; 10.0 µs; 100 µs; 1.00 ms; \
         1023 B; 1 KiB; 1.50 KiB; 1023 KiB; 1.00 MiB; \
         1000×; 12.3×; 1×; 1×; 0.001×; \
         0; 9999; 10.0 k; 12.3 k; 1.00 M"
    );
}
