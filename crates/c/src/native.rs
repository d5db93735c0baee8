//! A card in the slot of a host controller: `flashlab_native`.

use crate::code::Failure;
use crate::device::wait;
use crate::export::{exports, layout};
use crate::handle::HandleRef;
use crate::observe::{Counter, Observed};
use crate::options::{Options, add_quirk};
use crate::pointer::{ArrayOut, BytesIn, BytesOut, In, Out, Text};
use flashlab_device::Duration;
use flashlab_device::sd::{Command, Native, Power, Response, ResponseType, Signal, Timing};

/// Longest block on the data lines, in bytes: READ_BL_LEN 11 (SD Physical Layer Specification, section 5.3.2).
const BLOCK_MAX: usize = 2048;

/// Settings of the slot: `flashlab_ios`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Ios {
    clock_hz: u32,
    width: u32,
    timing: u32,
    signal: u32,
    power: u32,
    vdd: u32,
    push_pull: u32,
    chip_select: u32,
}

layout! { Ios as flashlab_ios {
    clock_hz: u32, width: u32, timing: u32, signal: u32, power: u32, vdd: u32, push_pull: u32, chip_select: u32,
} }

/// A response: `flashlab_response`.
#[repr(C)]
pub(crate) struct WireResponse {
    word: u32,
    register_bytes: [u8; 16],
}

layout! { WireResponse as flashlab_response { word: u32, register_bytes: [u8; 16] } }

/// Values of `flashlab_ios.timing`, in numeric order from 0.
pub(crate) const TIMINGS: [(&str, Timing); 7] = [
    ("LEGACY", Timing::Legacy),
    ("HIGH_SPEED", Timing::HighSpeed),
    ("SDR12", Timing::Sdr12),
    ("SDR25", Timing::Sdr25),
    ("SDR50", Timing::Sdr50),
    ("DDR50", Timing::Ddr50),
    ("SDR104", Timing::Sdr104),
];
/// Values of `flashlab_ios.signal`, in numeric order from 0.
pub(crate) const SIGNALS: [(&str, Signal); 2] = [("3V3", Signal::V3_3), ("1V8", Signal::V1_8)];
/// Values of `flashlab_ios.power`, in numeric order from 0.
pub(crate) const POWERS: [(&str, Power); 3] = [("OFF", Power::Off), ("UP", Power::Up), ("ON", Power::On)];
/// Values of the argument `response_type`, in numeric order from 0.
pub(crate) const RESPONSES: [(&str, ResponseType); 7] = [
    ("NONE", ResponseType::None),
    ("R1", ResponseType::R1),
    ("R1B", ResponseType::R1b),
    ("R2", ResponseType::R2),
    ("R3", ResponseType::R3),
    ("R6", ResponseType::R6),
    ("R7", ResponseType::R7),
];

/// Returns the value whose number in C is `number`.
fn value<T: Copy>(values: &[(&str, T)], number: u32, name: &str) -> Result<T, Failure> {
    let found = usize::try_from(number).ok().and_then(|number| values.get(number));
    let (_, value) = found.ok_or_else(|| {
        let last = values.len() - 1;
        Failure::argument(format_args!("{name} is {number}; the largest value is {last}"))
    })?;
    Ok(*value)
}

impl Ios {
    fn settings(&self) -> Result<flashlab_device::sd::Ios, Failure> {
        if self.width != 1 && self.width != 4 {
            let width = self.width;
            return Err(Failure::argument(format_args!(
                "ios->width is {width}; a card has 1 or 4 data lines"
            )));
        }
        let at_most = |value: u32, max: u8, name: &str| match u8::try_from(value) {
            Ok(value) if value <= max => Ok(value),
            _ => Err(Failure::argument(format_args!("ios->{name} is {value}; the largest value is {max}"))),
        };
        Ok(flashlab_device::sd::Ios {
            clock_hz: self.clock_hz,
            width: self.width as u8,
            timing: value(&TIMINGS, self.timing, "ios->timing")?,
            signal: value(&SIGNALS, self.signal, "ios->signal")?,
            power: value(&POWERS, self.power, "ios->power")?,
            vdd: at_most(self.vdd, 31, "vdd")?,
            push_pull: at_most(self.push_pull, 1, "push_pull")? == 1,
            chip_select: at_most(self.chip_select, 2, "chip_select")?,
        })
    }
}

fn check_block(length: usize) -> Result<u32, Failure> {
    match u32::try_from(length) {
        Ok(length @ 1..) if length as usize <= BLOCK_MAX => Ok(length),
        _ => Err(Failure::argument(format_args!("length is {length}; a block has 1 to {BLOCK_MAX} bytes"))),
    }
}

/// Converts the time limit of a transfer. Fails if the limit would end after `TIME_MAX`.
fn limit(native: &Native, limit_ns: u64) -> Result<Duration, Failure> {
    wait(native.now(), limit_ns)
}

exports! {
    fallible {
        /// Opens a card in a slot without power.
        fn flashlab_native_open(
            name: Text, options: HandleRef<Options>, native: Out<HandleRef<Native>>,
        ) {
            let place = native.place("native")?.cleared();
            let card = options.build()?.0.card(name.get("name")?)?;
            place.put_handle(Native::new(Some(card)));
            Ok(())
        }
        /// Changes the settings of the slot.
        fn flashlab_native_set_ios(native: HandleRef<Native>, ios: In<Ios>) {
            let (mut native, ios) = (native.lend("native")?, ios.get("ios")?);
            native.set_ios(&ios.settings()?);
            Ok(())
        }
        /// Sends a command and waits for its response.
        fn flashlab_native_command(
            native: HandleRef<Native>, index: u8, argument: u32, response_type: u32, response: Out<WireResponse>,
        ) {
            let mut native = native.lend("native")?;
            if index > 63 {
                return Err(Failure::argument(format_args!("index is {index}; commands are CMD0 to CMD63")));
            }
            let expects = value(&RESPONSES, response_type, "response_type")?;
            let place = response.place("response")?;
            let answer = native.command(Command::new(index, argument), expects)?;
            let register = match answer {
                Response::R2(register) => register,
                _ => [0; 16],
            };
            place.put(WireResponse { word: answer.word(), register_bytes: register });
            Ok(())
        }
        /// Reads a block.
        fn flashlab_native_read_block(
            native: HandleRef<Native>, buffer: BytesOut, length: usize, limit_ns: u64,
        ) {
            let (mut native, mut buffer) = (native.lend("native")?, buffer);
            let (block, limit) = (check_block(length)?, limit(&native, limit_ns)?);
            Ok(native.read_block(buffer.zeroed("buffer", length)?, block, limit)?)
        }
        /// Writes a block.
        fn flashlab_native_write_block(
            native: HandleRef<Native>, data: BytesIn, length: usize, limit_ns: u64,
        ) {
            let mut native = native.lend("native")?;
            let (block, limit) = (check_block(length)?, limit(&native, limit_ns)?);
            Ok(native.write_block(data.get("data", length)?, block, limit)?)
        }
        /// Waits until the card is not busy.
        fn flashlab_native_wait_ready(native: HandleRef<Native>, limit_ns: u64) {
            let mut native = native.lend("native")?;
            let limit = limit(&native, limit_ns)?;
            Ok(native.wait_ready(limit)?)
        }
        /// Lets time pass.
        fn flashlab_native_wait(native: HandleRef<Native>, wait_ns: u64) {
            let mut native = native.lend("native")?;
            let time = wait(native.now(), wait_ns)?;
            native.advance(time);
            Ok(())
        }
        /// Returns the simulated time.
        fn flashlab_native_now(native: HandleRef<Native>, now_ns: Out<u64>) {
            let (native, place) = (native.lend("native")?, now_ns.place("now_ns")?);
            place.put(native.now().as_ns());
            Ok(())
        }
        /// Tells whether the card is busy.
        fn flashlab_native_is_busy(native: HandleRef<Native>, busy: Out<bool>) {
            let (native, place) = (native.lend("native")?, busy.place("busy")?);
            place.put(native.is_busy());
            Ok(())
        }
        /// Adds a quirk to the card.
        fn flashlab_native_add_quirk(native: HandleRef<Native>, quirk: Text) {
            add_quirk(native.lend("native")?.card_mut(), quirk.get("quirk")?)
        }
        /// Returns the counters of the card.
        fn flashlab_native_counters(
            native: HandleRef<Native>, counters: ArrayOut<Counter>, capacity: usize, count: Out<usize>,
        ) {
            let (native, place) = (native.lend("native")?, count.place("count")?);
            let observed = Observed::of(|to| native.card().into_iter().for_each(|card| card.observe(to)));
            counters.fill("counters", capacity, &observed.counters)?;
            place.put(observed.counters.len());
            Ok(())
        }
    }
    plain {
        /// Closes the slot and the card.
        fn flashlab_native_close(native: HandleRef<Native>) -> () {
            native.close();
        }
    }
}
