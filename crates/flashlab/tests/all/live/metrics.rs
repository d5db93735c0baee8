//! `serve --metrics`: figures in the format of Prometheus.

use super::tools::{Folder, flashlab};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

/// Server with the address of its metrics, killed on drop.
struct MetricsServer(Child, String);

impl MetricsServer {
    fn new(folder: &Folder, arguments: &[&str]) -> MetricsServer {
        let words = [&["serve", "--unix=s.sock", "--metrics=127.0.0.1:0", "--log=info"], arguments].concat();
        let mut server = flashlab(&words);
        let mut server =
            server.current_dir(folder).stderr(Stdio::piped()).spawn().expect("the binary is built");
        let log = BufReader::new(server.stderr.take().expect("the stream is a pipe"));
        let mut lines = log.lines().map_while(Result::ok);
        let line = lines.find(|line| line.contains("http://")).expect("the log has the address");
        let (_, rest) = line.split_once("http://").expect("the text was just found");
        let address = rest.split('/').next().expect("a split has a first part").to_owned();
        // A thread reads the rest of the log, so that the server never blocks on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        MetricsServer(server, address)
    }

    fn send(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(&self.1).expect("the server listens");
        stream.write_all(request.as_bytes()).expect("the server reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the server answers in text");
        answer
    }

    /// Returns the value of each sample by its name with labels.
    fn figures(&self) -> BTreeMap<String, f64> {
        let answer = self.send("GET /metrics HTTP/1.1\r\nHost: card-server\r\nConnection: close\r\n\r\n");
        let (head, body) = answer.split_once("\r\n\r\n").expect("the answer has a head");
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        assert_eq!(length, Some(&*body.len().to_string()));
        let mut figures = BTreeMap::new();
        let mut family = "";
        for line in body.lines() {
            if let Some(words) = line.strip_prefix("# TYPE ") {
                family = words.split(' ').next().expect("the family has a name");
            } else if !line.starts_with("# HELP ") {
                let (name, value) = line.rsplit_once(' ').expect("a name and a value");
                assert!(name.starts_with(family), "{name} stands under {family}");
                let value = value.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
                assert!(figures.insert(name.to_owned(), value).is_none(), "{name} appears twice");
            }
        }
        figures
    }

    /// Returns the figures once no client is connected. While a client is connected, the server may not have
    /// counted all answered requests.
    fn idle_figures(&self) -> BTreeMap<String, f64> {
        let figures = |_| {
            std::thread::sleep(Duration::from_millis(10));
            self.figures()
        };
        (0..60_000)
            .map(figures)
            .find(|figures| figures["flashlab_connections"] == 0.0)
            .expect("clients have gone")
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn load(folder: &Folder, options: &[&str]) {
    run_load(folder, &[&["load", "nbd+unix:///?socket=s.sock"], options].concat());
}

/// Runs a load. The server logs the address of its metrics before it listens for clients, so the load may come too
/// early and is then repeated.
fn run_load(folder: &Folder, words: &[&str]) {
    for _ in 0..60_000 {
        let output = flashlab(words).current_dir(folder).output().expect("the binary is built");
        let errors = String::from_utf8_lossy(&output.stderr);
        if !errors.contains("cannot connect") {
            return assert!(output.status.success(), "{errors}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the server never listens");
}

#[test]
fn every_request_is_counted_once_in_every_family() {
    let folder = Folder::new("metrics");
    let served = MetricsServer::new(&folder, &["memory:size=4M"]);
    load(&folder, &["--rw=write", "--bs=4k", "--iodepth=8"]);
    load(&folder, &["--rw=read", "--bs=512k", "--iodepth=4"]);
    let figures = served.idle_figures();
    let of = |name: &str| *figures.get(name).unwrap_or_else(|| panic!("no {name} in {figures:?}"));
    for (op, requests) in [("read", 8.0), ("write", 1024.0)] {
        assert_eq!(of(&format!("flashlab_requests_total{{op=\"{op}\"}}")), requests);
        assert_eq!(of(&format!("flashlab_request_bytes_total{{op=\"{op}\"}}")), f64::from(4 << 20));
        let duration = "flashlab_request_duration_seconds";
        assert_eq!(of(&format!("{duration}_count{{op=\"{op}\"}}")), requests);
        assert_eq!(of(&format!("{duration}_bucket{{op=\"{op}\",le=\"+Inf\"}}")), requests);
        assert!(of(&format!("{duration}_sum{{op=\"{op}\"}}")) > 0.0);
    }
    assert_eq!(of("flashlab_connections_accepted_total"), 2.0);
    assert_eq!(of("flashlab_request_errors_total"), 0.0);
}

#[test]
fn the_latency_buckets_of_a_delayed_device_contain_its_delay() {
    let folder = Folder::new("metrics-delay");
    let served = MetricsServer::new(&folder, &["memory:size=1M+delay:read=30ms"]);
    load(&folder, &["--rw=read", "--bs=256k"]);
    let figures = served.idle_figures();
    let bucket =
        |le: &str| figures[&format!("flashlab_request_duration_seconds_bucket{{op=\"read\",le=\"{le}\"}}")];
    assert_eq!((bucket("0.02"), bucket("+Inf")), (0.0, 4.0));
}

#[test]
fn a_cards_wear_has_the_label_of_its_export() {
    let folder = Folder::new("metrics-card");
    let served = MetricsServer::new(&folder, &["card=sd/kingston", "--unpaced"]);
    run_load(&folder, &["load", "nbd+unix:///card?socket=s.sock", "--rw=write", "--bs=1m", "--size=16m"]);
    let figures = served.idle_figures();
    assert_eq!(figures["flashlab_device_host_written_bytes{export=\"card\"}"], f64::from(16 << 20));
    assert!(figures.contains_key("flashlab_device_erase_count_max{export=\"card\"}"), "{figures:?}");
}

#[test]
fn invalid_http_requests_are_refused_and_later_ones_served() {
    let folder = Folder::new("metrics-bad");
    let served = MetricsServer::new(&folder, &["memory:size=1M"]);
    assert!(
        served.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").starts_with("HTTP/1.1 404")
    );
    assert!(
        served
            .send("POST /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            .starts_with("HTTP/1.1 405")
    );
    // The server does not read this long request to its end, so it may reset the connection.
    let _ = TcpStream::connect(&served.1).expect("the server listens").write_all(&[b'x'; 9000]);
    let head = served.send("HEAD /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
    drop(TcpStream::connect(&served.1).expect("the server listens"));
    assert!(served.figures().len() > 10);
}

#[test]
fn wear_survives_kill_9() {
    let folder = Folder::new("metrics-kill");
    let card = ["sd/kingston:state=card.state", "--unpaced", "--keep-every=20ms"];
    let written =
        |served: &MetricsServer| served.figures()["flashlab_device_host_written_bytes{export=\"\"}"];
    {
        let served = MetricsServer::new(&folder, &card);
        load(&folder, &["--rw=write", "--bs=1m", "--size=8m"]);
        assert_eq!(written(&served), f64::from(8 << 20));
        // The second write of the state from here on began after the load above, so it includes the load.
        let kept = || std::fs::metadata(folder.path("card.state")).and_then(|file| file.modified()).ok();
        for _ in 0..2 {
            let before = kept();
            while kept() == before {
                load(&folder, &["--rw=write", "--bs=4k", "--size=4k"]);
            }
        }
        // The drop of `served` kills the server.
    }
    let served = MetricsServer::new(&folder, &card);
    assert!(written(&served) >= f64::from(8 << 20), "{}", written(&served));
}
