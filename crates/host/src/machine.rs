//! The machine with the card's slot: bus modes, largest command, and the time of its software.

use crate::driver::mmc::MmcModel;
use crate::{Durability, Host, QueuedHost};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use flashlab_flash::Impossible;
use flashlab_sd::{Bus, Card, CardModel, CardParameters, Identity, Link, Mode};
use flashlab_sim::{Duration, Model};

/// The SD host controller of a machine, and the software above it.
#[derive(Clone, PartialEq, Debug)]
pub struct Machine {
    /// Bus modes that the host supports, best first. The host uses the first one that the card also supports.
    pub modes: Vec<Mode>,
    /// Highest bus clock in Hz, in addition to the limit of the mode; `None` means that only the limit of the mode
    /// applies.
    pub bus_clock_hz: Option<u64>,
    /// True if the host drives the fastest of its modes at `bus_clock_hz`, beyond the mode's limit.
    pub overclock: Option<bool>,
    /// Bus width that overrides that of the mode.
    pub bus_width: Option<u32>,
    /// Largest data transfer of one command, in bytes.
    pub command_max: u64,
    /// Time of the software for each request that reaches the block layer.
    pub t_request: Duration,
    /// Time of the software to build each command and to handle its interrupts.
    pub t_command: Duration,
    /// Time of the software for each block: while the data moves or, with `prepare`, before the command.
    pub t_block: Duration,
    /// Time of the controller between two blocks of a transfer, beyond the gap that the bus needs.
    pub t_gap: Option<Duration>,
    /// True if the host prepares a command while the bus is busy with the one before it.
    pub prepare: Option<bool>,
    /// True if requests for neighbouring blocks that wait are merged into one command.
    pub merge: Option<bool>,
    /// Number of tasks that the controller's command queue engine holds; `None` means that the controller has
    /// no such engine.
    pub queue: Option<u32>,
    /// Simulation of the slot; `None` means [`Stack::Blocks`].
    pub stack: Option<Stack>,
}

/// The level of detail at which a machine's slot is simulated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stack {
    /// The card as a timed block device: faster to simulate, with the same timing.
    Blocks,
    /// The host stack and the card, command by command.
    Commands,
}

impl Machine {
    /// Checks the parameters.
    pub fn check(&self) -> Result<(), Impossible> {
        if self.command_max < 512 || !self.command_max.is_multiple_of(512) {
            return Err(Impossible::new("host.command_max", "is not a whole number of 512 B blocks"));
        }
        if !self.modes.contains(&Mode::DefaultSpeed) {
            return Err(Impossible::new("host.modes", "lacks \"default-speed\", in which every card starts"));
        }
        if self.bus_width.is_some_and(|w| w != 1 && w != 4 && w != 8) {
            return Err(Impossible::new("host.bus_width", "is not 1, 4 or 8"));
        }
        if self.bus_width == Some(8) && !self.modes.iter().all(|m| m.is_emmc() || *m == Mode::DefaultSpeed) {
            return Err(Impossible::new(
                "host.bus_width",
                "is 8, but host.modes contains modes of SD cards, which have at most 4 data lines",
            ));
        }
        if self.bus_clock_hz == Some(0) {
            return Err(Impossible::new("host.bus_clock", "is 0; expected a clock, for example \"25MHz\""));
        }
        if self.queue.is_some_and(|tasks| tasks == 0 || tasks > 32) {
            return Err(Impossible::new("host.queue", "is not between 1 and 32 tasks"));
        }
        let limit = self.fastest_hz();
        if self.overclock != Some(true) && self.bus_clock_hz.is_some_and(|clock| clock > limit) {
            let why = format!(
                "is above {} MHz, the limit of the fastest of host.modes; for a host that is known to exceed it, \
                 set host.overclock = true",
                limit / 1_000_000
            );
            return Err(Impossible::new("host.bus_clock", why));
        }
        Ok(())
    }

    /// Returns a model of `card` in this machine's slot. `seed` draws the medium of the card.
    pub fn slot(&self, card: &CardParameters, identity: &Identity, seed: u64) -> Box<dyn Model> {
        let link = self.link(&card.modes);
        match self.stack {
            None | Some(Stack::Blocks) => {
                let model = CardModel::new(card.clone(), link, seed).in_mode(self.mode(&card.modes));
                Box::new(match self.queue_depth(card) {
                    Some(depth) => model.with_queue(depth),
                    None => model,
                })
            }
            Some(Stack::Commands) => {
                let built = Card::new(card.clone(), identity.clone(), None, seed);
                Box::new(MmcModel::new(&built, link, &self.modes, self.command_max))
            }
        }
    }

    /// Returns a model of this machine with `card` in its slot. `seed` draws the medium of the card.
    pub fn with_card(&self, card: &CardParameters, identity: &Identity, seed: u64) -> Box<dyn Model> {
        let slot = self.slot(card, identity, seed);
        let durability = self.durability(card);
        match self.queue_depth(card) {
            Some(depth) => Box::new(QueuedHost::new(self, slot, depth, durability)),
            None => Box::new(Host::new(self, slot).with_durability(durability)),
        }
    }

    /// Returns the number of tasks in the command queue, if card and host have one. The command-by-command
    /// simulation has no queue.
    pub fn queue_depth(&self, card: &CardParameters) -> Option<u32> {
        let depth = self.queue?.min(card.refinements.queue?);
        (self.stack != Some(Stack::Commands)).then_some(depth)
    }

    /// Returns the requests with which the host makes writes to `card` durable.
    fn durability(&self, card: &CardParameters) -> Durability {
        let is_emmc = card.modes.iter().any(|mode| mode.is_emmc());
        match card.refinements.cache {
            None => Durability::Immediate,
            Some(_) if is_emmc => Durability::FlushOrReliableWrite,
            Some(_) => Durability::Flush,
        }
    }

    /// Returns the bus to a card that supports `modes`, with this machine's time per block. The mode is the first of
    /// this machine's modes that the card also supports; both sides support default speed. The clock is the lower of
    /// the mode's limit and the machine's clock, unless the machine overclocks the mode.
    pub fn link(&self, modes: &[Mode]) -> Link {
        let bus = self.mode(modes).bus();
        let overclocked = self.overclock == Some(true) && bus.clock_hz == self.fastest_hz();
        let clock_hz = match self.bus_clock_hz {
            Some(clock) if overclocked => clock,
            Some(clock) => clock.min(bus.clock_hz),
            None => bus.clock_hz,
        };
        let bus = Bus { clock_hz, width: self.bus_width.unwrap_or(bus.width), ddr: bus.ddr };
        // A host that prepares commands maps their pages before the data moves.
        let software = if self.prepares() { Duration::ZERO } else { self.t_block };
        Link { bus, t_block_host: software + self.t_gap.unwrap_or_default() }
    }

    /// Returns the bus mode of a card that supports `modes`.
    pub fn mode(&self, modes: &[Mode]) -> Mode {
        self.driven().find(|mode| modes.contains(mode)).unwrap_or(Mode::DefaultSpeed)
    }

    /// Returns true if the host prepares a command while the bus is busy.
    pub(crate) fn prepares(&self) -> bool {
        self.prepare == Some(true)
    }

    /// Returns the modes that the data lines permit: UHS-I needs four lines, and the modes of eMMC need four
    /// or eight.
    fn driven(&self) -> impl Iterator<Item = Mode> {
        let one_line = self.bus_width == Some(1);
        self.modes.iter().copied().filter(move |mode| !(one_line && (mode.is_uhs() || mode.is_emmc())))
    }

    /// Returns the highest clock limit of the supported modes.
    fn fastest_hz(&self) -> u64 {
        self.driven().map(|mode| mode.bus().clock_hz).max().unwrap_or(Mode::DefaultSpeed.bus().clock_hz)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(modes: &[Mode], clock_mhz: u64, overclock: bool) -> Machine {
        Machine {
            modes: modes.to_vec(),
            bus_clock_hz: Some(clock_mhz * 1_000_000),
            overclock: Some(overclock),
            bus_width: None,
            command_max: 512,
            t_request: Duration::ZERO,
            t_command: Duration::ZERO,
            t_block: Duration::ZERO,
            t_gap: None,
            prepare: None,
            merge: None,
            queue: None,
            stack: None,
        }
    }

    const UHS: [Mode; 3] = [Mode::Sdr104, Mode::HighSpeed, Mode::DefaultSpeed];

    #[test]
    fn the_clock_is_the_lowest_of_host_card_and_mode() {
        let mhz = |machine: &Machine, card: &[Mode]| machine.link(card).bus.clock_hz / 1_000_000;
        let fast = machine(&UHS, 150, false);
        assert_eq!(fast.check(), Ok(()));
        assert_eq!(mhz(&fast, &UHS), 150, "the host's");
        assert_eq!(mhz(&fast, &[Mode::HighSpeed, Mode::DefaultSpeed]), 50, "the mode's");
        assert_eq!(mhz(&fast, &[Mode::DefaultSpeed]), 25, "the card's");
        assert_eq!(mhz(&machine(&UHS, 10, false), &UHS), 10, "the host's");
    }

    #[test]
    fn the_gap_between_blocks_remains_if_the_host_prepares_commands() {
        let us = Duration::from_us;
        let mut host = Machine { t_block: us(3), t_gap: Some(us(2)), ..machine(&UHS, 100, false) };
        assert_eq!(host.link(&UHS).t_block_host, us(5));
        host.prepare = Some(true);
        assert_eq!(host.link(&UHS).t_block_host, us(2));
    }

    #[test]
    fn a_clock_above_every_mode_is_refused_without_overclock() {
        let slow = [Mode::HighSpeed, Mode::DefaultSpeed];
        let refused = machine(&slow, 60, false).check().expect_err("high speed ends at 50 MHz");
        assert_eq!(refused.path, "host.bus_clock");
        assert!(refused.why.contains("50 MHz") && refused.why.contains("host.overclock = true"), "{refused}");
        let mut one_line = machine(&UHS, 100, false);
        one_line.bus_width = Some(1);
        assert!(one_line.check().is_err(), "UHS-I needs four lines");
        assert_eq!(one_line.link(&UHS).bus, Bus { clock_hz: 50_000_000, width: 1, ddr: false });
    }

    #[test]
    fn an_overclocked_host_exceeds_its_fastest_mode_only() {
        let overclocked = machine(&[Mode::HighSpeed, Mode::DefaultSpeed], 60, true);
        assert_eq!(overclocked.check(), Ok(()));
        assert_eq!(overclocked.link(&UHS).bus.clock_hz, 60_000_000);
        assert_eq!(overclocked.link(&[Mode::DefaultSpeed]).bus.clock_hz, 25_000_000);
    }
}
