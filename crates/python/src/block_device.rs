//! A device with bytes, in simulated time, for the tests of programs that use block devices.

use crate::arguments::{self, end_of_wait, time};
use crate::error::{error, io_error, warn_of_rounding};
use crate::interrupt::lock;
use flashlab_device::{Device, Fate, Instant, Options, PowerCut};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::sync::Mutex;

/// A virtual device with bytes, in simulated time: it can be slow, worn or faulty, and its power can be cut at any
/// instant.
///
/// ``name`` is a name as for ``Device``, or a device with layers as for ``flashlab serve``:
/// ``memory:size=1M+delay:read=10ms``, ``sd/kingston+error:rate=0.01``. Requests that the device rejects raise
/// ``flashlab.IoError``, which is an ``OSError``.
#[pyclass(frozen, module = "flashlab")]
pub(crate) struct BlockDevice {
    name: String,
    seed: u64,
    device: Mutex<Device>,
}

/// A range that a power cut left undecided: first byte, end, and its fate.
type Undecided = (u64, u64, &'static str);

impl BlockDevice {
    pub(crate) fn of(name: String, seed: u64, device: Device) -> BlockDevice {
        BlockDevice { name, seed, device: Mutex::new(device) }
    }

    /// Runs `work` on the device without the GIL.
    fn with<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut Device) -> T + Send) -> T {
        py.detach(|| work(&mut lock(&self.device)))
    }
}

#[pymethods]
impl BlockDevice {
    #[new]
    #[pyo3(signature = (name, *, seed = 1, **numbers))]
    fn new(
        py: Python<'_>,
        name: &str,
        seed: u64,
        numbers: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<BlockDevice> {
        let name = arguments::device(name, numbers)?;
        let device = py.detach(|| Options::new().seed(seed).device(&name)).map_err(error)?;
        warn_of_rounding(py)?;
        Ok(BlockDevice::of(name, seed, device))
    }

    /// Return ``length`` bytes at ``offset``.
    fn read<'py>(&self, py: Python<'py>, offset: u64, length: usize) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.with(py, |device| {
            let geometry = device.geometry();
            // The device rejects a read that is too long, but only after the buffer has been allocated. The buffer is
            // therefore at most one block longer than the longest read.
            let length_max = geometry.request_max.min(geometry.capacity) + geometry.block;
            let length = length.min(usize::try_from(length_max).unwrap_or(usize::MAX));
            let mut bytes = vec![0; length];
            device.read(offset, &mut bytes).map(|()| bytes)
        });
        Ok(PyBytes::new(py, &bytes.map_err(|fault| io_error(py, fault))?))
    }

    /// Write bytes at ``offset``. They become durable with a flush, or at once with ``durable=True`` (FUA).
    #[pyo3(signature = (offset, data, *, durable = false))]
    fn write(&self, py: Python<'_>, offset: u64, data: &Bound<'_, PyAny>, durable: bool) -> PyResult<()> {
        let data: Vec<u8> = bytes(data)?;
        let written = self.with(py, |device| match durable {
            true => device.write_durable(offset, &data),
            false => device.write(offset, &data),
        });
        written.map_err(|fault| io_error(py, fault))
    }

    /// Make all completed writes durable.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, Device::flush).map_err(|fault| io_error(py, fault))
    }

    /// Discard a range, which then reads as zeroes or as before.
    fn discard(&self, py: Python<'_>, offset: u64, length: u64) -> PyResult<()> {
        self.with(py, |device| device.discard(offset, length)).map_err(|fault| io_error(py, fault))
    }

    /// Let time pass while the device works in the background. ``duration`` is a number of nanoseconds, or a text
    /// such as ``"10ms"``.
    fn wait(&self, py: Python<'_>, duration: &Bound<'_, PyAny>) -> PyResult<()> {
        let duration = time(duration)?;
        self.with(py, |device| {
            end_of_wait(device.now(), duration)?;
            device.wait(duration);
            Ok(())
        })
    }

    /// Cut the power now. Return the ranges that were not durable, as (first byte, end, fate); a fate is ``old``, ``new``
    /// or ``unreadable``.
    fn cut_power(&self, py: Python<'_>) -> PyResult<Vec<Undecided>> {
        self.with(py, Device::cut_power).map(|cut| undecided(&cut)).map_err(error)
    }

    /// Cut the power when the simulated time reaches ``at`` nanoseconds, even in the middle of a request.
    fn cut_power_at(&self, py: Python<'_>, at: u64) -> PyResult<()> {
        self.with(py, |device| device.cut_power_at(Instant::from_ns(at))).map_err(error)
    }

    /// Cut the power during the ``nth`` write or discard from now on, at an instant that the seed draws.
    #[pyo3(signature = (nth = 1))]
    fn cut_power_during_write(&self, py: Python<'_>, nth: u64) -> PyResult<()> {
        if nth == 0 {
            return Err(error("cut_power_during_write(0): the first write from now on has the number 1"));
        }
        self.with(py, |device| device.cut_power_during_write(nth)).map_err(error)
    }

    /// Return the effect of a planned power cut in the form of ``cut_power``; ``None`` if the cut has not happened.
    fn take_planned_cut(&self, py: Python<'_>) -> PyResult<Option<Vec<Undecided>>> {
        let cut = self.with(py, Device::take_planned_cut).map_err(error)?;
        Ok(cut.map(|cut| undecided(&cut)))
    }

    /// Restore the power. The time advances to the end of the device's recovery.
    fn restore_power(&self, py: Python<'_>) {
        self.with(py, Device::restore_power);
    }

    /// Make requests fail by a rule such as ``write after=3 times=1 EIO`` or ``read at=0+4096 rate=0.5``.
    fn add_fault(&self, py: Python<'_>, rule: &str) -> PyResult<()> {
        self.with(py, |device| device.add_fault(rule)).map_err(error)
    }

    /// Remove the rules that ``add_fault`` added.
    fn clear_faults(&self, py: Python<'_>) {
        self.with(py, Device::clear_faults);
    }

    /// Return all counters of the device by name; empty if the device has no model.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, value) in self.with(py, |device| device.counters()) {
            dict.set_item(name, value)?;
        }
        Ok(dict)
    }

    /// Return the number of erases of each erase block; empty if the device has none.
    fn erase_counts(&self, py: Python<'_>) -> Vec<u32> {
        self.with(py, |device| device.erase_counts())
    }

    /// True unless the power is off.
    #[getter]
    fn is_powered(&self, py: Python<'_>) -> bool {
        self.with(py, |device| device.is_powered())
    }
    /// Capacity in bytes.
    #[getter]
    fn capacity(&self, py: Python<'_>) -> u64 {
        self.with(py, |device| device.geometry().capacity)
    }
    /// Block size in bytes: offsets and lengths are multiples of it.
    #[getter]
    fn block_size(&self, py: Python<'_>) -> u64 {
        self.with(py, |device| device.geometry().block)
    }
    /// Simulated time in nanoseconds.
    #[getter]
    fn now_ns(&self, py: Python<'_>) -> u64 {
        self.with(py, |device| device.now().as_ns())
    }
    /// Seed of the medium, of the instants of power cuts and of injected errors.
    #[getter]
    fn seed(&self) -> u64 {
        self.seed
    }
    /// Name with which the device was opened.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    fn __repr__(&self) -> String {
        format!("BlockDevice({:?}, seed={})", self.name, self.seed)
    }
}

fn undecided(cut: &PowerCut) -> Vec<Undecided> {
    let fate = |fate: Fate| match fate {
        Fate::Old => "old",
        Fate::New => "new",
        Fate::Unreadable => "unreadable",
    };
    cut.undecided.iter().map(|(range, end)| (range.start, range.end, fate(*end))).collect()
}

/// Copies the bytes of an object with a buffer: `bytes`, `bytearray`, `memoryview`, an array.
fn bytes(data: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if let Ok(bytes) = data.cast::<PyBytes>() {
        return Ok(bytes.as_bytes().to_vec());
    }
    let view = data.py().import("builtins")?.getattr("memoryview")?.call1((data,))?;
    Ok(view.call_method0("tobytes")?.cast::<PyBytes>()?.as_bytes().to_vec())
}
