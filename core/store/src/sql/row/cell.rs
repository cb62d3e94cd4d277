//! The value of one column of a row, independent of its width and type on the server.

use super::super::SqlTimestamp;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum ColumnValue<'r> {
    Null,
    Int(i64),
    Double(f64),
    /// A decimal number, written out.
    Decimal(String),
    Text(&'r str),
    Timestamp(SqlTimestamp),
    /// A type that no table of ours has, by its name.
    Other(String),
}

impl ColumnValue<'_> {
    pub(super) fn int(self) -> Result<i64, String> {
        match &self {
            Self::Int(number) => Ok(*number),
            Self::Decimal(text) => {
                let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
                match whole.parse() {
                    Ok(number) if fraction.bytes().all(|digit| digit == b'0') => Ok(number),
                    _ => Err(self.describe()),
                }
            }
            _ => Err(self.describe()),
        }
    }

    pub(super) fn double(self) -> Result<f64, String> {
        match &self {
            // Ratios and shares are never beyond 2^53, so the conversion is exact.
            #[expect(clippy::cast_precision_loss, reason = "asked for as a double")]
            Self::Int(number) => Ok(*number as f64),
            Self::Double(number) => Ok(*number),
            Self::Decimal(text) => text.parse().map_err(|_| self.describe()),
            _ => Err(self.describe()),
        }
    }

    pub(super) fn text(self) -> Result<String, String> {
        match self {
            Self::Text(text) => Ok(text.to_owned()),
            Self::Timestamp(moment) => Ok(moment.to_string()),
            _ => Err(self.describe()),
        }
    }

    pub(super) fn moment(self) -> Result<SqlTimestamp, String> {
        match &self {
            Self::Timestamp(moment) => Ok(*moment),
            Self::Text(text) => text
                .parse()
                .map_err(|error| format!("it is {text:?}; {error}")),
            _ => Err(self.describe()),
        }
    }

    pub(super) fn json(self) -> Result<serde_json::Value, String> {
        Ok(match self {
            Self::Null => serde_json::Value::Null,
            Self::Int(number) => number.into(),
            Self::Double(number) => number.into(),
            Self::Decimal(ref text) => match text.parse::<i64>() {
                Ok(number) => number.into(),
                Err(_) => text.parse::<f64>().map_err(|_| self.describe())?.into(),
            },
            Self::Text(text) => text.into(),
            Self::Timestamp(moment) => moment.to_string().into(),
            Self::Other(_) => return Err(self.describe()),
        })
    }

    fn describe(&self) -> String {
        match self {
            Self::Null => "it is NULL".to_owned(),
            Self::Int(number) => format!("it is the whole number {number}"),
            Self::Double(number) => format!("it is the number {number}"),
            Self::Decimal(text) => format!("it is the decimal number {text}"),
            Self::Text(_) => "it is text".to_owned(),
            Self::Timestamp(moment) => format!("it is the moment {moment}"),
            Self::Other(name) => format!("it is of the type {name}"),
        }
    }
}

/// Converts a float of four bytes to the double with the same decimal form: 1.1 and not 1.10000002.
pub(super) fn widened(float: f32) -> f64 {
    float
        .to_string()
        .parse()
        .unwrap_or_else(|_| f64::from(float))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_without_fraction_are_whole_numbers() {
        let decimal = |text: &str| ColumnValue::Decimal(text.to_owned());
        assert_eq!(decimal("12").int(), Ok(12));
        assert_eq!(decimal("-12.0000").int(), Ok(-12));
        assert!(decimal("1.5").int().is_err());
        assert!(decimal("99999999999999999999").int().is_err());
        assert_eq!(decimal("1.5").double(), Ok(1.5));
        assert_eq!(decimal("4").json(), Ok(4.into()));
    }

    #[test]
    fn a_float_is_as_wide_as_it_is_written() {
        for (float, double) in [
            (1.1_f32, 1.1_f64),
            (16.0, 16.0),
            (0.999, 0.999),
            (3e38, 3e38),
        ] {
            assert_eq!(widened(float), double);
        }
    }
}
