//! The counters of a server as metrics.

use crate::counters::{Count, Counters, LATENCY_BOUNDS, RequestType};
use crate::exposition::{Exposition, MetricType};
use rustix::time::{ClockId, clock_gettime};

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
        page.family(name, MetricType::Counter, "Bytes read and written, without the holes of reads.");
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
        page.single(
            "flashlab_system_calls_total",
            counter,
            "System calls that moved bytes or waited for them.",
            calls,
        );
        let name = "flashlab_request_duration_seconds";
        let help = "Time from the arrival of a request to the sending of its reply.";
        page.family(name, MetricType::Histogram, help);
        for request_type in RequestType::ALL {
            self.expose_latency(name, request_type, page);
        }
        let late = self.lateness();
        let name = "flashlab_answer_lateness_seconds";
        let help =
            "Delay of a reply after the device's completion. Replies that are due together count once.";
        page.family(name, MetricType::Summary, help);
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
