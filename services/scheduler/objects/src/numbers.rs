//! Numbers and booleans in text, parsed and printed like Python's `int`, `float` and `str`.

use std::borrow::Cow;

/// `float(text)`: surrounding blanks, a sign, digits of any script with `_` between them, a point, an exponent, `inf`,
/// `infinity` and `nan` in any case. `None` if Python refuses it.
#[must_use]
pub fn float(text: &str) -> Option<f64> {
    let text = digits(strip(text))?;
    let (sign, rest) = match text.strip_prefix(['+', '-']) {
        Some(rest) => (if text.starts_with('-') { -1.0 } else { 1.0 }, rest),
        None => (1.0, text.as_ref()),
    };
    let is = |name: &str| rest.eq_ignore_ascii_case(name);
    if is("inf") || is("infinity") {
        return Some(sign * f64::INFINITY);
    }
    if is("nan") {
        return Some(f64::NAN);
    }
    // Other forms that Rust accepts begin with a letter, too.
    let begins = rest.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let number: f64 = if begins {
        rest.parse().ok()?
    } else {
        return None;
    };
    Some(sign * number)
}

/// `int(text)`: like [`float`] for whole numbers. `None` if Python refuses it, and beyond 64 bits.
#[must_use]
pub fn int(text: &str) -> Option<i64> {
    whole(text)?.ok()
}

/// Like [`int`], but saturates beyond 64 bits: a limit that high is no limit.
#[must_use]
pub fn int_or_nearest(text: &str) -> Option<i64> {
    Some(whole(text)?.unwrap_or_else(|nearest| nearest))
}

/// A whole number, or the nearest one in range.
fn whole(text: &str) -> Option<Result<i64, i64>> {
    let text = digits(strip(text))?;
    let bare = text.strip_prefix(['+', '-']).unwrap_or(&text);
    let is_whole = !bare.is_empty() && bare.bytes().all(|byte| byte.is_ascii_digit());
    let nearest = || match text.starts_with('-') {
        true => i64::MIN,
        false => i64::MAX,
    };
    is_whole.then(|| text.parse().map_err(|_| nearest()))
}

/// The number as a float, as Python's `float` converts it.
#[must_use]
#[allow(
    clippy::cast_precision_loss,
    reason = "beyond 53 bits Python takes the nearest too"
)]
pub fn as_float(number: i64) -> f64 {
    number as f64
}

/// `str(number)`: the shortest digits that identify the number, with a point or an exponent.
#[must_use]
pub fn float_text(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..16).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => format!("{number:?}"),
    }
}

/// The text without surrounding blanks, as Python's `strip` removes them.
#[must_use]
pub fn strip(text: &str) -> &str {
    text.trim_matches(is_blank)
}

/// The words of a text, as Python's `split` separates them.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_blank).filter(|word| !word.is_empty())
}

/// `strutils.bool_from_string`: unknown text is false.
#[must_use]
pub fn is_true(text: &str) -> bool {
    let text = strip(text);
    ["1", "t", "true", "on", "y", "yes"]
        .iter()
        .any(|yes| text.eq_ignore_ascii_case(yes))
}

/// Converts digits of any script to ASCII and removes `_` between digits; `None` for a `_` elsewhere.
fn digits(text: &str) -> Option<Cow<'_, str>> {
    if text.bytes().all(|byte| byte.is_ascii() && byte != b'_') {
        return Some(Cow::Borrowed(text));
    }
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    let mut last_is_digit = false;
    while let Some(letter) = letters.next() {
        if letter == '_' {
            let next_is_digit = letters.peek().is_some_and(|it| digit(*it).is_some());
            if !last_is_digit || !next_is_digit {
                return None;
            }
            last_is_digit = false;
            continue;
        }
        let value = digit(letter);
        last_is_digit = value.is_some();
        out.push(value.unwrap_or(letter));
    }
    Some(Cow::Owned(out))
}

/// A decimal digit of any script as ASCII; Unicode has them in runs of ten (category Nd).
fn digit(letter: char) -> Option<char> {
    const ZEROS: [u32; 37] = [
        0x0030, 0x0660, 0x06F0, 0x07C0, 0x0966, 0x09E6, 0x0A66, 0x0AE6, 0x0B66, 0x0BE6, 0x0C66,
        0x0CE6, 0x0D66, 0x0DE6, 0x0E50, 0x0ED0, 0x0F20, 0x1040, 0x1090, 0x17E0, 0x1810, 0x1946,
        0x19D0, 0x1A80, 0x1A90, 0x1B50, 0x1BB0, 0x1C40, 0x1C50, 0xA620, 0xA8D0, 0xA900, 0xA9D0,
        0xA9F0, 0xAA50, 0xABF0, 0xFF10,
    ];
    let code = u32::from(letter);
    let zero = ZEROS.iter().rev().find(|zero| **zero <= code)?;
    char::from_digit(code - zero, 10)
}

/// The characters that `str.strip` removes.
fn is_blank(letter: char) -> bool {
    letter.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_python_writes_them() {
        for (number, expected) in [
            (1.0, "1.0"),
            (-0.5, "-0.5"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e-5, "1.5e-05"),
            (0.0001, "0.0001"),
            (1.25e100, "1.25e+100"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(float_text(number), expected);
        }
    }

    #[test]
    fn a_whole_number_beyond_64_bits_is_the_last_one_there_is() {
        assert_eq!(int("99999999999999999999"), None);
        assert_eq!(int_or_nearest("99999999999999999999"), Some(i64::MAX));
        assert_eq!(int_or_nearest("-99999999999999999999"), Some(i64::MIN));
        assert_eq!(int_or_nearest("9e9"), None);
    }

    #[test]
    fn numbers_are_read_as_python_reads_them() {
        for (text, expected) in [
            ("5", Some(5.0)),
            (" 5 ", Some(5.0)),
            ("-1_000.5", Some(-1000.5)),
            ("1e3", Some(1000.0)),
            ("+.5", Some(0.5)),
            ("5.", Some(5.0)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("٣", Some(3.0)),
            ("", None),
            ("+", None),
            ("1__0", None),
            ("_1", None),
            ("1_", None),
            ("0x1f", None),
            ("1,2", None),
            ("e5", None),
            ("--1", None),
        ] {
            assert_eq!(float(text), expected, "{text:?}");
        }
        assert!(float(" NaN").is_some_and(f64::is_nan));
        for (text, expected) in [
            ("True", true),
            (" yes ", true),
            ("1", true),
            ("", false),
            ("enabled", false),
        ] {
            assert_eq!(is_true(text), expected, "{text:?}");
        }
        for (text, expected) in [
            (" 10 ", Some(10)),
            ("-3", Some(-3)),
            ("1_0", Some(10)),
            ("５", Some(5)),
            ("5.5", None),
            ("1e3", None),
            ("10,20", None),
            ("", None),
            ("-", None),
        ] {
            assert_eq!(int(text), expected, "{text:?}");
        }
    }
}
