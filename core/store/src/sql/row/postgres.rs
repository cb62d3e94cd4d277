//! Decodes the binary form of PostgreSQL's types.

use sqlx::postgres::{PgRow, PgTypeKind, PgValueFormat};
use sqlx::{Row as _, TypeInfo as _, ValueRef as _};

use super::super::SqlTimestamp;
use super::cell::{ColumnValue, widened};

/// PostgreSQL's epoch, 2000-01-01 00:00:00, in microseconds since 1970.
const EPOCH: i64 = 946_684_800_000_000;

pub(super) fn cell(row: &PgRow, column: usize) -> Result<ColumnValue<'_>, String> {
    let value = row.try_get_raw(column).map_err(|error| error.to_string())?;
    if value.is_null() {
        return Ok(ColumnValue::Null);
    }
    let kind = value.type_info().into_owned();
    if value.format() == PgValueFormat::Text {
        return Ok(ColumnValue::Other("an answer in text form".to_owned()));
    }
    let bytes = value.as_bytes().map_err(|error| error.to_string())?;
    let odd = || format!("{} has {} bytes", kind.name(), bytes.len());
    Ok(match kind.name() {
        "INT2" => ColumnValue::Int(i16::from_be_bytes(sized(bytes).ok_or_else(odd)?).into()),
        "INT4" => ColumnValue::Int(i32::from_be_bytes(sized(bytes).ok_or_else(odd)?).into()),
        "INT8" => ColumnValue::Int(i64::from_be_bytes(sized(bytes).ok_or_else(odd)?)),
        "BOOL" => ColumnValue::Int(i64::from(sized::<1>(bytes).ok_or_else(odd)? != [0])),
        "FLOAT4" => ColumnValue::Double(widened(f32::from_be_bytes(sized(bytes).ok_or_else(odd)?))),
        "FLOAT8" => ColumnValue::Double(f64::from_be_bytes(sized(bytes).ok_or_else(odd)?)),
        "NUMERIC" => numeric(bytes).map_or_else(
            || ColumnValue::Other("NUMERIC".to_owned()),
            ColumnValue::Decimal,
        ),
        "TIMESTAMP" | "TIMESTAMPTZ" => {
            let micros = i64::from_be_bytes(sized(bytes).ok_or_else(odd)?);
            let moment = micros
                .checked_add(EPOCH)
                .and_then(SqlTimestamp::from_micros);
            moment.map_or_else(
                || ColumnValue::Other("a date outside the years 1 to 9999".to_owned()),
                ColumnValue::Timestamp,
            )
        }
        "TEXT" | "VARCHAR" | "CHAR" | "NAME" | "UNKNOWN" | "JSON" | "\"CHAR\"" => {
            ColumnValue::Text(std::str::from_utf8(bytes).map_err(|error| error.to_string())?)
        }
        _ if matches!(kind.kind(), PgTypeKind::Enum(_)) => {
            ColumnValue::Text(std::str::from_utf8(bytes).map_err(|error| error.to_string())?)
        }
        other => ColumnValue::Other(other.to_owned()),
    })
}

fn sized<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.try_into().ok()
}

/// Digits to the base of 10,000, the weight of the first, the sign, and how many decimal places are shown. None for
/// NaN and the infinities.
fn numeric(bytes: &[u8]) -> Option<String> {
    let mut words = bytes
        .chunks_exact(2)
        .map(|word| u16::from_be_bytes([word[0], word[1]]));
    let count = usize::from(words.next()?);
    let weight = i32::from(words.next()?.cast_signed());
    let sign = match words.next()? {
        0x0000 => "",
        0x4000 => "-",
        _ => return None,
    };
    let scale = usize::from(words.next()?);
    let digits: Vec<u16> = words.take(count).collect();
    let group = |power: i32| {
        let index = usize::try_from(weight - power).ok();
        index
            .and_then(|index| digits.get(index))
            .copied()
            .unwrap_or_default()
    };
    let mut whole: String = (0..=weight.max(0))
        .rev()
        .map(|power| format!("{:04}", group(power)))
        .collect();
    let zeros = whole.len() - whole.trim_start_matches('0').len();
    whole.drain(..zeros.min(whole.len() - 1));
    let places = i32::try_from(scale.div_ceil(4)).ok()?;
    let mut fraction: String = (1..=places)
        .map(|power| format!("{:04}", group(-power)))
        .collect();
    fraction.truncate(scale);
    let point = if fraction.is_empty() { "" } else { "." };
    Some(format!("{sign}{whole}{point}{fraction}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_numeric_of_any_bytes_is_no_panic() {
        let edges = [0_u16, 1, 2, 0x3fff, 0x4000, 0x7fff, 0x8000, 0xffff];
        for count in edges {
            for weight in edges {
                for scale in edges {
                    for digits in 0..3 {
                        let words = [count, weight, 0, scale, 9_999, 0xffff];
                        let words = words[..4 + digits].iter();
                        let bytes: Vec<u8> = words.flat_map(|word| word.to_be_bytes()).collect();
                        assert!(numeric(&bytes).is_some());
                        assert!(numeric(&bytes[..7]).is_none());
                    }
                }
            }
        }
    }

    #[test]
    fn a_numeric_is_written_out() {
        for (words, expected) in [
            (&[0, 0, 0, 0][..], Some("0")),
            (&[1, 0, 0, 0, 42], Some("42")),
            (&[1, 0, 0x4000, 0, 42], Some("-42")),
            (&[2, 0, 0, 4, 1, 1000], Some("1.1000")),
            (&[1, 1, 0, 0, 7], Some("70000")),
            (&[2, 1, 0, 2, 7, 5], Some("70005.00")),
            (&[1, 0xffff, 0, 3, 120], Some("0.012")),
            (&[1, 0xfffe, 0, 8, 5000], Some("0.00005000")),
            (&[0, 0, 0xc000, 0], None),
            (&[1], None),
        ] {
            let bytes: Vec<u8> = words
                .iter()
                .flat_map(|word: &u16| word.to_be_bytes())
                .collect();
            assert_eq!(numeric(&bytes).as_deref(), expected, "{words:?}");
        }
    }
}
