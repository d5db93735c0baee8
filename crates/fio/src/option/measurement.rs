//! Options for reports and logs.

use super::{Entry, Kind, irrelevant, modelled, refused};
use crate::number::{Fault, fractions};

const PERCENTILES_MAX: usize = 20;
const EPOCH: &str = "simulated time has no date: logs count from the start of the job";

pub(super) const REPORTS: &[Entry] = &[
    modelled(
        "group_reporting",
        &[],
        "0",
        Kind::Switch(|s, on| s.job.group_reporting = on),
        "Reports the jobs of a group as one.",
    ),
    modelled(
        "unified_rw_reporting",
        &[],
        "none",
        Kind::Form {
            form: "none or mixed (0 or 1)",
            read: |s, text| {
                s.job.unified_rw_reporting = match text.trim_end() {
                    "none" | "0" => false,
                    "mixed" | "1" => true,
                    "both" | "2" => {
                        let what =
                            "directions are reported separately (none) or together (mixed), not both ways";
                        return Err(Fault::NotModelled(what).at(0));
                    }
                    _ => {
                        let words = vec!["none", "mixed", "0", "1"];
                        return Err(Fault::NotOneOf { words, did_you_mean: None }.at(0));
                    }
                };
                Ok(())
            },
        },
        "Reports reads, writes and trims together.",
    ),
    modelled(
        "percentile_list",
        &[],
        "1:5:10:20:30:40:50:60:70:80:90:95:99:99.5:99.9:99.95:99.99",
        Kind::Form {
            form: "up to 20 percentages separated by :",
            read: |s, text| {
                let mut list = fractions(text, PERCENTILES_MAX, 0.0, 100.0)?;
                list.sort_by(f64::total_cmp);
                s.job.percentiles = list;
                Ok(())
            },
        },
        "Which percentiles of completion latency are reported.",
    ),
    modelled(
        "clat_percentiles",
        &[],
        "1",
        Kind::Boolean(|s, on| s.job.percentiles_of.clat = on),
        "Reports percentiles of completion latency.",
    ),
    modelled(
        "lat_percentiles",
        &[],
        "0",
        Kind::Boolean(|s, on| s.job.percentiles_of.lat = on),
        "Reports percentiles of total latency. The terse output then contains them instead of those of completion \
         latency.",
    ),
    modelled(
        "slat_percentiles",
        &[],
        "0",
        Kind::Boolean(|s, on| s.job.percentiles_of.slat = on),
        "Reports percentiles of submission latency.",
    ),
    irrelevant(
        "block_error_percentiles",
        "it counts trims until a block fails; here the first failure ends the job",
    ),
    refused("stats", &["1"], "a job without statistics has nothing to report"),
    irrelevant("significant_figures", "the normal output always has four significant figures"),
    irrelevant("disk_util", "a simulated device has no kernel statistics"),
    irrelevant(
        "gtod_reduce",
        "reading the clock costs nothing in simulated time, so all latencies are measured",
    ),
    irrelevant("disable_lat", "measuring latency costs nothing in simulated time, so it is measured"),
    irrelevant("disable_clat", "measuring latency costs nothing in simulated time, so it is measured"),
    irrelevant("disable_slat", "measuring latency costs nothing in simulated time, so it is measured"),
    irrelevant(
        "disable_bw_measurement",
        "measuring bandwidth costs nothing in simulated time, so it is measured",
    )
    .with_aliases(&["disable_bw"]),
    irrelevant("gtod_cpu", "no thread reads a clock"),
    modelled(
        "write_bw_log",
        &[],
        "",
        Kind::Prefix(|s, text| s.job.write_bw_log = Some(text.to_string())),
        "Writes the bandwidth over time to files with this prefix, in fio's format.",
    ),
    modelled(
        "write_lat_log",
        &[],
        "",
        Kind::Prefix(|s, text| s.job.write_lat_log = Some(text.to_string())),
        "Writes submission, completion and total latencies over time to files with this prefix, in fio's format.",
    ),
    modelled(
        "write_iops_log",
        &[],
        "",
        Kind::Prefix(|s, text| s.job.write_iops_log = Some(text.to_string())),
        "Writes the requests a second over time to files with this prefix, in fio's format.",
    ),
    modelled(
        "log_avg_msec",
        &[],
        "0",
        Kind::Count { least: 0, most: 86_400_000 * 36_500, set: |s, n| s.job.log_avg_msec = n },
        "Logs hold averages over this many milliseconds; 0 for every request.",
    ),
    refused("log_max_value", &["0"], "logs hold the mean of a window, not its maximum"),
    refused("log_offset", &["0"], "log lines have no offset"),
    refused("log_prio", &["0"], "requests have no priority"),
    refused("per_job_logs", &["1"], "each job has log files of its own"),
    refused("bwavgtime", &["500"], "bandwidth is sampled every 500 ms"),
    refused("iopsavgtime", &["500"], "requests a second are sampled every 500 ms"),
    refused("write_hist_log", &[], "no log of histograms is written"),
    irrelevant("log_hist_msec", "it has an effect only with write_hist_log, which is refused"),
    irrelevant("log_hist_coarseness", "it has an effect only with write_hist_log, which is refused"),
    irrelevant("log_entries", "logs grow without a limit"),
    irrelevant("log_compression", "how logs are held in memory does not change them"),
    irrelevant("log_compression_cpus", "no thread compresses logs"),
    refused("log_store_compressed", &["0"], "logs are written as text"),
    irrelevant("log_unix_epoch", EPOCH),
    irrelevant("log_alternate_epoch", EPOCH),
    irrelevant("log_alternate_epoch_clock_id", EPOCH),
];
