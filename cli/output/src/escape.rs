//! Writers for standard output and standard error.
//!
//! [`EscapingWriter`] escapes control characters as JSON does, so that a guest's name or a hint cannot control the
//! terminal or forge a log line. [`PipeWriter`] also does this, and treats a closed pipe as success, so that `berth
//! config show | head -1` is no error.

use std::io::{self, ErrorKind, Write};

/// Writes until the reader closes the pipe, and drops all later output. Control characters are escaped, except tabs and
/// line ends (a guest's console ends its lines with CR and LF).
pub struct PipeWriter<W> {
    out: EscapingWriter<W>,
    reader: PipeReader,
}

enum PipeReader {
    There,
    Gone,
}

impl<W: Write> PipeWriter<W> {
    pub fn new(out: W) -> Self {
        Self {
            out: EscapingWriter::new(out, |byte| matches!(byte, b'\n' | b'\r' | b'\t')),
            reader: PipeReader::There,
        }
    }

    /// Treats a broken pipe as success.
    fn settle<T>(&mut self, result: io::Result<T>, dropped: T) -> io::Result<T> {
        match result {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.reader = PipeReader::Gone;
                Ok(dropped)
            }
            other => other,
        }
    }
}

impl<W: Write> Write for PipeWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.reader {
            PipeReader::Gone => Ok(bytes.len()),
            PipeReader::There => {
                let result = self.out.write(bytes);
                self.settle(result, bytes.len())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.reader {
            PipeReader::Gone => Ok(()),
            PipeReader::There => {
                let result = self.out.flush();
                self.settle(result, ())
            }
        }
    }
}

/// Writes control characters as JSON escapes (`\u001b`). A JSON document keeps its meaning.
pub struct EscapingWriter<W> {
    out: W,
    is_kept: fn(u8) -> bool,
    /// Whether the last byte may be the first one of a control character beyond ASCII; it is not written yet.
    is_begun: bool,
}

/// The first byte in UTF-8 of every control character beyond ASCII.
const BEGINNING: u8 = 0xc2;

impl<W: Write> EscapingWriter<W> {
    /// `is_kept` names the ASCII control characters that are written unescaped.
    pub fn new(out: W, is_kept: fn(u8) -> bool) -> Self {
        Self {
            out,
            is_kept,
            is_begun: false,
        }
    }

    fn escaped(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut plain = Vec::with_capacity(bytes.len() + 16);
        for &byte in bytes {
            match (std::mem::take(&mut self.is_begun), byte) {
                (true, 0x80..=0x9f) => plain.extend(code(byte)),
                (begun, byte) => {
                    plain.extend(begun.then_some(BEGINNING));
                    match byte {
                        BEGINNING => self.is_begun = true,
                        byte if !byte.is_ascii_control() || (self.is_kept)(byte) => {
                            plain.push(byte);
                        }
                        b'\n' => plain.extend(b"\\n"),
                        byte => plain.extend(code(byte)),
                    }
                }
            }
        }
        plain
    }
}

fn code(byte: u8) -> Vec<u8> {
    format!("\\u{byte:04x}").into_bytes()
}

impl<W: Write> Write for EscapingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let is_plain =
            |byte: &u8| *byte != BEGINNING && (!byte.is_ascii_control() || (self.is_kept)(*byte));
        if !self.is_begun && bytes.iter().all(is_plain) {
            return self.out.write(bytes);
        }
        let plain = self.escaped(bytes);
        self.out.write_all(&plain)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_begun) {
            self.out.write_all(&[BEGINNING])?;
        }
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(chunks: &[&[u8]]) -> String {
        let mut out = Vec::new();
        let mut plain = EscapingWriter::new(&mut out, |byte| byte == b'\n');
        for chunk in chunks {
            plain.write_all(chunk).unwrap();
        }
        plain.flush().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn control_characters_are_written_as_json_writes_them() {
        for (text, expected) in [
            ("a line\n", "a line\n"),
            (
                "\u{1b}[2J\0\r\t\u{7f}",
                "\\u001b[2J\\u0000\\u000d\\u0009\\u007f",
            ),
            ("café £ \u{9b}1m \u{a0}", "café £ \\u009b1m \u{a0}"),
        ] {
            assert_eq!(printed(&[text.as_bytes()]), expected);
            let one_by_one: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
            assert_eq!(printed(&one_by_one), expected);
        }
        let json = serde_json::json!({"name": "\u{9b}\u{7f}\u{1b}\n"});
        let plain = printed(&[json.to_string().as_bytes()]);
        assert!(!plain.contains(char::is_control));
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&plain).unwrap(),
            json
        );
    }
}
