//! Python values as the words of the command line.

use crate::error::error;
use flashlab_catalogue::units::Dimension;
use flashlab_sim::{Duration, Instant};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};

/// Last nanosecond of simulated time that a call can name or wait for: 146 years. Later instants remain free
/// for the requests that follow.
const TIME_MAX: u64 = 1 << 62;

/// Returns the instant `ns`, which is the value of the argument `name`.
pub(crate) fn instant(name: &str, ns: u64) -> PyResult<Instant> {
    if ns > TIME_MAX {
        return Err(error(format_args!("{name}={ns}: the last possible instant is 2**62 ns (146 years)")));
    }
    Ok(Instant::from_ns(ns))
}

/// Returns the end of a wait of `duration` that begins at `now`.
pub(crate) fn end_of_wait(now: Instant, duration: Duration) -> PyResult<Instant> {
    let end = now.saturating_add(duration);
    if end.as_ns() > TIME_MAX {
        let ns = duration.as_ns();
        return Err(error(format_args!(
            "a wait of {ns} ns would end after the last possible instant, 2**62 ns (146 years)"
        )));
    }
    Ok(end)
}

/// Returns the value of an option or number in the form of the command line. `True` and `False` become `yes` and `no`.
pub(crate) fn word(name: &str, value: &Bound<'_, PyAny>, [yes, no]: [&str; 2]) -> PyResult<String> {
    if value.is_none() {
        return Ok("none".to_owned());
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(if value.extract()? { yes } else { no }.to_owned());
    }
    let is_scalar = value.is_instance_of::<PyString>()
        || value.is_instance_of::<PyInt>()
        || value.is_instance_of::<PyFloat>();
    if is_scalar {
        return value.str()?.extract();
    }
    // Integers of other types, such as those of NumPy.
    if let Ok(number) = value.call_method0("__index__") {
        return number.str()?.extract();
    }
    let kind = value.get_type().name()?;
    Err(error(format_args!("{name}: expected a text, a number, True, False or None, but the type is {kind}")))
}

/// Returns the argument of a device with `numbers` added before its layers: `sd/kingston:flash.t_prog=250us+stats`.
pub(crate) fn device(name: &str, numbers: Option<&Bound<'_, PyDict>>) -> PyResult<String> {
    let Some(numbers) = numbers else { return Ok(name.to_owned()) };
    let (device, layers) = name.split_at(name.find('+').unwrap_or(name.len()));
    let mut argument = device.to_owned();
    for (key, value) in numbers {
        let key: String = key.extract()?;
        let value = word(&key, &value, ["yes", "no"])?;
        argument.push(if argument.contains(':') { ',' } else { ':' });
        argument.push_str(&format!("{key}={value}"));
    }
    Ok(argument + layers)
}

/// Returns a time: an integer in nanoseconds, or a text with a unit such as `250us`.
pub(crate) fn time(value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let Ok(text) = value.cast::<PyString>() else { return Ok(Duration::from_ns(value.extract()?)) };
    let text = text.to_string();
    Dimension::Time.parse_argument(&text).map(Duration::from_ns).map_err(error)
}

/// Returns the argument of a device without its `state=` key.
pub(crate) fn without_state(argument: &str) -> String {
    let Some((name, keys)) = argument.split_once(':') else { return argument.to_owned() };
    let keys: Vec<&str> = keys.split(',').filter(|key| !key.starts_with("state=")).collect();
    if keys.is_empty() { name.to_owned() } else { format!("{name}:{}", keys.join(",")) }
}
