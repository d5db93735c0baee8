//! The HTTP endpoint for Prometheus. It serves only `GET /metrics`, to one caller at a time.

use crate::counters::{Count, Counters, LATENCY_BOUNDS, RequestType};
use crate::exposition::{Exposition, MetricType};
use crate::link::wait_for;
use crate::{Listener, Stop};
use flashlab_sim::Duration;
use rustix::event::{PollFd, PollFlags};
use rustix::time::{ClockId, clock_gettime};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// Maximum length of a request in bytes.
const REQUEST_MAX: usize = 8 << 10;
/// Maximum time that a caller may take for each part of a request.
const CALLER_TIMEOUT: Duration = Duration::from_secs(2);

/// A listening socket for metrics collectors.
#[derive(Debug)]
pub struct Metrics(TcpListener);

impl Metrics {
    /// Listens on a TCP address; port 0 selects a free port.
    pub fn bind(address: SocketAddr) -> io::Result<Metrics> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Metrics(listener))
    }

    /// Returns the address on which the socket listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Replies to requests with `page` until `stop` is thrown.
    pub fn serve(&self, stop: &Stop, page: impl Fn() -> Exposition) -> io::Result<()> {
        loop {
            let mut fds = [PollFd::new(stop, PollFlags::IN), PollFd::new(&self.0, PollFlags::IN)];
            wait_for(&mut fds, None)?;
            if stop.is_thrown() {
                return Ok(());
            }
            match self.0.accept() {
                // A caller that disconnects or sends nothing is a normal event.
                Ok((stream, _)) => drop(answer(stream, &page)),
                Err(error) if Listener::is_client_gone(&error) => {}
                Err(error) => Listener::pause(&error, stop),
            }
        }
    }
}

fn answer(mut stream: TcpStream, page: impl Fn() -> Exposition) -> io::Result<()> {
    let timeout = std::time::Duration::from_nanos(CALLER_TIMEOUT.as_ns());
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < REQUEST_MAX {
        let mut part = [0; 1024];
        match stream.read(&mut part)? {
            0 => break,
            n => request.extend_from_slice(&part[..n]),
        }
    }
    let request = String::from_utf8_lossy(&request);
    let mut words = request.lines().next().unwrap_or_default().split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split('?').next().unwrap_or_default();
    let (status, body) = match (method, path) {
        ("GET" | "HEAD", "/metrics") => ("200 OK", page().into()),
        ("GET" | "HEAD", _) => ("404 Not Found", "the metrics are at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "only GET /metrics is supported\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Allow: GET, HEAD\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    if method != "HEAD" {
        stream.write_all(body.as_bytes())?;
    }
    stream.shutdown(std::net::Shutdown::Write)
}

impl Counters {
    /// Appends the counters as metrics.
    pub fn expose(&self, page: &mut Exposition) {
        let values = self.read();
        let samples = |page: &mut Exposition, name, counts: &[(&str, Count)]| {
            counts.iter().for_each(|(op, count)| page.sample(name, &[("op", *op)], values.get(*count)));
        };
        let name = "flashlab_requests_total";
        page.family(name, MetricType::Counter, "Requests answered without an error.");
        samples(page, name, &[("read", Count::Reads), ("write", Count::Writes), ("other", Count::Others)]);
        let name = "flashlab_request_bytes_total";
        page.family(name, MetricType::Counter, "Bytes of requests answered without an error.");
        samples(page, name, &[("read", Count::ReadBytes), ("write", Count::WriteBytes)]);
        let counter = MetricType::Counter;
        let errors = values.get(Count::Errors);
        page.single("flashlab_request_errors_total", counter, "Requests answered with an error.", errors);
        let open = values.connections();
        page.single("flashlab_connections", MetricType::Gauge, "Open connections.", open);
        let accepted = values.get(Count::Accepted);
        page.single("flashlab_connections_accepted_total", counter, "Connections accepted.", accepted);
        let batches = values.get(Count::Batches);
        page.single("flashlab_batches_total", counter, "Batches of requests received.", batches);
        let calls = values.get(Count::Calls);
        page.single("flashlab_system_calls_total", counter, "System calls that moved bytes.", calls);
        let name = "flashlab_request_duration_seconds";
        let help = "Time from the arrival of a request to the sending of its reply.";
        page.family(name, MetricType::Histogram, help);
        for request_type in RequestType::ALL {
            self.expose_latency(name, request_type, page);
        }
        let late = self.lateness();
        let name = "flashlab_answer_lateness_seconds";
        page.family(name, MetricType::Untyped, "Delay between the device's completion and the sent reply.");
        page.sample(&format!("{name}_sum"), &[], seconds(late.sum_ns()));
        page.sample(&format!("{name}_count"), &[], late.count());
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let cpu = time.tv_sec as f64 + time.tv_nsec as f64 / 1e9;
        page.single("process_cpu_seconds_total", counter, "Processor time of this process.", cpu);
    }

    fn expose_latency(&self, name: &str, request_type: RequestType, page: &mut Exposition) {
        let (buckets, sum_ns) = self.latency(request_type);
        let mut below = 0;
        for (n, count) in buckets.iter().enumerate() {
            below += count;
            let bound = LATENCY_BOUNDS.get(n).map(|bound| seconds(bound.as_ns().into()).to_string());
            let bound = bound.as_deref().unwrap_or("+Inf");
            page.sample(&format!("{name}_bucket"), &[("op", request_type.name()), ("le", bound)], below);
        }
        page.sample(&format!("{name}_sum"), &[("op", request_type.name())], seconds(sum_ns.into()));
        page.sample(&format!("{name}_count"), &[("op", request_type.name())], below);
    }
}

fn seconds(ns: u128) -> f64 {
    ns as f64 / 1e9
}
