//! Reads whole numbers beyond 64 bits.
//!
//! Nova's numbers are unbounded, those of hosts and options here have 64 bits. Numbers in a file that are out of range,
//! also within texts (a limit of an aggregate), are replaced by the largest or smallest 64-bit numbers. Their order is
//! kept, which is all that filters need; reasons show the replacements.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// A number beyond 64 bits, with its position in the text.
struct Beyond {
    from: usize,
    to: usize,
    value: i128,
    is_in_text: bool,
}

/// Replaces numbers beyond 64 bits. A file that has them only in strings is not changed.
pub(super) fn replace_large_numbers(json: &str) -> Cow<'_, str> {
    let found = find(json);
    if found.iter().all(|one| one.is_in_text) {
        return Cow::Borrowed(json);
    }
    let places = places(found.iter().map(|one| one.value).collect());
    let (mut out, mut at) = (String::with_capacity(json.len()), 0);
    for one in &found {
        out.push_str(&json[at..one.from]);
        if let Some(place) = places.get(&one.value) {
            out.push_str(&place.to_string());
        }
        at = one.to;
    }
    out.push_str(&json[at..]);
    Cow::Owned(out)
}

/// Replaces each large number: the largest one by the last number of 64 bits, the next one by the number before it, and
/// so on; likewise at the other end.
fn places(values: BTreeSet<i128>) -> BTreeMap<i128, i128> {
    let above = values.iter().rev().copied().take_while(|it| *it > 0);
    let below = values.iter().copied().take_while(|it| *it < 0);
    let above = above.zip((0..=i128::from(i64::MAX)).rev());
    above.chain(below.zip(i128::from(i64::MIN)..)).collect()
}

fn find(json: &str) -> Vec<Beyond> {
    let bytes = json.as_bytes();
    let mut found = Vec::new();
    let (mut at, mut is_in_text) = (0, false);
    while at < bytes.len() {
        let from = at;
        match bytes[at] {
            // An escaped quote does not end a text.
            b'\\' => at += 1 + usize::from(bytes.get(at + 1).is_some_and(u8::is_ascii)),
            b'"' => {
                is_in_text = !is_in_text;
                at += 1;
            }
            byte if is_of_word(byte) => {
                at += bytes[from..]
                    .iter()
                    .take_while(|it| is_of_word(**it))
                    .count();
                let value: Option<i128> = json[from..at].parse().ok();
                let value = value.filter(|value| i64::try_from(*value).is_err());
                found.extend(value.map(|value| Beyond {
                    from,
                    to: at,
                    value,
                    is_in_text,
                }));
            }
            _ => at += 1,
        }
    }
    found
}

/// Whether the byte is part of a number, a name or a UUID.
fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.' | b'_' | 0x80..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_beyond_64_bits_keep_their_order() {
        let file = r#"[99999999999999999998, {"a": "99999999999999999999, 5"}, 1e30, "é\"8", 7,
            -99999999999999999999, "99999999999999999999.5", 9223372036854775807]"#;
        let expected = r#"[9223372036854775806, {"a": "9223372036854775807, 5"}, 1e30, "é\"8", 7,
            -9223372036854775808, "99999999999999999999.5", 9223372036854775807]"#;
        assert_eq!(replace_large_numbers(file), expected);
    }

    #[test]
    fn numbers_in_texts_alone_stay() {
        for file in [
            r#"{"a": "99999999999999999999", "b": 5}"#,
            "99999999999999999999\"\\é",
            "\"\\",
        ] {
            let is_as_it_was =
                matches!(replace_large_numbers(file), Cow::Borrowed(it) if it == file);
            assert_eq!(is_as_it_was, !file.starts_with('9'), "{file}");
        }
    }

    #[test]
    fn a_file_may_have_a_hundred_thousand_numbers_up_to_the_last_of_128_bits() {
        let numbers = (0..100_000).map(|at| i128::MAX - at);
        let file: Vec<String> = numbers.map(|it| it.to_string()).collect();
        let expected = (0..100_000).map(|at| i64::MAX - at);
        let expected: Vec<String> = expected.map(|it| it.to_string()).collect();
        assert_eq!(replace_large_numbers(&file.join(" ")), expected.join(" "));
        let least = i128::MIN.to_string();
        assert_eq!(replace_large_numbers(&least), i64::MIN.to_string());
    }
}
