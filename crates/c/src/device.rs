//! A block device: `flashlab_device`.

use crate::code::{Code, Failure};
use crate::export::{exports, layout};
use crate::handle::HandleRef;
use crate::observe::{Counter, Observed};
use crate::options::Options;
use crate::pointer::{ArrayOut, BytesIn, BytesOut, In, Out, Text};
use flashlab_device::{Duration, Fate, Instant, Io, IoError, PowerCut};
use std::ffi::c_void;

/// Last nanosecond of simulated time to which a wait can advance: 146 years. Later instants remain free for
/// the requests that follow.
pub(crate) const TIME_MAX: u64 = 1 << 62;

/// A device, its last power cut, and the bytes of its last completion.
pub(crate) struct Device {
    device: flashlab_device::Device,
    /// The last power cut that was taken from `device`; a later planned cut may still be in `device`.
    cut: Option<PowerCut>,
    /// Bytes of the last completion, to which C has a pointer.
    bytes: Vec<u8>,
}

/// A request: `flashlab_request`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Request {
    operation: u32,
    reserved: u32,
    offset: u64,
    length: u64,
    data: *const c_void,
}

/// A completed request: `flashlab_completion`.
#[repr(C)]
pub(crate) struct Completion {
    ticket: u64,
    at_ns: u64,
    data: *const c_void,
    length: u64,
    code: Code,
    reserved: u32,
}

/// Sizes of a device: `flashlab_geometry`.
#[repr(C)]
pub(crate) struct Geometry {
    capacity: u64,
    block_size: u64,
    request_max: u64,
}

/// A range that was not durable at a power cut: `flashlab_undecided`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Undecided {
    offset: u64,
    length: u64,
    fate: u32,
    reserved: u32,
}

layout! { Request as flashlab_request { operation: u32, reserved: u32, offset: u64, length: u64, data: *const c_void } }
layout! { Completion as flashlab_completion {
    ticket: u64, at_ns: u64, data: *const c_void, length: u64, code: Code, reserved: u32,
} }
layout! { Geometry as flashlab_geometry { capacity: u64, block_size: u64, request_max: u64 } }
layout! { Undecided as flashlab_undecided { offset: u64, length: u64, fate: u32, reserved: u32 } }

/// Values of `flashlab_request.operation`.
pub(crate) mod operation {
    pub(crate) const READ: u32 = 0;
    pub(crate) const WRITE: u32 = 1;
    pub(crate) const WRITE_DURABLE: u32 = 2;
    pub(crate) const FLUSH: u32 = 3;
    pub(crate) const DISCARD: u32 = 4;
}

/// Returns the value of `flashlab_undecided.fate`.
pub(crate) fn fate(fate: Fate) -> u32 {
    match fate {
        Fate::Old => 0,
        Fate::New => 1,
        Fate::Unreadable => 2,
    }
}

impl Device {
    fn check_length(&self, length: usize) -> Result<(), Failure> {
        let length_max = self.device.geometry().request_max;
        if length as u64 <= length_max {
            return Ok(());
        }
        let text = format_args!(
            "the request has {length} bytes, but the device accepts at most {length_max} at once"
        );
        Err(Failure::new(Code::ERROR_TOO_LARGE, text))
    }

    fn io(&self, request: &Request) -> Result<Io, Failure> {
        let Request { operation, offset, length, .. } = *request;
        if matches!(operation, operation::READ | operation::WRITE | operation::WRITE_DURABLE) {
            self.check_length(usize::try_from(length).unwrap_or(usize::MAX))?;
        }
        let durable = operation == operation::WRITE_DURABLE;
        match operation {
            operation::READ => Ok(Io::Read { offset, buffer: zeroes(length as usize)? }),
            operation::WRITE | operation::WRITE_DURABLE => {
                let data = BytesIn::of(request.data);
                let data = data.get("request->data", length as usize)?.to_vec().into();
                Ok(Io::Write { offset, data, durable })
            }
            operation::FLUSH => Ok(Io::Flush),
            operation::DISCARD => Ok(Io::Discard { offset, length, durable: false }),
            _ => Err(Failure::argument(format_args!(
                "request->operation is {operation}; see FLASHLAB_READ and the constants after it"
            ))),
        }
    }

    /// Returns the last power cut, planned or not.
    fn last_cut(&mut self) -> Result<Option<&PowerCut>, Failure> {
        if let Some(cut) = self.device.take_planned_cut()? {
            self.cut = Some(cut);
        }
        Ok(self.cut.as_ref())
    }
}

fn zeroes(length: usize) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).map_err(|_| IoError::NoMemory)?;
    bytes.resize(length, 0);
    Ok(bytes)
}

/// Returns the duration of a wait, or an error if the wait would end after [`TIME_MAX`].
pub(crate) fn wait(now: Instant, wait_ns: u64) -> Result<Duration, Failure> {
    if now.as_ns().saturating_add(wait_ns) > TIME_MAX {
        return Err(Failure::argument(format_args!(
            "a wait of {wait_ns} ns would end after 2^62 ns (146 years), the last instant to which a wait can advance; \
             is the argument a negative number?"
        )));
    }
    Ok(Duration::from_ns(wait_ns))
}

exports! {
    fallible {
        /// Opens a device by name.
        fn flashlab_device_open(
            name: Text, options: HandleRef<Options>, device: Out<HandleRef<Device>>,
        ) {
            let place = device.place("device")?.cleared();
            let device = options.build()?.0.device(name.get("name")?)?;
            place.put_handle(Device { device, cut: None, bytes: Vec::new() });
            Ok(())
        }
        /// Returns the sizes of the device.
        fn flashlab_device_geometry(device: HandleRef<Device>, geometry: Out<Geometry>) {
            let (device, place) = (device.lend("device")?, geometry.place("geometry")?);
            let of = device.device.geometry();
            place.put(Geometry { capacity: of.capacity, block_size: of.block, request_max: of.request_max });
            Ok(())
        }
        /// Returns the simulated time.
        fn flashlab_device_now(device: HandleRef<Device>, now_ns: Out<u64>) {
            let (device, place) = (device.lend("device")?, now_ns.place("now_ns")?);
            place.put(device.device.now().as_ns());
            Ok(())
        }
        /// Reads bytes.
        fn flashlab_device_read(device: HandleRef<Device>, offset: u64, buffer: BytesOut, length: usize) {
            let (mut device, mut buffer) = (device.lend("device")?, buffer);
            device.check_length(length)?;
            Ok(device.device.read(offset, buffer.zeroed("buffer", length)?)?)
        }
        /// Writes bytes.
        fn flashlab_device_write(device: HandleRef<Device>, offset: u64, data: BytesIn, length: usize) {
            let mut device = device.lend("device")?;
            device.check_length(length)?;
            Ok(device.device.write(offset, data.get("data", length)?)?)
        }
        /// Writes bytes and makes them durable.
        fn flashlab_device_write_durable(device: HandleRef<Device>, offset: u64, data: BytesIn, length: usize) {
            let mut device = device.lend("device")?;
            device.check_length(length)?;
            Ok(device.device.write_durable(offset, data.get("data", length)?)?)
        }
        /// Makes every completed write durable.
        fn flashlab_device_flush(device: HandleRef<Device>) {
            Ok(device.lend("device")?.device.flush()?)
        }
        /// Discards a range.
        fn flashlab_device_discard(device: HandleRef<Device>, offset: u64, length: u64) {
            Ok(device.lend("device")?.device.discard(offset, length)?)
        }
        /// Submits a request.
        fn flashlab_device_submit(device: HandleRef<Device>, request: In<Request>, ticket: Out<u64>) {
            let (mut device, request) = (device.lend("device")?, request.get("request")?);
            let place = ticket.place("ticket")?;
            let io = device.io(&request)?;
            place.put(device.device.submit(io).0);
            Ok(())
        }
        /// Advances the time to the next completion.
        fn flashlab_device_next_completion(device: HandleRef<Device>, completion: Out<Completion>) {
            let (mut device, place) = (device.lend("device")?, completion.place("completion")?);
            let Some(completed) = device.device.next_completion() else {
                return Err(Failure::new(Code::NONE, "no request is in flight"));
            };
            let (code, bytes) = match completed.result {
                Ok(bytes) => (Code::OK, bytes),
                Err(error) => (Failure::from(error).code, Vec::new()),
            };
            device.bytes = bytes;
            let data = if device.bytes.is_empty() { std::ptr::null() } else { device.bytes.as_ptr().cast() };
            place.put(Completion {
                ticket: completed.ticket.0,
                at_ns: completed.at.as_ns(),
                data,
                length: device.bytes.len() as u64,
                code,
                reserved: 0,
            });
            Ok(())
        }
        /// Lets time pass.
        fn flashlab_device_wait(device: HandleRef<Device>, wait_ns: u64) {
            let mut device = device.lend("device")?;
            let time = wait(device.device.now(), wait_ns)?;
            device.device.wait(time);
            Ok(())
        }
        /// Tells if the device has power.
        fn flashlab_device_is_powered(device: HandleRef<Device>, powered: Out<bool>) {
            let (device, place) = (device.lend("device")?, powered.place("powered")?);
            place.put(device.device.is_powered());
            Ok(())
        }
        /// Cuts the power now.
        fn flashlab_device_cut_power(device: HandleRef<Device>) {
            let mut device = device.lend("device")?;
            // A planned cut that has happened is no longer the last cut.
            let _ = device.device.take_planned_cut();
            device.cut = Some(device.device.cut_power()?);
            Ok(())
        }
        /// Plans a power cut at an instant.
        fn flashlab_device_cut_power_at(device: HandleRef<Device>, at_ns: u64) {
            Ok(device.lend("device")?.device.cut_power_at(Instant::from_ns(at_ns))?)
        }
        /// Plans a power cut during a write.
        fn flashlab_device_cut_power_during_write(device: HandleRef<Device>, nth: u64) {
            let mut device = device.lend("device")?;
            if nth == 0 {
                return Err(Failure::argument("nth is 0; the next write is number 1"));
            }
            Ok(device.device.cut_power_during_write(nth)?)
        }
        /// Returns the ranges that were not durable at the last power cut.
        fn flashlab_device_last_cut(
            device: HandleRef<Device>, ranges: ArrayOut<Undecided>, capacity: usize, count: Out<usize>,
        ) {
            let (mut device, place) = (device.lend("device")?, count.place("count")?);
            let Some(cut) = device.last_cut()? else {
                return Err(Failure::new(Code::NONE, "no power cut has happened"));
            };
            let found: Vec<Undecided> = cut
                .undecided
                .iter()
                .map(|(range, fate)| Undecided {
                    offset: range.start,
                    length: range.end - range.start,
                    fate: self::fate(*fate),
                    reserved: 0,
                })
                .collect();
            ranges.fill("ranges", capacity, &found)?;
            place.put(found.len());
            Ok(())
        }
        /// Restores the power.
        fn flashlab_device_restore_power(device: HandleRef<Device>) {
            device.lend("device")?.device.restore_power();
            Ok(())
        }
        /// Adds a rule by which requests fail.
        fn flashlab_device_add_fault(device: HandleRef<Device>, rule: Text) {
            Ok(device.lend("device")?.device.add_fault(rule.get("rule")?)?)
        }
        /// Removes all fault rules.
        fn flashlab_device_clear_faults(device: HandleRef<Device>) {
            device.lend("device")?.device.clear_faults();
            Ok(())
        }
        /// Returns the counters.
        fn flashlab_device_counters(
            device: HandleRef<Device>, counters: ArrayOut<Counter>, capacity: usize, count: Out<usize>,
        ) {
            let (device, place) = (device.lend("device")?, count.place("count")?);
            let observed = Observed::of(|to| device.device.observe(to));
            counters.fill("counters", capacity, &observed.counters)?;
            place.put(observed.counters.len());
            Ok(())
        }
        /// Returns the number of erases of each erase block.
        fn flashlab_device_erase_counts(
            device: HandleRef<Device>, erase_counts: ArrayOut<u32>, capacity: usize, count: Out<usize>,
        ) {
            let (device, place) = (device.lend("device")?, count.place("count")?);
            let observed = Observed::of(|to| device.device.observe(to));
            erase_counts.fill("erase_counts", capacity, &observed.erase_counts)?;
            place.put(observed.erase_counts.len());
            Ok(())
        }
    }
    plain {
        /// Closes the device.
        fn flashlab_device_close(device: HandleRef<Device>) -> () {
            device.close();
        }
    }
}
