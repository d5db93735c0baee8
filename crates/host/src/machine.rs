//! The machine a card is plugged into: bus, largest command, and what its software costs.

use alloc::boxed::Box;
use alloc::vec::Vec;
use flashlab_flash::Impossible;
use flashlab_sd::mmc::MmcModel;
use flashlab_sd::{Bus, Card, CardModel, CardParameters, Identity, Link, Mode};
use flashlab_sim::{Duration, Model};

/// A machine's SD host controller and the software above it.
#[derive(Clone, PartialEq, Debug)]
pub struct Machine {
    /// Bus modes it can drive, best first. The first one that the card offers too is used.
    pub modes: Vec<Mode>,
    /// Overrides the mode's clock, in Hz.
    pub bus_clock_hz: Option<u64>,
    /// Overrides the mode's width.
    pub bus_width: Option<u32>,
    /// Bytes of the largest data transfer that one command carries.
    pub command_max: u64,
    /// The software's time for each request that reaches the block layer.
    pub t_request: Duration,
    /// The software's time for each command: building it, its interrupts.
    pub t_command: Duration,
    /// The software's time for each block, while the data moves.
    pub t_block: Duration,
    /// How its slot is simulated; `None`: by blocks.
    pub stack: Option<Stack>,
}

/// How a machine's slot is simulated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stack {
    /// The card as a timed block device: fast, and the same in time.
    Blocks,
    /// The host stack and the card, command by command.
    Commands,
}

impl Machine {
    /// Refuses what no machine can have.
    pub fn check(&self) -> Result<(), Impossible> {
        if self.command_max < 512 || !self.command_max.is_multiple_of(512) {
            return Err(Impossible::new("host.command_max", "is not a whole number of 512 B blocks"));
        }
        if !self.modes.contains(&Mode::DefaultSpeed) {
            return Err(Impossible::new("host.modes", "lacks \"default-speed\", in which every card begins"));
        }
        if self.bus_width.is_some_and(|w| w != 1 && w != 4) {
            return Err(Impossible::new("host.bus_width", "is neither 1 nor 4"));
        }
        if self.bus_clock_hz == Some(0) {
            return Err(Impossible::new("host.bus_clock", "is 0; expected a clock, for example \"25MHz\""));
        }
        Ok(())
    }

    /// `card`, with the medium of `seed`, in this machine's slot.
    pub fn slot(&self, card: &CardParameters, identity: &Identity, seed: u64) -> Box<dyn Model> {
        let link = self.link(&card.modes);
        match self.stack {
            None | Some(Stack::Blocks) => Box::new(CardModel::new(card.clone(), link, seed)),
            Some(Stack::Commands) => {
                let built = Card::new(card.clone(), identity.clone(), None, seed);
                Box::new(MmcModel::new(&built, link, &self.modes, self.command_max))
            }
        }
    }

    /// The wires to a card that offers `modes`, and this machine's pace on them. Both sides know default speed.
    pub fn link(&self, modes: &[Mode]) -> Link {
        let mode = self.modes.iter().copied().find(|m| modes.contains(m)).unwrap_or(Mode::DefaultSpeed);
        let bus = mode.bus();
        let bus = Bus {
            clock_hz: self.bus_clock_hz.unwrap_or(bus.clock_hz),
            width: self.bus_width.unwrap_or(bus.width),
            ddr: bus.ddr,
        };
        Link { bus, t_block_host: self.t_block }
    }
}
