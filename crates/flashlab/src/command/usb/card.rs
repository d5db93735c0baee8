//! A card in the slot of a USB SD host controller, and the commands of `flashlab ctl` on it.

use super::super::control::{format_power_cut, verb_and_rest};
use super::super::serve::Options;
use super::{Gadget, format_counters, serve};
use crate::failure::{Failure, and_then_end, say};
use crate::words;
use flashlab_catalogue::library::Library;
use flashlab_lab::results::DeviceStatistics;
use flashlab_lab::statistics::{Counters, Wear, statistics};
use flashlab_sd::Card;
use flashlab_sd::quirk::Planned;
use flashlab_serve::{ControlReply, TaskQueue};
use flashlab_served::CardOrigin;
use flashlab_sim::Instant;
use flashlab_usb::Vub300;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Serves the card of an argument.
pub(super) fn run(device: &str, options: &Options, library: &Library) -> Result<ExitCode, Failure> {
    let (mut card, origin) = CardOrigin::open(device, options.seed, library)?;
    for quirk in &options.quirks {
        let quirk: Planned =
            quirk.parse().map_err(|error| Failure::usage(format_args!("--quirk {quirk}: {error}")))?;
        card.quirks_mut().add(quirk);
    }
    let tasks = TaskQueue::new().map_err(|error| Failure::system("events", &error))?;
    let slot = Slot::new(device, &card, origin, tasks);
    let mut adapter = Vub300::new(Some(card));
    adapter.set_read_only(options.read_only);
    let (adapter, code) = serve(options, &slot, adapter)?;
    let written = slot.write_state(adapter).map_err(Failure::failed);
    slot.damage().into_iter().for_each(say);
    and_then_end(code, written)
}

/// Access to the slot of the adapter while the adapter is served.
struct Slot {
    tasks: TaskQueue<Vub300>,
    card_control: Arc<CardControl>,
}

struct CardControl {
    /// Device argument of the card.
    device: String,
    origin: CardOrigin,
    /// Counters of the card when the service began.
    before: Counters,
    /// Card while it is out of the slot.
    out: Mutex<Option<Card>>,
}

impl Slot {
    /// Returns the slot of an adapter with `card`, which was made from the argument `device`.
    fn new(device: &str, card: &Card, origin: CardOrigin, tasks: TaskQueue<Vub300>) -> Slot {
        let before = Counters::collect(|to| card.observe(to));
        let card_control = CardControl { device: device.to_owned(), origin, before, out: Mutex::default() };
        Slot { tasks, card_control: Arc::new(card_control) }
    }

    /// Writes the state of the card after the end of the service, if the device has `state=FILE`.
    fn write_state(&self, mut adapter: Vub300) -> Result<(), String> {
        let time = adapter.card_time();
        let card = adapter.remove(time).or_else(|| self.card_control.out().take());
        card.map_or(Ok(()), |card| self.card_control.write_state(&card, time))
    }

    /// Returns a message about damaged bytes of the card, if a request found any.
    fn damage(&self) -> Option<String> {
        self.card_control.origin.damage()
    }
}

impl Gadget for Slot {
    type Device = Vub300;
    const NAME: &'static str = "card";

    fn tasks(&self) -> &TaskQueue<Vub300> {
        &self.tasks
    }

    fn command(&self, command: String) -> impl FnOnce(&mut Vub300, Instant) -> ControlReply + Send + 'static {
        let card_control = self.card_control.clone();
        move |adapter, now| card_control.execute(adapter, now, &command)
    }
}

impl CardControl {
    fn execute(&self, adapter: &mut Vub300, now: Instant, command: &str) -> ControlReply {
        let words = words::split(command)?;
        let (verb, rest) = verb_and_rest(&words);
        match (verb, rest.as_str()) {
            ("stats", "") => Ok(stats(adapter)),
            ("wear", "") => self.with_card(adapter, |card| self.wear(card)),
            ("cut", "") => match adapter.card() {
                Some(_) => Ok(format_power_cut(&adapter.fail_power(now))),
                None => Err(SLOT_EMPTY.to_owned()),
            },
            ("unplug", "") => {
                let card = adapter.remove(now).ok_or(SLOT_EMPTY)?;
                *self.out() = Some(card);
                Ok(String::new())
            }
            ("replug", "") => match (self.out().take(), adapter.card()) {
                (Some(card), _) => {
                    adapter.insert(now, card);
                    Ok(String::new())
                }
                (None, Some(card)) if card.quirks().is_removed() => {
                    Err("a fault removed the card: fault clear inserts it again".to_owned())
                }
                (None, _) => Err("the card is in the slot already".to_owned()),
            },
            ("fault", rule) => {
                let card = adapter.card_mut().ok_or(SLOT_EMPTY)?;
                fault(card, rule)
            }
            ("keep", "") => {
                let time = adapter.card_time();
                self.with_card(adapter, |card| {
                    if card.is_writing() {
                        return Err("the card is being written to: try again".to_owned());
                    }
                    let path = self.origin.path();
                    let path = path.ok_or("the card has no file for its state: serve it with state=FILE")?;
                    self.write_state(card, time)?;
                    Ok(format!("the state is in {}\n", path.display()))
                })
            }
            _ => Err(format!(
                "{command:?} is not a command; the commands are stats, wear, cut, unplug, replug, fault and keep"
            )),
        }
    }

    /// Calls `command` with the card, in the slot or out of it.
    fn with_card(&self, adapter: &Vub300, command: impl FnOnce(&Card) -> ControlReply) -> ControlReply {
        match (adapter.card(), &*self.out()) {
            (Some(card), _) | (None, Some(card)) => command(card),
            (None, None) => Err(SLOT_EMPTY.to_owned()),
        }
    }

    fn wear(&self, card: &Card) -> ControlReply {
        let after = Counters::collect(|to| card.observe(to));
        let counted = statistics(&self.before, &after, Wear::collect(|to| card.observe(to)).as_ref());
        let counted = DeviceStatistics { column: self.device.clone(), ..counted };
        Ok(flashlab_report::of_device(&counted))
    }

    fn write_state(&self, card: &Card, time: Instant) -> Result<(), String> {
        self.origin.write_state(card, time.since(Instant::ZERO)).map_err(|error| error.to_string())
    }

    /// Locks the card that is out of the slot. A poisoned lock is usable, since no code in this file leaves it
    /// inconsistent.
    fn out(&self) -> MutexGuard<'_, Option<Card>> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const SLOT_EMPTY: &str = "the slot is empty";

fn stats(adapter: &Vub300) -> String {
    let counters = adapter.counters();
    format_counters([counters.commands, counters.failed, counters.read_bytes, counters.written_bytes])
}

fn fault(card: &mut Card, rule: &str) -> ControlReply {
    match rule {
        "" => {
            return Err(
                "the fault is missing; for example: fault busy=400ms, fault remove@block1000".to_owned()
            );
        }
        "list" => {
            let quirks = card.quirks();
            let active = quirks.active().iter().map(|quirk| format!("{quirk}\n"));
            return Ok(active.chain(quirks.planned().iter().map(|planned| format!("{planned}\n"))).collect());
        }
        "clear" => card.quirks_mut().clear(),
        rule => card.quirks_mut().add(rule.parse::<Planned>().map_err(|error| error.to_string())?),
    }
    Ok(String::new())
}
