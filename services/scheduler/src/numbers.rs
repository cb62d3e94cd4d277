//! How OpenStack reads numbers out of texts: as Python's `int` and `float` do; and what it takes for true.

/// `float(text)`: blanks around, a sign, digits of any script with `_` between them, a point, an exponent, `inf`, `infinity` and
/// `nan` in any case. None for what it refuses.
#[must_use]
pub fn float(text: &str) -> Option<f64> {
    let text = digits(text.trim_matches(is_blank))?;
    let (sign, rest) = match text.strip_prefix(['+', '-']) {
        Some(rest) => (if text.starts_with('-') { -1.0 } else { 1.0 }, rest),
        None => (1.0, text.as_str()),
    };
    match rest.to_ascii_lowercase().as_str() {
        "inf" | "infinity" => return Some(sign * f64::INFINITY),
        "nan" => return Some(f64::NAN),
        _ => {}
    }
    // What Rust reads beside that begins with a letter too.
    let begins = rest.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let number: f64 = if begins {
        rest.parse().ok()?
    } else {
        return None;
    };
    Some(sign * number)
}

/// `int(text)`: as [`float`], whole numbers alone. None for what it refuses, and beyond 64 bits.
#[must_use]
pub fn int(text: &str) -> Option<i64> {
    let text = digits(text.trim_matches(is_blank))?;
    let bare = text.strip_prefix(['+', '-']).unwrap_or(&text);
    let is_whole = !bare.is_empty() && bare.bytes().all(|byte| byte.is_ascii_digit());
    if is_whole { text.parse().ok() } else { None }
}

/// Whether a text says yes, as `strutils.bool_from_string` reads it: all that it does not know says no.
#[must_use]
pub fn is_true(text: &str) -> bool {
    let text = text.trim_matches(is_blank);
    ["1", "t", "true", "on", "y", "yes"]
        .iter()
        .any(|yes| text.eq_ignore_ascii_case(yes))
}

/// With digits of every script as ASCII ones, and without the `_` between digits; none where one stands elsewhere.
fn digits(text: &str) -> Option<String> {
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
    Some(out)
}

/// A decimal digit of any script, as an ASCII one: those of Unicode come in rows of ten (category Nd).
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

/// What `str.strip` takes away.
fn is_blank(letter: char) -> bool {
    letter.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&letter)
}

#[cfg(test)]
mod tests {
    use super::*;

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
