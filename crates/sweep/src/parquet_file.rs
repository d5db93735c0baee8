//! Rows as bytes of a Parquet file.
//!
//! The first column is the key. The columns of the points follow in the order of the plan, then the figures. A column
//! whose values are all numbers is DOUBLE, one of counts INT64, and any other a string. Every column is optional.

use crate::row::{Cell, Row};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::metadata::KeyValue;
use parquet::file::writer::SerializedFileWriter;
use parquet::record::Field;
use parquet::schema::types::Type;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Key of the metadata entry that marks a file of a sweep; its value is the number of columns of points.
const MARK: &str = "flashlab.sweep";

/// The figures that come first, in this order; the others follow by name.
const FIRST: [&str; 13] = [
    "error",
    "requests",
    "bytes",
    "runtime_ms",
    "iops",
    "bytes_per_second",
    "latency_ns_mean",
    "latency_ns_p50",
    "latency_ns_p90",
    "latency_ns_p99",
    "latency_ns_p99_9",
    "latency_ns_max",
    "write_amplification",
];

/// Type of a column.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    Count,
    Text,
}

/// A column: its name, its type, and a cell for each row.
struct Column<'a> {
    name: &'a str,
    kind: Kind,
    cells: Vec<Option<&'a Cell>>,
}

impl<'a> Column<'a> {
    fn new(name: &'a str, cells: Vec<Option<&'a Cell>>) -> Column<'a> {
        let all = |kind: fn(&Cell) -> bool| cells.iter().flatten().all(|cell| kind(cell));
        let kind = if all(|cell| matches!(cell, Cell::Number(_))) {
            Kind::Number
        } else if all(|cell| matches!(cell, Cell::Count(_))) {
            Kind::Count
        } else {
            Kind::Text
        };
        // A column without values, such as the errors of a sweep without errors, has the type that it would have.
        let is_empty = cells.iter().all(Option::is_none);
        Column { name, kind: if is_empty { Kind::Text } else { kind }, cells }
    }

    fn schema(&self) -> Arc<Type> {
        let (physical, logical) = match self.kind {
            Kind::Number => (Physical::DOUBLE, None),
            Kind::Count => (Physical::INT64, None),
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let builder = Type::primitive_type_builder(self.name, physical).with_logical_type(logical);
        Arc::new(builder.with_repetition(Repetition::OPTIONAL).build().expect("the type is consistent"))
    }
}

/// Returns `rows` as the bytes of a Parquet file. Equal rows give equal bytes.
pub(crate) fn encode(rows: &[Row]) -> Result<Vec<u8>, String> {
    let keys: Vec<Cell> = rows.iter().map(|row| Cell::Text(row.key.clone())).collect();
    let columns = columns(rows, &keys);
    let fields = columns.iter().map(Column::schema).collect();
    let schema = Type::group_type_builder("sweep").with_fields(fields).build().map_err(text)?;
    let points = point_names(rows).len();
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(concat!("flashlab ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(vec![KeyValue::new(MARK.to_owned(), points.to_string())]))
        .build();
    let mut bytes = Vec::new();
    let mut writer =
        SerializedFileWriter::new(&mut bytes, Arc::new(schema), Arc::new(properties)).map_err(text)?;
    let mut group = writer.next_row_group().map_err(text)?;
    for column in &columns {
        let mut writer = group.next_column().map_err(text)?.expect("the schema has this column");
        let levels: Vec<i16> = column.cells.iter().map(|cell| i16::from(cell.is_some())).collect();
        let present = || column.cells.iter().flatten();
        match column.kind {
            Kind::Number => {
                let values: Vec<f64> = present().map(|cell| number(cell)).collect();
                writer.typed::<DoubleType>().write_batch(&values, Some(&levels), None).map_err(text)?;
            }
            Kind::Count => {
                let values: Vec<i64> = present().map(|cell| count(cell)).collect();
                writer.typed::<Int64Type>().write_batch(&values, Some(&levels), None).map_err(text)?;
            }
            Kind::Text => {
                let values: Vec<ByteArray> = present().map(|cell| shown(cell).as_str().into()).collect();
                writer.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None).map_err(text)?;
            }
        }
        writer.close().map_err(text)?;
    }
    group.close().map_err(text)?;
    writer.close().map_err(text)?;
    Ok(bytes)
}

/// Returns the columns of `rows`, of which the first has the `keys`.
fn columns<'a>(rows: &'a [Row], keys: &'a [Cell]) -> Vec<Column<'a>> {
    let mut columns = vec![Column::new("key", keys.iter().map(Some).collect())];
    for name in point_names(rows) {
        let cell = |row: &'a Row| row.point.iter().find(|(known, _)| known == name).map(|(_, cell)| cell);
        columns.push(Column::new(name, rows.iter().map(cell).collect()));
    }
    let mut names: Vec<&str> =
        rows.iter().flat_map(|row| row.figures.keys().map(String::as_str)).chain(["error"]).collect();
    let rank = |name: &str| FIRST.iter().position(|first| *first == name).unwrap_or(FIRST.len());
    names.sort_by_key(|name| (rank(name), *name));
    names.dedup();
    columns.extend(
        names.iter().map(|name| Column::new(name, rows.iter().map(|row| row.figures.get(*name)).collect())),
    );
    columns
}

/// Returns the names of all points, in the order in which they first appear.
fn point_names(rows: &[Row]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in rows.iter().flat_map(|row| &row.point) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}

/// Reads rows from the bytes of a Parquet file.
///
/// # Errors
/// Returns the fault if the bytes are damaged or not a file of a sweep.
pub(crate) fn decode(bytes: Vec<u8>) -> Result<Vec<Row>, String> {
    let damaged = |error| format!("not a complete Parquet file: {error}");
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).map_err(damaged)?;
    let metadata = reader.metadata().file_metadata().key_value_metadata();
    let mark = metadata.and_then(|entries| entries.iter().find(|entry| entry.key == MARK));
    let points = mark.and_then(|entry| entry.value.as_ref()?.parse::<usize>().ok());
    let points = points.ok_or("a Parquet file, but not of a sweep")?;
    let mut rows = Vec::new();
    for record in reader.get_row_iter(None).map_err(damaged)? {
        let record = record.map_err(damaged)?;
        let mut row = Row { key: String::new(), point: Vec::new(), figures: BTreeMap::new() };
        for (n, (name, field)) in record.get_column_iter().enumerate() {
            let cell = match field {
                Field::Null => continue,
                Field::Double(number) => Cell::Number(*number),
                Field::Long(count) => Cell::Count(*count),
                Field::Str(text) => Cell::Text(text.clone()),
                other => return Err(format!("column {name} has the unexpected value {other}")),
            };
            match cell {
                Cell::Text(key) if n == 0 => row.key = key,
                cell if n <= points => row.point.push((name.clone(), cell)),
                cell => {
                    row.figures.insert(name.clone(), cell);
                }
            }
        }
        if row.key.is_empty() {
            return Err("a row has no key".to_owned());
        }
        rows.push(row);
    }
    Ok(rows)
}

fn number(cell: &Cell) -> f64 {
    match cell {
        Cell::Number(number) => *number,
        Cell::Count(_) | Cell::Text(_) => unreachable!("the column has numbers only"),
    }
}

fn count(cell: &Cell) -> i64 {
    match cell {
        Cell::Count(count) => *count,
        Cell::Number(_) | Cell::Text(_) => unreachable!("the column has counts only"),
    }
}

fn shown(cell: &Cell) -> String {
    match cell {
        Cell::Number(number) => number.to_string(),
        Cell::Count(count) => count.to_string(),
        Cell::Text(text) => text.clone(),
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
