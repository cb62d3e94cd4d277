//! Colours, on a terminal only and never with `NO_COLOR` (<https://no-color.org>).

use std::io::{self, IsTerminal as _};

/// The start and the end of each first word of an error's lines.
const WORDS: [(&str, &str); 3] = [
    ("error:", "\u{1b}[1;31m"),
    ("cause:", "\u{1b}[1m"),
    ("hint:", "\u{1b}[1;36m"),
];
const END: &str = "\u{1b}[0m";

/// The colours of the status of a check.
const STATUSES: [(&str, &str); 3] = [
    ("ok", "\u{1b}[32m"),
    ("warning", "\u{1b}[1;33m"),
    ("failure", "\u{1b}[1;31m"),
];

/// Whether texts on standard error are coloured.
#[must_use]
pub fn is_on() -> bool {
    io::stderr().is_terminal() && is_wanted(variable)
}

/// Whether texts on standard output are coloured.
#[must_use]
pub fn is_on_for_output() -> bool {
    io::stdout().is_terminal() && is_wanted(variable)
}

fn variable(name: &str) -> Option<bool> {
    std::env::var_os(name).map(|it| !it.is_empty())
}

/// The status of a check, padded to `width`, in its colour.
#[must_use]
pub fn status(word: &str, width: usize) -> String {
    let padding = " ".repeat(width.saturating_sub(word.len()));
    match STATUSES.iter().find(|(status, _)| *status == word) {
        Some((_, start)) => format!("{start}{word}{END}{padding}"),
        None => format!("{word}{padding}"),
    }
}

/// Whether the environment allows colours; `variable` says whether one is set, and whether it has a value.
fn is_wanted(variable: impl Fn(&str) -> Option<bool>) -> bool {
    variable("NO_COLOR") != Some(true)
}

/// The first word of a line of an error, coloured, and the rest of the line.
#[must_use]
pub fn split(line: &str) -> (Option<String>, &str) {
    for (word, start) in WORDS {
        if let Some(rest) = line.strip_prefix(word) {
            return (Some(format!("{start}{word}{END}")), rest);
        }
    }
    (None, line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_word_is_coloured() {
        let (word, rest) = split("error: what [BERTH-E0005]");
        assert_eq!(word.as_deref(), Some("\u{1b}[1;31merror:\u{1b}[0m"));
        assert_eq!(rest, " what [BERTH-E0005]");
        assert_eq!(split("  tail"), (None, "  tail"));
    }

    #[test]
    fn a_status_has_its_width_with_and_without_a_colour() {
        assert_eq!(status("ok", 4), "\u{1b}[32mok\u{1b}[0m  ");
        assert_eq!(status("skipped", 8), "skipped ");
    }

    #[test]
    fn no_color_turns_colours_off_unless_it_is_empty() {
        assert!(is_wanted(|_| None) && is_wanted(|_| Some(false)));
        assert!(!is_wanted(|name| (name == "NO_COLOR").then_some(true)));
    }
}
