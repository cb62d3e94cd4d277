//! Reads lines of bounded length from a stream.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// One line of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A complete line without its line feed.
    Whole(Vec<u8>),
    /// The beginning of a line that exceeds the limit.
    TooLong(Vec<u8>),
}

/// Reads the next line; `None` at the end of the stream. The remainder of a line that is too long is returned as the
/// next line.
pub(crate) async fn next_line(
    from: &mut (impl AsyncBufRead + Unpin),
    longest: usize,
) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    loop {
        let seen = from.fill_buf().await?;
        if seen.is_empty() {
            return Ok((!line.is_empty()).then_some(Line::Whole(line)));
        }
        let room = longest - line.len();
        let end = seen.iter().position(|byte| *byte == b'\n');
        match end {
            Some(end) if end <= room => {
                line.extend_from_slice(&seen[..end]);
                from.consume(end + 1);
                return Ok(Some(Line::Whole(line)));
            }
            None if seen.len() <= room => {
                let taken = seen.len();
                line.extend_from_slice(seen);
                from.consume(taken);
            }
            _ => {
                line.extend_from_slice(&seen[..room]);
                from.consume(room);
                return Ok(Some(Line::TooLong(line)));
            }
        }
    }
}

/// A text from the child that is safe to display: without control characters and of at most `most` characters.
pub(crate) fn shown(text: &str, most: usize) -> String {
    let plain = |letter: char| match letter.is_control() {
        true => ' ',
        false => letter,
    };
    let mut shown: String = text.trim().chars().take(most).map(plain).collect();
    if text.trim().chars().nth(most).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_parted_and_bounded() {
        let mut from: &[u8] = b"one\n\n1234\n12345678\nlast";
        let mut seen = Vec::new();
        while let Some(line) = next_line(&mut from, 4).await.unwrap() {
            seen.push(line);
        }
        let whole = |text: &str| Line::Whole(text.into());
        let cut = Line::TooLong(b"1234".to_vec());
        assert_eq!(
            seen,
            [
                whole("one"),
                whole(""),
                whole("1234"),
                cut,
                whole("5678"),
                whole("last")
            ]
        );
    }

    #[test]
    fn what_is_shown_is_one_short_line() {
        assert_eq!(shown("a\u{1b}[31m\nb ", 99), "a [31m b");
        assert_eq!(shown("abcdef", 3), "abc…");
    }
}
