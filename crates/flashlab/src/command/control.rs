//! Execution of the commands of `flashlab ctl` in an NBD server.

use crate::words;
use flashlab_block::Timed;
use flashlab_block::layer::{Faults, Kind};
use flashlab_lab::results::DeviceStatistics;
use flashlab_lab::statistics::{Counters, Wear, statistics};
use flashlab_serve::{ControlReply, Server};
use flashlab_served::{Caller, Gauge, Served};
use flashlab_sim::{Fate, Instant, PowerCut};
use std::fmt::Write;

/// Devices of a server, and the counters of the timed ones at its start.
pub(crate) struct ServerControl<'a> {
    server: &'a Server,
    served: &'a [Served],
    before: Vec<Option<Counters>>,
}

impl<'a> ServerControl<'a> {
    pub(crate) fn new(server: &'a Server, served: &'a [Served]) -> ServerControl<'a> {
        let counters = |served: &Served| Some(served.timed.as_ref()?.with_model(Counters::of));
        ServerControl { server, served, before: served.iter().map(counters).collect() }
    }

    /// Returns the current instant of the devices' time.
    pub(crate) fn now(&self) -> Instant {
        self.server.time().now()
    }

    /// Returns the server's counters.
    pub(crate) fn counters(&self) -> &flashlab_serve::Counters {
        self.server.counters()
    }

    /// Returns the timed parts of the devices, with the names of their exports.
    pub(crate) fn timed(&self) -> impl Iterator<Item = (&str, &Timed)> {
        self.served.iter().filter_map(|served| Some((served.name.as_str(), served.timed.as_deref()?)))
    }

    /// Returns the gauges of the devices, such as those of a volume, with the names of their exports.
    pub(crate) fn gauges(&self) -> impl Iterator<Item = (&str, Gauge)> {
        self.served.iter().flat_map(|served| {
            let gauges = served.closing.as_ref().map(|device| device.gauges()).unwrap_or_default();
            gauges.into_iter().map(|gauge| (served.name.as_str(), gauge))
        })
    }

    /// Executes `line`: the name of an export, a line feed, and a command.
    pub(crate) fn answer(&self, line: &str) -> ControlReply {
        let (name, command) = line.split_once('\n').unwrap_or(("", line));
        let place = self.served.iter().position(|served| served.name == name);
        // Without a name, the command is for the only export, whatever the name of that export.
        let place = place.or((name.is_empty() && self.served.len() == 1).then_some(0));
        let place = place.ok_or_else(|| match name {
            "" => "there are several exports: choose one with --export NAME".to_owned(),
            name => format!("no export is called {name:?}"),
        })?;
        let served = &self.served[place];
        let words = words::split(command)?;
        let (verb, rest) = verb_and_rest(&words);
        match (verb, rest.as_str()) {
            ("stats", "") => Ok(self.stats(served)),
            ("wear", "") => device_wear(served, self.before[place].as_ref()),
            ("cut", "") => {
                let said = self.unplug(served)?;
                self.replug(served)?;
                Ok(said)
            }
            ("unplug", "") => self.unplug(served),
            ("replug", "") => self.replug(served),
            ("keep", "") => {
                let writer = served.state_writer.as_ref();
                let without = || reason(served, "the device has no file for its state: serve it with state=FILE");
                let writer = writer.ok_or_else(without)?;
                writer.write().map_err(|error| error.to_string())?;
                Ok(format!("the state is in {}\n", writer.path().display()))
            }
            ("fault", rule) => fault(served, rule),
            _ => self.device_command(served, &words).unwrap_or_else(|| {
                Err(format!(
                    "{command:?} is not a command; the commands are stats, wear, cut, unplug, replug, fault and keep, \
                     and for a volume set, add, remove, online, evacuate, state, rekey and scrub"
                ))
            }),
        }
    }

    /// Executes a command that the device itself defines, as a volume does.
    fn device_command(&self, served: &Served, words: &[String]) -> Option<ControlReply> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let time = self.server.time();
        let advance = || {
            let _ = time.advance(&*served.device);
        };
        let device = served.closing.as_ref()?;
        device.command(&words, &Caller { advance: &advance, find_use: &find_use })
    }

    fn stats(&self, served: &Served) -> String {
        super::serve::summary(self.server) + "\n" + &format_stats(served)
    }

    fn unplug(&self, served: &Served) -> ControlReply {
        let power = PowerSwitch::of(served)?;
        if !power.is_powered() {
            return Err("the power is off already".to_owned());
        }
        match power {
            PowerSwitch::Model(timed) => {
                let cut = timed.power_cut(self.server.time().now()).map_err(|error| error.to_string())?;
                Ok(format_power_cut(&cut))
            }
            PowerSwitch::ErrorLayer(faults) => {
                faults.unplug();
                Ok(format_power_cut(&PowerCut::default()))
            }
        }
    }

    fn replug(&self, served: &Served) -> ControlReply {
        let power = PowerSwitch::of(served)?;
        if power.is_powered() {
            return Err("the power is on already".to_owned());
        }
        match power {
            PowerSwitch::Model(timed) => {
                timed.power_up(self.server.time().now());
            }
            PowerSwitch::ErrorLayer(faults) => faults.replug(),
        }
        Ok(String::new())
    }
}

/// Returns the first word of a command, and the others with spaces between them.
pub(super) fn verb_and_rest(words: &[String]) -> (&str, String) {
    words.split_first().map_or(("", String::new()), |(verb, rest)| (verb, rest.join(" ")))
}

#[cfg(feature = "volume")]
use super::volume::find_use;

/// Returns `None`: without volumes, no command names another device.
#[cfg(not(feature = "volume"))]
fn find_use(_device: &str) -> Option<String> {
    None
}

/// Part of a device that executes power cuts.
enum PowerSwitch<'a> {
    Model(&'a Timed),
    /// The uppermost `error` layer of a device without a timed part. Without power, the layer fails all
    /// requests.
    ErrorLayer(&'a Faults),
}

impl PowerSwitch<'_> {
    fn of(served: &Served) -> Result<PowerSwitch<'_>, String> {
        let timed = served.timed.as_deref().map(PowerSwitch::Model);
        let power = timed.or_else(|| served.faults.last().map(|faults| PowerSwitch::ErrorLayer(faults)));
        let without = "the device's power cannot be cut: it is not simulated, and has neither a delay nor an error layer";
        power.ok_or_else(|| reason(served, without))
    }

    fn is_powered(&self) -> bool {
        match self {
            PowerSwitch::Model(timed) => timed.is_powered(),
            PowerSwitch::ErrorLayer(faults) => faults.is_powered(),
        }
    }
}

/// Formats the counters of the `stats` layers of a device, and its gauges.
pub(super) fn format_stats(served: &Served) -> String {
    let mut text = String::new();
    for stats in &served.stats {
        let _ = writeln!(text, "stats layer, at most {} outstanding:", stats.outstanding_max());
        for kind in Kind::ALL {
            let tally = stats.tally(kind);
            if tally.requests > 0 {
                let (name, errors) = (kind.name(), tally.errors);
                let _ = writeln!(
                    text,
                    "  {name}: {} requests, {} bytes, {errors} errors",
                    tally.requests, tally.bytes
                );
            }
        }
    }
    if let Some(work) = served.closing.as_ref().and_then(|device| device.describe_work()) {
        let _ = writeln!(text, "background work: {work}");
    }
    let gauges = served.closing.as_ref().map(|device| device.gauges()).unwrap_or_default();
    for Gauge { name, labels, value, .. } in gauges {
        let labels: Vec<String> = labels.iter().map(|(name, value)| format!(" {name}={value}")).collect();
        let name = name.trim_start_matches("flashlab_").replace('_', " ");
        let _ = writeln!(text, "{name}{}: {value}", labels.concat());
    }
    text
}

/// Returns the reason why a command for simulated devices fails: `why`, unless the device is a volume, whose
/// members may be simulated.
pub(super) fn reason(served: &Served, why: &str) -> String {
    match served.closing {
        Some(_) => {
            "the device is a volume: this command works on simulated devices that are served themselves, not \
                    on members of a volume"
                .to_owned()
        }
        None => why.to_owned(),
    }
}

/// Formats the counters of a simulated device. `before` contains its counters when it was opened.
pub(super) fn device_wear(served: &Served, before: Option<&Counters>) -> ControlReply {
    let (Some(timed), Some(before)) = (&served.timed, before) else {
        return Err(reason(served, "the device is not simulated, so it has no wear"));
    };
    let (after, wear) = timed.with_model(|model| (Counters::of(model), Wear::of(model)));
    let counted = statistics(before, &after, wear.as_ref());
    let counted = DeviceStatistics { column: served.description.clone(), ..counted };
    Ok(flashlab_report::of_device(&counted))
}

/// Adds a rule to the uppermost `error` layer of a device, or lists or removes all rules of the layer.
pub(super) fn fault(served: &Served, rule: &str) -> ControlReply {
    let faults = served.faults.last();
    let faults = faults.ok_or("the device has no error layer: serve it with DEVICE+error")?;
    match rule {
        "" => return Err("the rule is missing; for example: fault write rate=0.01 EIO".to_owned()),
        "list" => return Ok(faults.rules().into_iter().map(|rule| rule + "\n").collect()),
        "clear" => faults.clear(),
        rule => faults.add(rule.parse().map_err(|error| format!("{error}"))?),
    }
    Ok(String::new())
}

/// Formats the byte ranges that a power cut left undecided, one per line; without such ranges, returns a single line.
pub(super) fn format_power_cut(cut: &PowerCut) -> String {
    if cut.undecided.is_empty() {
        return "power was cut; nothing was lost\n".to_owned();
    }
    let mut text = String::new();
    for (range, fate) in &cut.undecided {
        let content = match fate {
            Fate::Old => "the old data",
            Fate::New => "the new data",
            Fate::Unreadable => "unreadable until they are written again",
        };
        let _ = writeln!(text, "{} bytes at {}: {content}", range.end - range.start, range.start);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_cut_is_described_in_words() {
        let mut cut = PowerCut::default();
        cut.push(0..4096, Fate::Unreadable);
        cut.push(8192..8704, Fate::Old);
        cut.push(9216..9728, Fate::New);
        assert_eq!(
            format_power_cut(&cut),
            "4096 bytes at 0: unreadable until they are written again\n512 bytes at 8192: the old data\n\
             512 bytes at 9216: the new data\n"
        );
    }
}
