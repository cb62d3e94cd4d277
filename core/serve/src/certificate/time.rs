//! The validity times of certificates, in UTC.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use super::der::{Der, tag};

/// A date and time in UTC. Later ones are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DateTime {
    year: u64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
}

impl fmt::Display for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            year,
            month,
            day,
            hour,
            minute,
            second,
        } = self;
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"
        )
    }
}

impl From<SystemTime> for DateTime {
    /// The proleptic Gregorian calendar from the days since 1970; a clock before that is 1970's.
    fn from(time: SystemTime) -> Self {
        let seconds = time
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        let (days, of_day) = (seconds / 86_400, seconds % 86_400);
        // Years that begin in March put the leap day at their end; 719,468 days are from 0000-03-01 to 1970-01-01.
        let days = days + 719_468;
        let (era, of_era) = (days / 146_097, days % 146_097);
        let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let march_month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * march_month + 2) / 5 + 1;
        let month = match march_month {
            0..10 => march_month + 3,
            _ => march_month - 9,
        };
        Self {
            year: era * 400 + year + u64::from(month <= 2),
            month,
            day,
            hour: of_day / 3_600,
            minute: of_day / 60 % 60,
            second: of_day % 60,
        }
    }
}

/// `UTCTime` or `GeneralizedTime`, as RFC 5280 (4.1.2.5) has them: whole seconds, in UTC.
pub(super) fn read(from: &mut Der<'_>) -> Option<DateTime> {
    let (kind, text) = from.next()?;
    let (year, rest) = match kind {
        tag::UTC_TIME => {
            let (year, rest) = number(text, 2)?;
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        tag::GENERALIZED_TIME => number(text, 4)?,
        _ => return None,
    };
    let (month, rest) = number(rest, 2)?;
    let (day, rest) = number(rest, 2)?;
    let (hour, rest) = number(rest, 2)?;
    let (minute, rest) = number(rest, 2)?;
    let (second, rest) = number(rest, 2)?;
    (rest == b"Z").then_some(DateTime {
        year,
        month,
        day,
        hour,
        minute,
        second,
    })
}

fn number(text: &[u8], digits: usize) -> Option<(u64, &[u8])> {
    let (digits, rest) = text.split_at_checked(digits)?;
    let number = digits.iter().try_fold(0, |number, digit| {
        digit
            .is_ascii_digit()
            .then(|| number * 10 + u64::from(digit - b'0'))
    })?;
    Some((number, rest))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_calendar_is_that_of_everybody() {
        let cases = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ];
        for (seconds, text) in cases {
            let moment = UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(DateTime::from(moment).to_string(), text);
        }
    }

    #[test]
    fn both_forms_of_time_are_read_and_others_are_none() {
        let cases: [(u8, &str, Option<&str>); 7] = [
            (tag::UTC_TIME, "260131235959Z", Some("2026-01-31T23:59:59Z")),
            (tag::UTC_TIME, "500101000000Z", Some("1950-01-01T00:00:00Z")),
            (
                tag::GENERALIZED_TIME,
                "20500101000000Z",
                Some("2050-01-01T00:00:00Z"),
            ),
            (tag::UTC_TIME, "2601312359Z", None),
            (tag::UTC_TIME, "260131235959+0100", None),
            (tag::UTC_TIME, "2601312359-9Z", None),
            (tag::BOOLEAN, "260131235959Z", None),
        ];
        for (kind, text, expected) in cases {
            let length = u8::try_from(text.len()).unwrap();
            let bytes = [&[kind, length], text.as_bytes()].concat();
            let read = read(&mut Der::new(&bytes)).map(|time| time.to_string());
            assert_eq!(read.as_deref(), expected, "{text}");
        }
    }
}
