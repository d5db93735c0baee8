//! Execution of the commands of `flashlab ctl` on a card behind USB.

use super::control::format_power_cut;
use flashlab_lab::results::DeviceStatistics;
use flashlab_lab::statistics::{Counters, Wear, statistics};
use flashlab_sd::Card;
use flashlab_sd::quirk::Planned;
use flashlab_serve::{ControlReply, TaskQueue};
use flashlab_served::CardOrigin;
use flashlab_sim::Instant;
use flashlab_usb::Vub300;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Access to the slot of the adapter while the adapter is served.
pub(super) struct Slot {
    pub(super) errands: TaskQueue<Vub300>,
    card_control: Arc<CardControl>,
}

struct CardControl {
    /// Device argument of the card.
    device: String,
    origin: CardOrigin,
    /// Counters of the card when it was inserted.
    before: Counters,
    /// Card while it is out of the slot.
    out: Mutex<Option<Card>>,
}

impl Slot {
    /// Returns the slot of an adapter with `card`, which was made from the argument `device`.
    pub(super) fn new(device: &str, card: &Card, origin: CardOrigin, errands: TaskQueue<Vub300>) -> Slot {
        let before = Counters::collect(|to| card.observe(to));
        let card_control = CardControl { device: device.to_owned(), origin, before, out: Mutex::default() };
        Slot { errands, card_control: Arc::new(card_control) }
    }

    /// Executes `line`: an empty export name, since there are no exports, a line feed, and a command.
    pub(super) fn answer(&self, line: &str) -> ControlReply {
        let (export, command) = line.split_once('\n').unwrap_or(("", line));
        if !export.is_empty() {
            return Err("a card behind USB has no exports: leave --export out".to_owned());
        }
        let (card_control, command) = (self.card_control.clone(), command.to_owned());
        let told = self.errands.send(move |adapter, now| card_control.execute(adapter, now, &command));
        told.unwrap_or_else(|| Err("the server is shutting down".to_owned()))
    }

    /// Writes the state of the card after the end of the service, if the device has `state=FILE`.
    pub(super) fn write_state(&self, mut adapter: Vub300) -> Result<(), String> {
        let time = adapter.card_time();
        let card = adapter.remove(time).or_else(|| self.card_control.out().take());
        card.map_or(Ok(()), |card| self.card_control.write_state(&card, time))
    }

    /// Returns a message about damaged bytes of the card, if a read found any.
    pub(super) fn damage(&self) -> Option<String> {
        self.card_control.origin.damage()
    }
}

impl CardControl {
    fn execute(&self, adapter: &mut Vub300, now: Instant, command: &str) -> ControlReply {
        let mut words = command.split_whitespace();
        let (verb, rest) = (words.next().unwrap_or_default(), words.collect::<Vec<_>>().join(" "));
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
    format!(
        "{} commands, {} errors; {} bytes read, {} bytes written\n",
        counters.commands, counters.failed, counters.read_bytes, counters.written_bytes
    )
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
