//! Forwards the child's standard error to the log, with limits on lines and bytes, and keeps the last line for the exit
//! message.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::io::{AsyncRead, BufReader};

use crate::budget::Budget;
use crate::lines::{Line, next_line, shown};

/// The most bytes of a line.
const LONGEST: usize = 4096;
/// The most lines at once, and each second.
const AT_ONCE: u32 = 200;
const PER_SECOND: u32 = 50;

/// The last line of a child.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastWords(Arc<Mutex<Option<String>>>);

impl LastWords {
    pub(crate) fn get(&self) -> Option<String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn set(&self, line: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
    }

    /// Logs the child's lines until it closes the stream.
    pub(crate) async fn listen(self, from: impl AsyncRead + Unpin) {
        let mut from = BufReader::new(from);
        let mut budget = Budget::new(AT_ONCE, PER_SECOND, Instant::now());
        let mut left_out = 0_u64;
        while let Ok(Some(line)) = next_line(&mut from, LONGEST).await {
            let (Line::Whole(line) | Line::TooLong(line)) = line;
            let line = String::from_utf8_lossy(&line);
            let (level, line) = Level::of(&line);
            let line = shown(line, LONGEST);
            if line.is_empty() {
                continue;
            }
            if budget.take(Instant::now()) {
                if left_out > 0 {
                    tracing::info!(left_out, "lines of the driver were left out");
                    left_out = 0;
                }
                match level {
                    Level::Debug => tracing::debug!(driver = "exec", "{line}"),
                    Level::Notable => tracing::info!(driver = "exec", "{line}"),
                }
            } else {
                left_out += 1;
            }
            self.set(line);
        }
    }
}

/// The log level of a line, from systemd's prefix (sd-daemon(3)).
#[derive(Debug, PartialEq, Eq)]
enum Level {
    Debug,
    Notable,
}

impl Level {
    fn of(line: &str) -> (Self, &str) {
        let known = line
            .strip_prefix('<')
            .and_then(|rest| rest.split_at_checked(1))
            .and_then(|(digit, rest)| Some((digit, rest.strip_prefix('>')?)));
        match known {
            Some(("7", rest)) => (Level::Debug, rest),
            Some((digit, rest)) if digit.as_bytes()[0].is_ascii_digit() => (Level::Notable, rest),
            _ => (Level::Notable, line),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_says_how_a_line_is_logged() {
        for (line, level, rest) in [
            ("<7>looking", Level::Debug, "looking"),
            ("<3>no disk", Level::Notable, "no disk"),
            ("plain", Level::Notable, "plain"),
            ("<x>", Level::Notable, "<x>"),
            ("<ä>", Level::Notable, "<ä>"),
            ("<", Level::Notable, "<"),
        ] {
            assert_eq!(Level::of(line), (level, rest));
        }
    }

    #[tokio::test]
    async fn the_last_line_is_kept() {
        let words = LastWords::default();
        words
            .clone()
            .listen(&b"Traceback\nNameError: x\n\n"[..])
            .await;
        assert_eq!(words.get().as_deref(), Some("NameError: x"));
    }
}
