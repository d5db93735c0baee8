//! A USB stick in a port of a machine: the link of the bulk-only transport, and Linux's `usb-storage` above it.
//!
//! The flash of a stick is timed like that of a card ([`CardModel`]); only its wires differ. A command block wrapper
//! precedes the data of each command, and a status wrapper follows it. One command is in progress at a time.
//!
//! Link times: USB 2.0, table 5-10 (a microframe of 125 us carries at most 13 bulk transactions of 512 bytes,
//! or 67 of 32 bytes). USB 3.2, chapter 7: at 5 Gb/s and 8b/10b, a byte takes 2 ns. A data packet of 1024
//! bytes has 32 bytes of header, framing and CRC. It shares the link with 16 bytes of link commands, which
//! acknowledge the packets of the other direction.
//!
//! Not modelled: hubs, USB Attached SCSI, and delays by NAK or NRDY beyond the time for which the flash of
//! the stick has no data or no room.

use crate::{Durability, Host, Software};
use alloc::boxed::Box;
use flashlab_flash::Impossible;
use flashlab_sd::{CardModel, CardParameters, Wires};
use flashlab_sim::{Duration, Model};

/// Speed of a USB link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum UsbSpeed {
    /// High speed of USB 2.0: 480 Mb/s.
    High,
    /// SuperSpeed of USB 3.0, also called 3.2 Gen 1: 5 Gb/s.
    Super,
}

impl UsbSpeed {
    /// Returns the times of the link, without the host's software.
    fn wires(self) -> Wires {
        let (command, block) = match self {
            // A command takes two transactions of up to 32 bytes, and a block takes one of 512 bytes.
            UsbSpeed::High => (Duration::from_ns(2 * 125_000 / 67), Duration::from_ns(125_000 / 13)),
            // A command takes packets of 31 and 13 bytes, and a block takes half a packet of 1024 bytes.
            UsbSpeed::Super => {
                (Duration::from_ns((31 + 13 + 2 * 48) * 2), Duration::from_ns((1024 + 48) * 2 / 2))
            }
        };
        Wires {
            command,
            stop: Duration::ZERO,
            read_block: block,
            write_block: block,
            host_block: Duration::ZERO,
        }
    }
}

/// A USB stick: the fastest link that it supports, and its flash.
#[derive(Clone, PartialEq, Debug)]
pub struct Stick {
    /// Fastest speed of the stick.
    pub speed: UsbSpeed,
    /// Flash and controller. The bus modes are empty.
    pub flash: CardParameters,
}

/// A machine's USB port, and the software above it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UsbHost {
    /// Fastest speed of the port.
    pub speed: UsbSpeed,
    /// Largest data transfer of a command at high speed, in bytes.
    pub high_speed_max: u64,
    /// Largest data transfer of a command at SuperSpeed, in bytes.
    pub super_speed_max: u64,
    /// Time of the software for each request that reaches the block layer.
    pub t_request: Duration,
    /// Time of the software for each command: its three transfers with their interrupts.
    pub t_command: Duration,
    /// True if requests for neighbouring blocks that wait are merged into one command.
    pub merge: Option<bool>,
}

impl UsbHost {
    /// Checks the parameters.
    ///
    /// # Errors
    /// Returns the first parameter that no port can have.
    pub fn check(&self) -> Result<(), Impossible> {
        let sizes =
            [("port.high_speed_max", self.high_speed_max), ("port.super_speed_max", self.super_speed_max)];
        match sizes.into_iter().find(|(_, size)| *size < 512 || !size.is_multiple_of(512)) {
            Some((path, _)) => Err(Impossible::new(path, "is not a whole number of 512 B blocks")),
            None => Ok(()),
        }
    }

    /// Returns the speed of the link to `stick`: the lower of the speeds of both sides.
    pub fn link_speed(&self, stick: &Stick) -> UsbSpeed {
        self.speed.min(stick.speed)
    }

    /// Returns a model of `stick` behind its link, without the software of this machine. `seed` draws the medium of the
    /// stick.
    pub fn link(&self, stick: &Stick, seed: u64) -> Box<dyn Model> {
        Box::new(CardModel::new(stick.flash.clone(), self.link_speed(stick).wires(), seed))
    }

    /// Returns a model of this machine with `stick` in its port. `seed` draws the medium of the stick.
    pub fn with_stick(&self, stick: &Stick, seed: u64) -> Box<dyn Model> {
        let software = Software {
            command_max: match self.link_speed(stick) {
                UsbSpeed::High => self.high_speed_max,
                UsbSpeed::Super => self.super_speed_max,
            },
            t_request: self.t_request,
            t_command: self.t_command,
            prepare_block: None,
            // The driver takes one request at a time.
            merges_after: (self.merge == Some(true)).then_some(0),
        };
        let durability = match stick.flash.refinements.cache {
            Some(_) => Durability::Flush,
            None => Durability::Immediate,
        };
        Box::new(Host::with_software(software, self.link(stick, seed)).with_durability(durability))
    }
}
