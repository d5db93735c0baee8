//! Numbers that no measurement determines. Devices with other values of such a number show whether a result
//! depends on the number.
//!
//! A profile marks such a number with the source `undetermined`. The other values of a quantity, a count or a
//! number are its half and its double. The other values of a choice are all its other words. The other value
//! of a flag is its opposite. Reports list the numbers whose other values change a result, and the numbers
//! for which no other value was simulated.

use super::Device;
use crate::library::Library;
use crate::profile::{Number, Shape, Source, Value};

/// A device with another value for one of its undetermined numbers.
#[derive(Clone, Debug)]
pub struct Alternative {
    /// Path, value and source of the number as text.
    pub number: String,
    /// Path of the number.
    pub path: &'static str,
    /// The other value.
    pub value: String,
    /// The device with the other value; `None` if the device starts from a saved state, which contains the number.
    pub device: Option<Device>,
}

impl Device {
    /// Returns the devices that differ from this one in one undetermined number each.
    pub fn alternatives(&self, library: &Library) -> Vec<Alternative> {
        let undetermined = self.numbers.set.iter().map(|sourced| &sourced.number);
        let undetermined = undetermined.filter(|number| matches!(number.source, Source::Undetermined(_)));
        undetermined.flat_map(|number| self.with_other_values(number, library)).collect()
    }

    fn with_other_values(&self, number: &Number, library: &Library) -> Vec<Alternative> {
        let path = number.parameter.path;
        let named = format!("{path} = {}, which is {}", number.value, number.source);
        let separator = if self.argument.contains(':') { ',' } else { ':' };
        let alternative = |value: String| {
            let argument = format!("{}{separator}{path}={value}", self.argument);
            let device = Device::open_in(&self.folder, &argument, library).ok();
            // A value that is impossible for this kind of device has no use as an alternative.
            (device.is_some() || self.state.is_some()).then(|| Alternative {
                number: named.clone(),
                path,
                value,
                device,
            })
        };
        let value = number.value.to_string();
        other_values(number).into_iter().filter(|other| *other != value).filter_map(alternative).collect()
    }
}

/// Returns plausible other values of a number, in the syntax of arguments.
fn other_values(number: &Number) -> Vec<String> {
    match (&number.value, number.parameter.shape()) {
        (Value::Quantity(dimension, value), _) => {
            [value / 2, value.saturating_mul(2)].map(|other| dimension.print(other)).into()
        }
        (Value::Count(count), _) => {
            [count / 2, count.saturating_mul(2)].map(|other| other.to_string()).into()
        }
        (Value::Number(bits), _) => {
            let number = f64::from_bits(*bits);
            [number / 2.0, number * 2.0].map(|other| Value::number(other).to_string()).into()
        }
        (Value::Choice(name), Shape::Choice(names)) => {
            names.iter().filter(|other| *other != name).map(ToString::to_string).collect()
        }
        (Value::Flag(flag), _) => vec![(!flag).to_string()],
        _ => Vec::new(),
    }
}
