//! The connection of the stick to its port: the power of the port, the plug, and the presence on the bus. A
//! stick that is plugged into a port with power can still be absent from the bus.

use flashlab_sim::{Duration, Instant};

/// State of the stick on the bus.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The stick has no power.
    Off,
    /// The stick has dropped off the bus, and its power returns at this instant.
    Dropped(Instant),
    /// The stick has power, and appears on the bus at this instant.
    Starting(Instant),
    /// The host sees the stick.
    Connected,
}

/// Change of the stick's power.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PowerChange {
    On,
    Off,
}

/// The connection of a stick to its port.
#[derive(Clone, Debug)]
pub(super) struct Cable {
    /// True if the port supplies power.
    port_has_power: bool,
    /// True if the plug is in the port.
    is_plugged: bool,
    state: State,
    /// Number of times that the stick has appeared on the bus.
    connections: u32,
}

impl Cable {
    /// Creates the cable of a stick that is plugged into a port without power.
    pub(super) fn new() -> Cable {
        Cable { port_has_power: false, is_plugged: true, state: State::Off, connections: 0 }
    }

    /// Returns the number of the connection that the host sees, or `None`.
    pub(super) fn connection(&self) -> Option<u32> {
        (self.state == State::Connected).then_some(self.connections)
    }

    /// Returns true if the plug is in the port.
    pub(super) fn is_plugged(&self) -> bool {
        self.is_plugged
    }

    /// Turns the power of the port on or off. Returns the change of the stick's power.
    pub(super) fn set_port_power(&mut self, on: bool) -> Option<PowerChange> {
        self.port_has_power = on;
        self.power_change()
    }

    /// Plugs the stick in, or pulls it out. Returns the change of the stick's power.
    pub(super) fn set_plugged(&mut self, plugged: bool) -> Option<PowerChange> {
        self.is_plugged = plugged;
        self.power_change()
    }

    fn power_change(&mut self) -> Option<PowerChange> {
        let is_supplied = self.port_has_power && self.is_plugged;
        match (self.state, is_supplied) {
            (State::Off, true) => Some(PowerChange::On),
            // The power of a stick that has dropped off the bus is off already.
            (State::Dropped(_), false) => {
                self.state = State::Off;
                None
            }
            (State::Starting(_) | State::Connected, false) => {
                self.state = State::Off;
                Some(PowerChange::Off)
            }
            _ => None,
        }
    }

    /// Starts a stick whose power came on at `now`. The stick appears on the bus after `appears_after`.
    pub(super) fn start(&mut self, now: Instant, appears_after: Duration) {
        self.state = State::Starting(now.saturating_add(appears_after));
        self.appear(now);
    }

    /// Drops a connected stick off the bus for `time`. The stick has no power during that time.
    pub(super) fn drop_off(&mut self, now: Instant, time: Duration) {
        self.state = State::Dropped(now.saturating_add(time));
    }

    /// Returns the instant of the next change that the cable makes by itself.
    pub(super) fn next_due(&self) -> Option<Instant> {
        match self.state {
            State::Starting(at) | State::Dropped(at) => Some(at),
            State::Off | State::Connected => None,
        }
    }

    /// Returns true if the power of the stick returns at `now`. The owner then calls [`Cable::start`].
    pub(super) fn returns(&self, now: Instant) -> bool {
        matches!(self.state, State::Dropped(at) if at <= now)
    }

    /// Lets a starting stick appear on the bus, if it is due there at `now`.
    pub(super) fn appear(&mut self, now: Instant) {
        if matches!(self.state, State::Starting(at) if at <= now) {
            self.state = State::Connected;
            self.connections = self.connections.wrapping_add(1);
        }
    }
}
