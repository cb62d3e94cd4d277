//! A timestamp as in the tables: UTC, microseconds, no leap seconds.

mod iso8601;

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;
/// 0001-01-01 00:00:00, the earliest date in any table.
const FIRST: i64 = -62_135_596_800_000_000;
/// The last microsecond of the year 9999: later years would not sort as text.
const LAST: i64 = 253_402_300_799_999_999;

/// A timestamp in microseconds since 1970-01-01T00:00:00Z, in the years 1 to 9999.
///
/// SQLite stores it as text in SQLAlchemy's format, PostgreSQL as `timestamp without time zone`, MariaDB and
/// MySQL as `datetime`. A plain `datetime` has whole seconds: MariaDB truncates the fraction, MySQL rounds
/// it; `datetime(6)` stores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SqlTimestamp(i64);

impl SqlTimestamp {
    #[must_use]
    pub fn now() -> Self {
        let micros = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_micros());
        Self(i64::try_from(micros).unwrap_or(LAST).min(LAST))
    }

    /// The timestamp this many microseconds after 1970-01-01T00:00:00Z; `None` outside the years 1 to 9999.
    #[must_use]
    pub fn from_micros(micros: i64) -> Option<Self> {
        (FIRST..=LAST).contains(&micros).then_some(Self(micros))
    }

    #[must_use]
    pub fn as_micros(self) -> i64 {
        self.0
    }

    /// As documents show it: `2026-11-27T01:54:44.869000Z` (RFC 3339).
    #[must_use]
    pub fn rfc3339(self) -> String {
        self.to_string().replacen(' ', "T", 1) + "Z"
    }

    /// Reads ISO 8601: a date, or a date and a time with optional seconds, fraction and zone.
    ///
    /// The zone is `Z`, `+02`, `+0200` or `+02:00`; without one it is UTC. A blank in place of `+` is read too, because a
    /// query has it if the `+` was not encoded. `None` if the text is no such time.
    #[must_use]
    pub fn from_iso8601(text: &str) -> Option<Self> {
        iso8601::parse(text)
    }

    /// The timestamp this long before, or the first one.
    #[must_use]
    pub fn before(self, span: Duration) -> Self {
        let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(micros).max(FIRST))
    }

    /// The timestamp this long after, or the last one.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(micros).min(LAST))
    }

    /// From a date and a time of day; `None` if the date or time does not exist.
    pub(super) fn from_parts(date: (i64, i64, i64), time: (i64, i64, i64, i64)) -> Option<Self> {
        let (year, month, day) = date;
        let (hour, minute, second, micros) = time;
        let lawful = (1..=9999).contains(&year)
            && (1..=12).contains(&month)
            && (1..=days_of(year, month)).contains(&day)
            && (0..24).contains(&hour)
            && (0..60).contains(&minute)
            && (0..60).contains(&second)
            && (0..1_000_000).contains(&micros);
        let seconds = hour * 3_600 + minute * 60 + second;
        lawful.then(|| Self(days_from_date(year, month, day) * DAY + seconds * 1_000_000 + micros))
    }
}

/// Timestamps before 1970 become 1970-01-01T00:00:00Z, the first time of HTTP headers.
impl From<SqlTimestamp> for SystemTime {
    fn from(timestamp: SqlTimestamp) -> Self {
        UNIX_EPOCH + Duration::from_micros(u64::try_from(timestamp.0).unwrap_or_default())
    }
}

/// `YYYY-MM-DD HH:MM:SS.ffffff`, the format in which SQLAlchemy stores timestamps in SQLite.
impl fmt::Display for SqlTimestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = date_from_days(self.0.div_euclid(DAY));
        let micros = self.0.rem_euclid(DAY);
        let seconds = micros / 1_000_000;
        write!(
            f,
            "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}.{:06}",
            seconds / 3_600,
            seconds / 60 % 60,
            seconds % 60,
            micros % 1_000_000,
        )
    }
}

/// The text is not a timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a moment is written YYYY-MM-DD HH:MM:SS with up to six digits of a second behind a point")]
pub struct SqlTimestampError;

impl FromStr for SqlTimestamp {
    type Err = SqlTimestampError;

    /// Reads `YYYY-MM-DD HH:MM:SS`, with or without up to six digits of a second.
    fn from_str(text: &str) -> Result<Self, SqlTimestampError> {
        read(text).ok_or(SqlTimestampError)
    }
}

fn read(text: &str) -> Option<SqlTimestamp> {
    let number = |range: std::ops::Range<usize>| {
        let digits = text.get(range)?;
        digits
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            .then_some(())?;
        digits.parse::<i64>().ok()
    };
    let separated = [(4, b'-'), (7, b'-'), (10, b' '), (13, b':'), (16, b':')]
        .iter()
        .all(|(at, separator)| text.as_bytes().get(*at) == Some(separator));
    let micros = match text.get(19..)? {
        "" => 0,
        fraction => {
            let digits = fraction.strip_prefix('.')?;
            let lawful = (1..=6).contains(&digits.len());
            (lawful && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(())?;
            format!("{digits:0<6}").parse().ok()?
        }
    };
    let date = (number(0..4)?, number(5..7)?, number(8..10)?);
    let time = (number(11..13)?, number(14..16)?, number(17..19)?, micros);
    separated
        .then(|| SqlTimestamp::from_parts(date, time))
        .flatten()
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days from 1970-01-01 to a date of the Gregorian calendar.
fn days_from_date(year: i64, month: i64, day: i64) -> i64 {
    // The year begins in March here, so that the leap day is its last.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The date of this number of days after 1970-01-01.
fn date_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = year_of_era + days.div_euclid(146_097) * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_read_as_it_is_written() {
        for (text, micros) in [
            ("1970-01-01 00:00:00.000000", 0),
            ("1969-12-31 23:59:59.999999", -1),
            ("2024-02-29 12:30:45.000123", 1_709_209_845_000_123),
            ("0001-01-01 00:00:00.000000", FIRST),
            ("9999-12-31 23:59:59.999999", LAST),
        ] {
            let moment: SqlTimestamp = text.parse().unwrap();
            assert_eq!(moment.as_micros(), micros, "{text}");
            assert_eq!(moment.to_string(), text);
        }
        let whole: SqlTimestamp = "2026-11-22 17:12:17".parse().unwrap();
        assert_eq!(whole.to_string(), "2026-11-22 17:12:17.000000");
        let tenth: SqlTimestamp = "2026-11-22 17:12:17.5".parse().unwrap();
        assert_eq!(tenth.to_string(), "2026-11-22 17:12:17.500000");
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in [
            "",
            "2026-11-22",
            "2026-11-22T17:12:17",
            "2026-02-29 00:00:00",
            "2026-13-01 00:00:00",
            "2026-11-22 24:00:00",
            "2026-11-22 17:12:17.",
            "2026-11-22 17:12:17.1234567",
            "2026-11-22 17:12:17 UTC",
            "+026-11-22 17:12:17",
            "ä026-11-22 17:12:1",
        ] {
            assert_eq!(
                text.parse::<SqlTimestamp>(),
                Err(SqlTimestampError),
                "{text}"
            );
        }
        assert_eq!(SqlTimestamp::from_micros(FIRST - 1), None);
        assert_eq!(SqlTimestamp::from_micros(LAST + 1), None);
    }

    #[test]
    fn there_is_nothing_before_the_first_moment_and_nothing_after_the_last() {
        let (long, hour) = (Duration::MAX, Duration::from_secs(3_600));
        assert_eq!(SqlTimestamp(7).before(hour).after(hour), SqlTimestamp(7));
        assert_eq!(SqlTimestamp(7).before(long), SqlTimestamp(FIRST));
        assert_eq!(SqlTimestamp(7).after(long), SqlTimestamp(LAST));
    }

    #[test]
    fn every_day_comes_back() {
        for day in (-719_162..2_932_896).step_by(17) {
            let (year, month, date) = date_from_days(day);
            assert_eq!(days_from_date(year, month, date), day);
        }
    }
}
