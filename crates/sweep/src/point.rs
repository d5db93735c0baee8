//! Points of a sweep: a value for each of its names.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The value of a name at a point.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A number without a unit.
    Number(f64),
    /// Any other value: `250us`, `greedy`.
    Text(String),
    /// Yes or no: 1 or 0 for an option of a job, `yes` or `no` for a number of a device.
    Flag(bool),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(number) => number.fmt(f),
            Value::Text(text) => f.write_str(text),
            Value::Flag(flag) => f.write_str(if *flag { "1" } else { "0" }),
        }
    }
}

/// A point: names and their values, in the order of the plan.
///
/// A name is `device`, `seed` or `fs`, an option or a variable of the job, or a key of the device (`flash.t_prog`).
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Point(pub Vec<(String, Value)>);

impl Point {
    /// Returns the value of `name`.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (name, value)) in self.0.iter().enumerate() {
            let comma = if n > 0 { ", " } else { "" };
            write!(f, "{comma}{name}={value}")?;
        }
        Ok(())
    }
}

impl Serialize for Point {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de> Deserialize<'de> for Point {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Point, D::Error> {
        deserializer.deserialize_map(InOrder::default()).map(Point)
    }
}

/// Reads a map into a list, in the order of the text.
pub(crate) struct InOrder<T>(std::marker::PhantomData<T>);

impl<T> Default for InOrder<T> {
    fn default() -> Self {
        InOrder(std::marker::PhantomData)
    }
}

impl<'de, T: Deserialize<'de>> serde::de::Visitor<'de> for InOrder<T> {
    type Value = Vec<(String, T)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("names and their values")
    }
    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(entries)
    }
}
