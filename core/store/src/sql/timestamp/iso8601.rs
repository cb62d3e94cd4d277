//! Timestamps as clients write them: ISO 8601, in any time zone. Pure.

use super::SqlTimestamp;

/// Microseconds of a minute.
const MINUTE: i64 = 60_000_000;

pub(super) fn parse(text: &str) -> Option<SqlTimestamp> {
    let (day, rest) = split_day(text)?;
    if rest.is_empty() {
        return format!("{day} 00:00:00").parse().ok();
    }
    let rest = rest.strip_prefix(['T', 't', ' '])?;
    let at = rest.find(['+', '-', ' ', 'Z', 'z']).unwrap_or(rest.len());
    let (time, zone) = rest.split_at(at);
    let time = extended_time(time)?;
    // Fractions of a microsecond are ignored.
    let (time, finer) = time.split_at_checked(15).unwrap_or((time.as_str(), ""));
    if !finer.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let local: SqlTimestamp = format!("{day} {time}").parse().ok()?;
    let minutes = minutes_of(zone)?;
    SqlTimestamp::from_micros(local.as_micros() - minutes * MINUTE)
}

/// The day as `YYYY-MM-DD`, and the rest. ISO 8601 also has the basic form `YYYYMMDD`.
fn split_day(text: &str) -> Option<(String, &str)> {
    if text.get(4..5)? == "-" {
        return Some((text.get(..10)?.to_owned(), text.get(10..)?));
    }
    let (year, month, day) = (text.get(..4)?, text.get(4..6)?, text.get(6..8)?);
    Some((format!("{year}-{month}-{day}"), text.get(8..)?))
}

/// The time as `HH:MM:SS`, with its fraction. Minutes and seconds may be missing, and so may the colons.
fn extended_time(text: &str) -> Option<String> {
    let end = text.find(['.', ',']).unwrap_or(text.len());
    let (whole, fraction) = text.split_at(end);
    let fraction = fraction.replace(',', ".");
    let digits: String = match whole.contains(':') {
        true => whole.split(':').collect(),
        false => whole.to_owned(),
    };
    let has_colons = whole.len() != digits.len();
    let at = |from: usize| digits.get(from..from + 2);
    let (hours, minutes, seconds) = match digits.len() {
        2 if !has_colons => (at(0)?, "00", "00"),
        4 if !has_colons || whole.len() == 5 => (at(0)?, at(2)?, "00"),
        6 if !has_colons || whole.len() == 8 => (at(0)?, at(2)?, at(4)?),
        _ => return None,
    };
    Some(format!("{hours}:{minutes}:{seconds}{fraction}"))
}

/// How many minutes a zone is before UTC.
fn minutes_of(zone: &str) -> Option<i64> {
    if matches!(zone, "" | "Z" | "z") {
        return Some(0);
    }
    let (sign, digits) = (zone.get(..1)?, zone.get(1..)?);
    let (hours, minutes) = match digits.len() {
        2 => (digits, "00"),
        4 => digits.split_at_checked(2)?,
        5 => digits.split_once(':')?,
        _ => return None,
    };
    let number = |digits: &str, end: i64| {
        let is_number = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = is_number.then(|| digits.parse::<i64>().ok()).flatten();
        number.filter(|number| *number < end)
    };
    let minutes = number(hours, 24)? * 60 + number(minutes, 60)?;
    Some(if sign == "-" { -minutes } else { minutes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_read_in_any_zone() {
        for (text, utc) in [
            ("2026-11-23", "2026-11-23 00:00:00"),
            ("2026-11-23T07:56", "2026-11-23 07:56:00"),
            ("2026-11-23 07:56:44", "2026-11-23 07:56:44"),
            ("2026-11-23T07:56:44Z", "2026-11-23 07:56:44"),
            ("2026-11-23T07:56:44.5z", "2026-11-23 07:56:44.5"),
            ("2026-11-23T07:56:44.1234567", "2026-11-23 07:56:44.123456"),
            ("2026-11-23T07:56:44+00:00", "2026-11-23 07:56:44"),
            ("2026-11-23T07:56:44+0000", "2026-11-23 07:56:44"),
            ("2026-11-23T07:56:44+02:00", "2026-11-23 05:56:44"),
            ("2026-11-23T07:56:44 02:00", "2026-11-23 05:56:44"),
            ("2026-11-23T07:56:44-0330", "2026-11-23 11:26:44"),
            ("2026-11-23T23:30-01", "2026-11-24 00:30:00"),
            ("20261123", "2026-11-23 00:00:00"),
            ("20261123T075644Z", "2026-11-23 07:56:44"),
            ("20261123T0756+0200", "2026-11-23 05:56:00"),
            ("2026-11-23T07", "2026-11-23 07:00:00"),
            ("2026-11-23T07:56:44,5Z", "2026-11-23 07:56:44.5"),
        ] {
            assert_eq!(parse(text), utc.parse().ok(), "{text}");
        }
    }

    #[test]
    fn what_is_no_moment_is_none() {
        for text in [
            "",
            "yesterday",
            "2026-11-23T",
            "2026112",
            "2026-1123",
            "20261123T0:7:5",
            "20261123T07564",
            "2026-11-23X07:56:44",
            "2026-11-23T07:56:44+24:00",
            "2026-11-23T07:56:44+2",
            "2026-11-23T07:56:44+0a:00",
            "2026-11-23T07:56:44.123456x",
            "2026-11-23T07:56:44ZZ",
            "0001-01-01T00:00:00+02:00",
            "2026-11-2ä",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
