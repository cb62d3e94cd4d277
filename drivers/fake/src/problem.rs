//! Errors in a machine file, with their position and the expected value.

use std::fmt;
use std::ops::Range;

/// One thing wrong in a machine file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The key, for example `node[0].gpu[1].address`; empty for the file as a whole.
    pub key: String,
    /// What is wrong and what is expected.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.line, self.column)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.text)
    }
}

/// An invalid or unreadable machine.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// The file cannot be read.
    #[error("cannot read the machine file {file}")]
    Unreadable {
        file: String,
        #[source]
        source: std::io::Error,
    },
    /// The file is larger than any machine is described in.
    #[error("the machine file {file} has {size} bytes; at most {limit} are allowed")]
    TooLarge {
        file: String,
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The text is not a valid machine. All problems are listed in the order of the file, one per line.
    #[error("{}", listed(file, problems))]
    Refused {
        file: String,
        problems: Vec<Problem>,
    },
}

impl MachineError {
    /// The problems in the text; empty if it could not be read.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        match self {
            MachineError::Refused { problems, .. } => problems,
            MachineError::Unreadable { .. } | MachineError::TooLarge { .. } => &[],
        }
    }
}

fn listed(file: &str, problems: &[Problem]) -> String {
    let lines: Vec<_> = problems
        .iter()
        .map(|problem| format!("{file}:{problem}"))
        .collect();
    lines.join("\n")
}

/// More are not useful at a time, and each position is counted from the start of the text.
const MOST_SHOWN: usize = 50;

/// Collects problems while a text is read.
pub(crate) struct Problems<'t> {
    text: &'t str,
    found: Vec<Problem>,
}

impl<'t> Problems<'t> {
    pub(crate) fn of(text: &'t str) -> Self {
        Self {
            text,
            found: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, span: &Range<usize>, key: &str, text: impl Into<String>) {
        if self.found.len() >= MOST_SHOWN {
            return;
        }
        let (line, column) = place(self.text, span.start);
        self.found.push(Problem {
            line,
            column,
            key: key.to_owned(),
            text: text.into(),
        });
    }

    pub(crate) fn into_sorted(mut self) -> Vec<Problem> {
        self.found.sort();
        self.found.dedup();
        self.found
    }
}

/// Line and column of a byte, both from 1.
fn place(text: &str, byte: usize) -> (usize, usize) {
    let before: String = text
        .char_indices()
        .take_while(|(at, _)| *at < byte)
        .map(|(_, c)| c)
        .collect();
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    (line, column)
}
