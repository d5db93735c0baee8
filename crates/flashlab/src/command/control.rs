//! What a server does when `flashlab ctl` tells it to.

use flashlab_block::Timed;
use flashlab_block::layer::Kind;
use flashlab_lab::results::DeviceStatistics;
use flashlab_lab::served::Served;
use flashlab_lab::statistics::{Counters, Wear, statistics};
use flashlab_serve::{Server, Told};
use flashlab_sim::PowerCut;
use std::fmt::Write;

/// The devices of a server, and what they had counted when it began.
pub(crate) struct Controlled<'a> {
    server: &'a Server,
    served: &'a [Served],
    before: Vec<Option<Counters>>,
}

impl<'a> Controlled<'a> {
    pub(crate) fn new(server: &'a Server, served: &'a [Served]) -> Controlled<'a> {
        let counters = |served: &Served| Some(served.timed.as_ref()?.with_model(Counters::of));
        Controlled { server, served, before: served.iter().map(counters).collect() }
    }

    /// What the server counts.
    pub(crate) fn counters(&self) -> &flashlab_serve::Counters {
        self.server.counters()
    }

    /// The devices that are simulated, with their exports' names.
    pub(crate) fn timed(&self) -> impl Iterator<Item = (&str, &Timed)> {
        self.served.iter().filter_map(|served| Some((served.name.as_str(), served.timed.as_deref()?)))
    }

    /// Does what `line` says: an export's name, and in the next line a command.
    pub(crate) fn answer(&self, line: &str) -> Told {
        let (name, command) = line.split_once('\n').unwrap_or(("", line));
        let place = self.served.iter().position(|served| served.name == name);
        // The only one is meant, whatever its name is.
        let place = place.or((name.is_empty() && self.served.len() == 1).then_some(0));
        let place = place.ok_or_else(|| match name {
            "" => "which export? --export NAME".to_owned(),
            name => format!("no export is called {name:?}"),
        })?;
        let served = &self.served[place];
        let mut words = command.split_whitespace();
        let (verb, rest) = (words.next().unwrap_or_default(), words.collect::<Vec<_>>().join(" "));
        match (verb, rest.as_str()) {
            ("stats", "") => Ok(self.stats(served)),
            ("wear", "") => self.wear(place),
            ("cut", "") => {
                self.unplug(served)?;
                self.replug(served)
            }
            ("unplug", "") => self.unplug(served),
            ("replug", "") => self.replug(served),
            ("keep", "") => {
                let keeper = served.keeper.as_ref();
                let keeper = keeper.ok_or("it has no file to keep its state in: serve it with state=FILE")?;
                keeper.keep().map_err(|error| error.to_string())?;
                Ok(format!("the state is {}\n", keeper.path().display()))
            }
            ("fault", rule) => fault(served, rule),
            _ => Err(format!(
                "{command:?} is no command; there are stats, wear, cut, unplug, replug, fault and keep"
            )),
        }
    }

    fn stats(&self, served: &Served) -> String {
        let mut text = super::serve::summary(self.server);
        text.push('\n');
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
        text
    }

    fn wear(&self, place: usize) -> Told {
        let served = &self.served[place];
        let (Some(timed), Some(before)) = (&served.timed, &self.before[place]) else {
            return Err("it is not simulated: nothing of it wears".to_owned());
        };
        let (after, wear) = timed.with_model(|model| (Counters::of(model), Wear::of(model)));
        let counted = statistics(before, &after, wear.as_ref());
        let counted = DeviceStatistics { column: served.description.clone(), ..counted };
        Ok(flashlab_report::of_device(&counted))
    }

    fn unplug(&self, served: &Served) -> Told {
        let timed = served.timed.as_ref();
        let timed = timed.ok_or("it has no power to cut: it is not simulated, nor delayed")?;
        if !timed.is_powered() {
            return Err("it has no power already".to_owned());
        }
        let cut = timed.power_cut(self.server.now()).map_err(|error| error.to_string())?;
        Ok(undecided(&cut))
    }

    fn replug(&self, served: &Served) -> Told {
        let timed =
            served.timed.as_ref().ok_or("it has no power to give: it is not simulated, nor delayed")?;
        if timed.is_powered() {
            return Err("it has power already".to_owned());
        }
        timed.power_up(self.server.now());
        Ok(String::new())
    }
}

fn fault(served: &Served, rule: &str) -> Told {
    let faults = served.faults.last();
    let faults = faults.ok_or("it has no error layer: serve it with DEVICE+error")?;
    match rule {
        "" => return Err("which rule? for example: fault write rate=0.01 EIO".to_owned()),
        "list" => return Ok(faults.rules().into_iter().map(|rule| rule + "\n").collect()),
        "clear" => faults.clear(),
        rule => faults.add(rule.parse().map_err(|error| format!("{error}"))?),
    }
    Ok(String::new())
}

/// The bytes of which a power cut left open what becomes of them, a range a line.
pub(super) fn undecided(cut: &PowerCut) -> String {
    let mut text = String::new();
    for (range, fate) in &cut.undecided {
        let _ = writeln!(text, "{} bytes at {}: {fate:?}", range.end - range.start, range.start);
    }
    text
}
