//! Reads the end of an instance's console log, for the admin API.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use berth_agent_images::open as open_plain;

use crate::files::AllowedFile;

/// Bytes that are read from the end of a log: Nova's limit.
const MOST: u64 = 100 << 10;

/// The last `lines` lines of the log, or everything within the limit. Empty if the log does not exist yet.
pub fn end_of(log: &AllowedFile, lines: Option<usize>) -> io::Result<Vec<u8>> {
    end_of_file(log.as_path(), lines)
}

fn end_of_file(log: &Path, lines: Option<usize>) -> io::Result<Vec<u8>> {
    let end = match open_plain(log) {
        Ok(file) => tail(file)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    Ok(match lines {
        Some(lines) => last_lines(&end, lines).to_vec(),
        None => end,
    })
}

fn tail(mut file: File) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MOST)))?;
    let mut end = Vec::new();
    file.take(MOST).read_to_end(&mut end)?;
    Ok(end)
}

/// The last lines of a text. An unterminated line counts, too.
fn last_lines(text: &[u8], lines: usize) -> &[u8] {
    let whole = text.strip_suffix(b"\n").unwrap_or(text);
    if lines == 0 {
        return &[];
    }
    let breaks = whole.iter().enumerate().rev();
    let mut breaks = breaks.filter(|(_, byte)| **byte == b'\n');
    match breaks.nth(lines - 1) {
        Some((at, _)) => text.get(at + 1..).unwrap_or_default(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_whole_lines() {
        let cases: [(&[u8], usize, &[u8]); 7] = [
            (b"a\nb\nc\n", 2, b"b\nc\n"),
            (b"a\nb\nc", 2, b"b\nc"),
            (b"a\nb\n", 9, b"a\nb\n"),
            (b"a\nb\n", 0, b""),
            (b"", 3, b""),
            (b"\n\n\n", 1, b"\n"),
            (b"a", 1, b"a"),
        ];
        for (text, lines, expected) in cases {
            assert_eq!(last_lines(text, lines), expected, "{text:?} {lines}");
        }
    }

    #[test]
    fn a_log_is_read_from_its_end_and_a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("console.log");
        assert_eq!(
            end_of_file(&log, None).unwrap(),
            b"",
            "nothing was written yet"
        );
        let long = vec![b'x'; 200 << 10];
        std::fs::write(&log, [&long[..], b"\nlast\n"].concat()).unwrap();
        assert_eq!(end_of_file(&log, Some(1)).unwrap(), b"last\n");
        assert_eq!(end_of_file(&log, None).unwrap().len(), 100 << 10);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&log, &link).unwrap();
        end_of_file(&link, None).unwrap_err();
        end_of_file(folder.path(), None).unwrap_err();
    }
}
