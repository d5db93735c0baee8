//! Rows as bytes of a Parquet file.
//!
//! The first column is the key. The columns of the points follow in the order of the plan, then their
//! quantities in base units, then the figures. A column of numbers is DOUBLE. A column of counts, or of whole
//! numbers of points, is INT64. Any other column is a string. Every column is optional.

use crate::column::{Column, Kind, columns, point_names};
use crate::quantity;
use crate::row::{Cell, Row};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::record::Field;
use parquet::schema::types::Type;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Key of the metadata entry that marks a file of a sweep; its value is the number of columns of points.
const MARK: &str = "flashlab.sweep";

/// Returns the type of a column in the file.
fn schema(column: &Column<'_>) -> Arc<Type> {
    let (physical, logical) = match column.kind {
        Kind::Number => (Physical::DOUBLE, None),
        Kind::Count => (Physical::INT64, None),
        Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
    };
    let builder = Type::primitive_type_builder(column.name(), physical).with_logical_type(logical);
    Arc::new(builder.with_repetition(Repetition::OPTIONAL).build().expect("the type is consistent"))
}

/// Returns `rows` as the bytes of a Parquet file. Equal rows give equal bytes.
pub(crate) fn encode(rows: &[Row]) -> Result<Vec<u8>, String> {
    let keys: Vec<Cell> = rows.iter().map(|row| Cell::Text(row.key.clone())).collect();
    let columns = columns(rows, &keys);
    let fields = columns.iter().map(schema).collect();
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
        let levels: Vec<i16> = column.texts().map(|cell| i16::from(cell.is_some())).collect();
        match column.kind {
            Kind::Number => {
                let values: Vec<f64> = column.numbers().flatten().collect();
                writer.typed::<DoubleType>().write_batch(&values, Some(&levels), None).map_err(text)?;
            }
            Kind::Count => {
                let values: Vec<i64> = column.counts().flatten().collect();
                writer.typed::<Int64Type>().write_batch(&values, Some(&levels), None).map_err(text)?;
            }
            Kind::Text => {
                let values: Vec<ByteArray> =
                    column.texts().flatten().map(|text| text.as_str().into()).collect();
                writer.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None).map_err(text)?;
            }
        }
        writer.close().map_err(text)?;
    }
    group.close().map_err(text)?;
    writer.close().map_err(text)?;
    Ok(bytes)
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
        // Quantities follow from the points.
        let Row { point, figures, .. } = &mut row;
        figures.retain(|name, _| !point.iter().any(|(of, _)| quantity::is_of(name, of)));
        if row.key.is_empty() {
            return Err("a row has no key".to_owned());
        }
        rows.push(row);
    }
    Ok(rows)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
