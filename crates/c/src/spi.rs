//! A card on an SPI bus, byte by byte: `flashlab_spi`.

use crate::code::Failure;
use crate::device::wait;
use crate::export::exports;
use crate::handle::HandleRef;
use crate::observe::{Counter, Observed};
use crate::options::{Options, add_quirk};
use crate::pointer::{ArrayOut, BytesIn, BytesOut, Out, Text, exchange};
use flashlab_device::sd::spi::Spi;

fn check_clock(clock_hz: u32) -> Result<u32, Failure> {
    if clock_hz == 0 {
        return Err(Failure::argument("clock_hz is 0; a bus without a clock moves no bytes"));
    }
    Ok(clock_hz)
}

exports! {
    fallible {
        /// Opens a card on an SPI bus.
        fn flashlab_spi_open(
            name: Text, options: HandleRef<Options>, clock_hz: u32, spi: Out<HandleRef<Spi>>,
        ) {
            let place = spi.place("spi")?.cleared();
            let clock_hz = check_clock(clock_hz)?;
            let (options, chip_select) = options.build()?;
            let card = options.card(name.get("name")?)?;
            place.put_handle(Spi::new(Some(card), clock_hz).with_chip_select(chip_select));
            Ok(())
        }
        /// Drives chip select.
        fn flashlab_spi_select(spi: HandleRef<Spi>, selected: bool) {
            spi.lend("spi")?.select(selected);
            Ok(())
        }
        /// Exchanges a byte.
        fn flashlab_spi_exchange(spi: HandleRef<Spi>, sent: u8, received: Out<u8>) {
            let (mut spi, place) = (spi.lend("spi")?, received.place("received")?);
            place.put(spi.exchange(sent));
            Ok(())
        }
        /// Exchanges bytes.
        fn flashlab_spi_transfer(spi: HandleRef<Spi>, sent: BytesIn, received: BytesOut, length: usize) {
            let mut spi = spi.lend("spi")?;
            exchange(&sent, &received, length, |byte| spi.exchange(byte))
        }
        /// Changes the clock rate.
        fn flashlab_spi_set_clock(spi: HandleRef<Spi>, clock_hz: u32) {
            spi.lend("spi")?.set_clock(check_clock(clock_hz)?);
            Ok(())
        }
        /// Lets time pass without clocks.
        fn flashlab_spi_wait(spi: HandleRef<Spi>, wait_ns: u64) {
            let mut spi = spi.lend("spi")?;
            let time = wait(spi.now(), wait_ns)?;
            spi.wait(time);
            Ok(())
        }
        /// Returns the simulated time.
        fn flashlab_spi_now(spi: HandleRef<Spi>, now_ns: Out<u64>) {
            let (spi, place) = (spi.lend("spi")?, now_ns.place("now_ns")?);
            place.put(spi.now().as_ns());
            Ok(())
        }
        /// Cuts the power of the card and restores it.
        fn flashlab_spi_power_cycle(spi: HandleRef<Spi>) {
            spi.lend("spi")?.power_cycle();
            Ok(())
        }
        /// Adds a quirk to the card.
        fn flashlab_spi_add_quirk(spi: HandleRef<Spi>, quirk: Text) {
            add_quirk(spi.lend("spi")?.card_mut(), quirk.get("quirk")?)
        }
        /// Returns the counters of the card.
        fn flashlab_spi_counters(
            spi: HandleRef<Spi>, counters: ArrayOut<Counter>, capacity: usize, count: Out<usize>,
        ) {
            let (spi, place) = (spi.lend("spi")?, count.place("count")?);
            let observed = Observed::of(|to| spi.card().into_iter().for_each(|card| card.observe(to)));
            counters.fill("counters", capacity, &observed.counters)?;
            place.put(observed.counters.len());
            Ok(())
        }
    }
    plain {
        /// Closes the bus and the card.
        fn flashlab_spi_close(spi: HandleRef<Spi>) -> () {
            spi.close();
        }
    }
}
