//! Shortens user-supplied texts for messages.

use std::borrow::Cow;

/// Shortens a text of more than `most` characters to its two ends and its length. For user-supplied texts in messages.
///
/// ```
/// let short = berth_wire::bounded("invalid type: string \"aaaaaaaaaaaaaaaaaaaaaaaaa\", expected u32", 40);
/// assert_eq!(short, "invalid type: string… (62 bytes) …aaaaa\", expected u32");
/// ```
#[must_use]
pub fn bounded(text: &str, most: usize) -> Cow<'_, str> {
    // Bytes are never fewer than characters.
    if text.len() <= most || text.chars().count() <= most {
        return Cow::Borrowed(text);
    }
    let (first, last) = (most - most / 2, most / 2);
    let head = text
        .char_indices()
        .nth(first)
        .map_or("", |(at, _)| &text[..at]);
    let tail = match last {
        0 => "",
        last => {
            let begin = text.char_indices().nth_back(last - 1);
            begin.map_or("", |(at, _)| &text[at..])
        }
    };
    Cow::Owned(format!("{head}… ({} bytes) …{tail}", text.len()))
}

#[cfg(test)]
mod tests {
    use super::bounded;

    #[test]
    fn a_text_is_whole_up_to_its_bound_and_two_ends_beyond() {
        assert_eq!(bounded("ééé", 3), "ééé");
        assert_eq!(bounded("aéiou", 4), "aé… (6 bytes) …ou");
        assert_eq!(bounded("aéiou", 1), "a… (6 bytes) …");
        assert_eq!(bounded("a", 0), "… (1 bytes) …");
        assert_eq!(bounded("", 0), "");
    }

    #[test]
    fn both_ends_of_a_long_sentence_are_reported() {
        let long = format!("name: {} is too long", "a".repeat(70_000));
        let shortened = bounded(&long, 200);
        assert_eq!(
            shortened.chars().count(),
            200 + "… (70018 bytes) …".chars().count()
        );
        assert!(shortened.starts_with("name: aaa") && shortened.ends_with("aaa is too long"));
        assert!(shortened.contains("… (70018 bytes) …"));
    }
}
