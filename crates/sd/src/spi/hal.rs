//! [`Spi`] with the traits of embedded-hal 1.0, so that a driver for real cards runs against a simulated card.
//!
//! A driver needs several objects that share wires and time. These objects are clones of [`Wires`]. Time
//! passes only with each byte and in [`Delay`]. A driver's time-outs are therefore exact, and its tests do
//! not wait.

use super::Spi;
use alloc::rc::Rc;
use core::cell::{Ref, RefCell, RefMut};
use core::convert::Infallible;
use embedded_hal::delay::DelayNs;
use embedded_hal::digital::{self, OutputPin};
use embedded_hal::spi::{ErrorType, Operation, SpiBus, SpiDevice};
use flashlab_sim::Duration;

/// Shared wires.
///
/// As a [`SpiDevice`], the wires drive chip select low at the start of each transaction and high at its end.
/// As a [`SpiBus`], the wires leave chip select to a [`ChipSelectPin`].
#[derive(Clone, Debug)]
pub struct Wires(Rc<RefCell<Spi>>);

impl Wires {
    /// Creates shared wires from `spi`.
    pub fn new(spi: Spi) -> Wires {
        Wires(Rc::new(RefCell::new(spi)))
    }
    /// Borrows the shared [`Spi`].
    ///
    /// # Panics
    /// Panics if the result of [`Wires::borrow_mut`] is still alive.
    pub fn borrow(&self) -> Ref<'_, Spi> {
        self.0.borrow()
    }
    /// Borrows the shared [`Spi`] mutably, for example to remove the card.
    ///
    /// # Panics
    /// Panics if another borrow is still alive.
    pub fn borrow_mut(&self) -> RefMut<'_, Spi> {
        self.0.borrow_mut()
    }
    /// Returns a delay that advances the time of these wires.
    pub fn delay(&self) -> Delay {
        Delay(self.clone())
    }
    /// Returns the chip select of these wires, for a driver that controls it as a pin.
    pub fn chip_select(&self) -> ChipSelectPin {
        ChipSelectPin(self.clone())
    }
    /// Sends the clocks of `bytes` bytes while chip select is high. After power-up a card needs 74 clocks, so 10 bytes
    /// are enough.
    pub fn clock_unselected(&self, bytes: usize) {
        let mut spi = self.borrow_mut();
        spi.select(false);
        for _ in 0..bytes {
            spi.exchange(0xff);
        }
    }
}

impl ErrorType for Wires {
    type Error = Infallible;
}

impl SpiBus<u8> for Wires {
    fn read(&mut self, words: &mut [u8]) -> Result<(), Infallible> {
        let mut spi = self.borrow_mut();
        words.iter_mut().for_each(|word| *word = spi.exchange(0xff));
        Ok(())
    }
    fn write(&mut self, words: &[u8]) -> Result<(), Infallible> {
        let mut spi = self.borrow_mut();
        for word in words {
            spi.exchange(*word);
        }
        Ok(())
    }
    fn transfer(&mut self, read: &mut [u8], write: &[u8]) -> Result<(), Infallible> {
        let mut spi = self.borrow_mut();
        // The longer buffer determines the length of the transfer.
        for n in 0..read.len().max(write.len()) {
            let byte = spi.exchange(write.get(n).copied().unwrap_or(0xff));
            if let Some(place) = read.get_mut(n) {
                *place = byte;
            }
        }
        Ok(())
    }
    fn transfer_in_place(&mut self, words: &mut [u8]) -> Result<(), Infallible> {
        let mut spi = self.borrow_mut();
        words.iter_mut().for_each(|word| *word = spi.exchange(*word));
        Ok(())
    }
    fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

impl SpiDevice<u8> for Wires {
    fn transaction(&mut self, operations: &mut [Operation<'_, u8>]) -> Result<(), Infallible> {
        self.borrow_mut().select(true);
        for operation in operations {
            match operation {
                Operation::Read(words) => SpiBus::read(self, words)?,
                Operation::Write(words) => SpiBus::write(self, words)?,
                Operation::Transfer(read, write) => SpiBus::transfer(self, read, write)?,
                Operation::TransferInPlace(words) => SpiBus::transfer_in_place(self, words)?,
                Operation::DelayNs(ns) => self.delay().delay_ns(*ns),
            }
        }
        self.borrow_mut().select(false);
        Ok(())
    }
}

/// Delay that advances the time of the wires.
#[derive(Clone, Debug)]
pub struct Delay(Wires);

impl DelayNs for Delay {
    fn delay_ns(&mut self, ns: u32) {
        self.0.borrow_mut().wait(Duration::from_ns(ns.into()));
    }
}

/// Chip select pin; low means selected.
#[derive(Clone, Debug)]
pub struct ChipSelectPin(Wires);

impl digital::ErrorType for ChipSelectPin {
    type Error = Infallible;
}

impl OutputPin for ChipSelectPin {
    fn set_low(&mut self) -> Result<(), Infallible> {
        self.0.borrow_mut().select(true);
        Ok(())
    }
    fn set_high(&mut self) -> Result<(), Infallible> {
        self.0.borrow_mut().select(false);
        Ok(())
    }
}
