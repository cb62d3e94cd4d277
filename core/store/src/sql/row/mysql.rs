//! Decodes the types of MariaDB and MySQL: the binary form of prepared statements, and the text form of others.

use sqlx::mysql::MySqlRow;
use sqlx::{Row as _, TypeInfo as _, ValueRef as _};

use super::super::SqlTimestamp;
use super::cell::{ColumnValue, widened};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WireFormat {
    Binary,
    Text,
}

pub(super) fn cell(
    row: &MySqlRow,
    column: usize,
    form: WireFormat,
) -> Result<ColumnValue<'_>, String> {
    let value = row.try_get_raw(column).map_err(|error| error.to_string())?;
    if value.is_null() {
        return Ok(ColumnValue::Null);
    }
    let kind = value.type_info().into_owned();
    let bytes: &[u8] = row
        .try_get_unchecked(column)
        .map_err(|error| error.to_string())?;
    let name = kind.name();
    let text = || std::str::from_utf8(bytes).map_err(|error| error.to_string());
    let odd = || format!("{name} has {} bytes", bytes.len());
    let (plain, unsigned) = name
        .strip_suffix(" UNSIGNED")
        .map_or((name, false), |plain| (plain, true));
    Ok(match plain {
        "BOOLEAN" | "TINYINT" | "SMALLINT" | "MEDIUMINT" | "INT" | "BIGINT" | "YEAR" => {
            ColumnValue::Int(match form {
                WireFormat::Binary => whole(bytes, unsigned || plain == "YEAR").ok_or_else(odd)?,
                WireFormat::Text => text()?.parse().map_err(|_| odd())?,
            })
        }
        "FLOAT" | "DOUBLE" if form == WireFormat::Text => {
            ColumnValue::Double(text()?.parse().map_err(|_| odd())?)
        }
        "FLOAT" => ColumnValue::Double(widened(f32::from_le_bytes(
            bytes.try_into().map_err(|_| odd())?,
        ))),
        "DOUBLE" => ColumnValue::Double(f64::from_le_bytes(bytes.try_into().map_err(|_| odd())?)),
        "DECIMAL" => ColumnValue::Decimal(text()?.to_owned()),
        "DATETIME" | "TIMESTAMP" if form == WireFormat::Text => {
            let moment = text()?.parse();
            ColumnValue::Timestamp(moment.map_err(|_| "it is not a date".to_owned())?)
        }
        "DATETIME" | "TIMESTAMP" => {
            ColumnValue::Timestamp(moment(bytes).ok_or_else(|| "it is not a date".to_owned())?)
        }
        "CHAR" | "VARCHAR" | "TINYTEXT" | "TEXT" | "MEDIUMTEXT" | "LONGTEXT" | "ENUM" | "JSON" => {
            ColumnValue::Text(text()?)
        }
        // Expressions over texts of another character set arrive as bytes.
        "BINARY" | "VARBINARY" | "TINYBLOB" | "BLOB" | "MEDIUMBLOB" | "LONGBLOB" => {
            text().map_or_else(|_| ColumnValue::Other(name.to_owned()), ColumnValue::Text)
        }
        _ => ColumnValue::Other(name.to_owned()),
    })
}

/// Little-endian, of 1 to 8 bytes.
fn whole(bytes: &[u8], unsigned: bool) -> Option<i64> {
    let last = *bytes.last()?;
    let filler = if !unsigned && last & 0x80 != 0 {
        0xff
    } else {
        0
    };
    let mut wide = [filler; 8];
    wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
    let number = i64::from_le_bytes(wide);
    (!unsigned || number >= 0).then_some(number)
}

/// A length, then as many bytes: date (4), time of day (7), microseconds (11). None of them: midnight.
fn moment(bytes: &[u8]) -> Option<SqlTimestamp> {
    let (&length, bytes) = bytes.split_first()?;
    let byte = |at: usize| match at < usize::from(length) {
        true => bytes.get(at).copied().map(i64::from),
        false => Some(0),
    };
    let year = byte(0)? + byte(1)? * 256;
    let micros = (7..11)
        .rev()
        .try_fold(0, |micros, at| Some(micros * 256 + byte(at)?))?;
    SqlTimestamp::from_parts(
        (year, byte(2)?, byte(3)?),
        (byte(4)?, byte(5)?, byte(6)?, micros),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_of_every_width_are_read() {
        assert_eq!(whole(&[0xff], false), Some(-1));
        assert_eq!(whole(&[0xff], true), Some(255));
        assert_eq!(whole(&[0xfe, 0xff], false), Some(-2));
        assert_eq!(whole(&[1, 0, 0, 0], false), Some(1));
        assert_eq!(whole(&i64::MIN.to_le_bytes(), false), Some(i64::MIN));
        assert_eq!(whole(&u64::MAX.to_le_bytes(), true), None);
        assert_eq!(whole(&[], false), None);
    }

    #[test]
    fn a_date_may_leave_out_what_is_nought() {
        for (bytes, text) in [
            (&[4, 0xea, 7, 11, 22][..], "2026-11-22 00:00:00.000000"),
            (
                &[7, 0xea, 7, 11, 22, 17, 12, 5],
                "2026-11-22 17:12:05.000000",
            ),
            (
                &[11, 0xea, 7, 11, 22, 17, 12, 5, 1, 1, 0, 0],
                "2026-11-22 17:12:05.000257",
            ),
        ] {
            assert_eq!(
                moment(bytes).map(|it| it.to_string()).as_deref(),
                Some(text)
            );
        }
        assert_eq!(moment(&[]), None);
        assert_eq!(moment(&[0]), None);
        assert_eq!(moment(&[7, 0xea, 7]), None);
    }
}
