//! [`Spi`] behind the traits of embedded-hal 1.0, so that a driver for real cards runs against a card of ours.
//!
//! The driver wants several objects that share wires and time: clones of [`Wires`] are those. Time passes with each byte
//! and in [`Delay`], and nowhere else, so a driver's time-outs are exact and its tests take no time.

use super::Spi;
use alloc::rc::Rc;
use core::cell::{Ref, RefCell, RefMut};
use core::convert::Infallible;
use embedded_hal::delay::DelayNs;
use embedded_hal::digital::{self, OutputPin};
use embedded_hal::spi::{ErrorType, Operation, SpiBus, SpiDevice};
use flashlab_sim::Duration;

/// The wires, for as many as hold a clone.
///
/// As a [`SpiDevice`] each transaction pulls chip select low and lets it go; as a [`SpiBus`] chip select is the business of
/// [`ChipSelectPin`].
#[derive(Clone, Debug)]
pub struct Wires(Rc<RefCell<Spi>>);

impl Wires {
    /// Shares `spi`.
    pub fn new(spi: Spi) -> Wires {
        Wires(Rc::new(RefCell::new(spi)))
    }
    /// What is shared.
    ///
    /// # Panics
    /// While [`Wires::borrow_mut`]'s result lives.
    pub fn borrow(&self) -> Ref<'_, Spi> {
        self.0.borrow()
    }
    /// What is shared, for what happens to the card from outside.
    ///
    /// # Panics
    /// While another borrow lives.
    pub fn borrow_mut(&self) -> RefMut<'_, Spi> {
        self.0.borrow_mut()
    }
    /// Time that passes on these wires.
    pub fn delay(&self) -> Delay {
        Delay(self.clone())
    }
    /// Chip select of these wires, for who drives it as a pin.
    pub fn chip_select(&self) -> ChipSelectPin {
        ChipSelectPin(self.clone())
    }
    /// So many bytes of clocks while chip select is high, as a card wants them after power-up: 10 are enough.
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
        // The longer one says how long it is.
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

/// Time on the wires.
#[derive(Clone, Debug)]
pub struct Delay(Wires);

impl DelayNs for Delay {
    fn delay_ns(&mut self, ns: u32) {
        self.0.borrow_mut().wait(Duration::from_ns(ns.into()));
    }
}

/// Chip select: low means selected.
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
