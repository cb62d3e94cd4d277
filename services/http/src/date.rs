//! Timestamps in the formats of OpenStack's tables and of HTTP headers. UTC, without leap seconds.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The last moment of the year 9999: later years would not sort as text.
const LAST: i64 = 253_402_300_799_999_999;

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// A moment, in microseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(i64);

impl Timestamp {
    #[must_use]
    pub fn now() -> Self {
        Self::of(SystemTime::now())
    }

    /// Converts a system time. Times out of range become the first or the last timestamp.
    #[must_use]
    pub fn of(moment: SystemTime) -> Self {
        let micros = moment
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_micros());
        Self(i64::try_from(micros).map_or(LAST, |micros| micros.min(LAST)))
    }

    /// Parses `YYYY-MM-DD HH:MM:SS[.ffffff]`, the format of SQLite and MySQL.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<i64>().ok();
        let days = days_from_date(number(0..4)?, number(5..7)?, number(8..10)?)?;
        let seconds = days * 86_400 + number(11..13)? * 3_600 + number(14..16)? * 60;
        let fraction = match text.get(20..) {
            None | Some("") => 0,
            Some(digits) => format!("{digits:0<6}").get(..6)?.parse::<i64>().ok()?,
        };
        Some(Self((seconds + number(17..19)?) * 1_000_000 + fraction))
    }

    /// `YYYY-MM-DD HH:MM:SS.ffffff`, the format that SQLAlchemy writes into SQLite.
    #[must_use]
    pub fn to_sql(self) -> String {
        let (date, seconds) = self.split();
        let (year, month, day) = date_from_days(date);
        format!(
            "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}.{:06}",
            seconds / 3_600,
            seconds / 60 % 60,
            seconds % 60,
            self.0.rem_euclid(1_000_000),
        )
    }

    /// `YYYY-MM-DDTHH:MM:SS+00:00`, the format of Cyborg's documents.
    #[must_use]
    pub fn to_iso(self) -> String {
        let (date, seconds) = self.split();
        let (year, month, day) = date_from_days(date);
        format!(
            "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}+00:00",
            seconds / 3_600,
            seconds / 60 % 60,
            seconds % 60,
        )
    }

    #[must_use]
    pub fn as_micros(self) -> i64 {
        self.0
    }

    /// The moment this long before.
    #[must_use]
    pub fn before(self, span: Duration) -> Self {
        let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(micros))
    }

    /// The moment this long after.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(micros).min(LAST))
    }

    /// Days since 1970-01-01 and seconds of that day.
    fn split(self) -> (i64, i64) {
        let seconds = self.0.div_euclid(1_000_000);
        (seconds.div_euclid(86_400), seconds.rem_euclid(86_400))
    }
}

/// The form of HTTP headers, e.g. `Fri, 20 Nov 2026 17:13:31 GMT`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, seconds) = self.split();
        let (year, month, day) = date_from_days(days);
        let weekday = usize::try_from(days.rem_euclid(7)).unwrap_or_default();
        let month = usize::try_from(month - 1).unwrap_or_default();
        write!(
            f,
            "{}, {day:02} {} {year:04} {:02}:{:02}:{:02} GMT",
            DAYS[weekday % 7],
            MONTHS[month % 12],
            seconds / 3_600,
            seconds / 60 % 60,
            seconds % 60,
        )
    }
}

/// Days since 1970-01-01 of a date in the Gregorian calendar. Years are counted from March, so
/// that the leap day is the last of its year.
fn days_from_date(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

/// The date of a day, as (year, month, day).
fn date_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}
