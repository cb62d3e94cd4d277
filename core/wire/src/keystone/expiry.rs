//! Parses a token's expiry.

use std::time::{Duration, SystemTime};

/// The text is not a time in Keystone's format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a time like 2026-11-20T17:00:00.000000Z")]
pub struct ExpiryError {
    text: String,
}

/// Parses `expires_at`: ISO 8601 in UTC with whole seconds, an optional fraction (ignored), and `Z` or `+00:00`.
pub fn parse_expiry(text: &str) -> Result<SystemTime, ExpiryError> {
    let refuse = || ExpiryError {
        text: text.chars().take(40).collect(),
    };
    let (date, time) = text.split_once('T').ok_or_else(refuse)?;
    let time = time
        .strip_suffix('Z')
        .or_else(|| time.strip_suffix("+00:00"))
        .ok_or_else(refuse)?;
    let time = time
        .split_once('.')
        .map_or(Some(time), |(whole, fraction)| {
            fraction
                .bytes()
                .all(|b| b.is_ascii_digit())
                .then_some(whole)
        });
    let [year, month, day] = numbers(date, '-').ok_or_else(refuse)?;
    let [hour, minute, second] = numbers(time.ok_or_else(refuse)?, ':').ok_or_else(refuse)?;
    let is_valid = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    if !is_valid {
        return Err(refuse());
    }
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
    Ok(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

fn numbers(text: &str, separator: char) -> Option<[u64; 3]> {
    let mut parts = text.split(separator).map(|part| {
        let plain = (1..=4).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| part.parse().ok()).flatten()
    });
    let numbers = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(numbers)
}

/// Days of the proleptic Gregorian calendar from 1970-01-01; years are counted from March, so that the leap day is last.
const fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    const DAYS_BEFORE_1970: u64 = 719_468;
    year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - DAYS_BEFORE_1970
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seconds(text: &str) -> Option<u64> {
        let since = parse_expiry(text)
            .ok()?
            .duration_since(SystemTime::UNIX_EPOCH)
            .ok()?;
        Some(since.as_secs())
    }

    #[test]
    fn known_times_are_read() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T00:00:00.000000Z", 951_782_400),
            ("2026-11-20T17:00:00.000000Z", 1_795_194_000),
            ("2026-11-20T17:00:00+00:00", 1_795_194_000),
            ("2100-03-01T00:00:00Z", 4_107_542_400),
        ] {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn other_forms_are_refused() {
        for text in [
            "",
            "T",
            "2026-11-20",
            "2026-11-20T17:00:00",
            "2026-11-20T17:00:00+01:00",
            "2026-13-20T17:00:00Z",
            "2026-11-20T24:00:00Z",
            "2026-11-20T17:00Z",
            "2026-11-20T17:00:00.xZ",
            "1969-12-31T23:59:59Z",
            "99999-01-01T00:00:00Z",
            "2026-00-20T17:00:00Z",
            "+026-11-20T17:00:00Z",
        ] {
            assert!(parse_expiry(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC*") {
            let _ = parse_expiry(&text);
        }

        #[test]
        fn later_days_are_later(year in 1970u64..9999, month in 1u64..=12, day in 1u64..28) {
            prop_assert_eq!(days_since_1970(year, month, day) + 1, days_since_1970(year, month, day + 1));
            prop_assert_eq!(days_since_1970(year, 12, 31) + 1, days_since_1970(year + 1, 1, 1));
        }
    }
}
