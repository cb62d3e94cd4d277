//! What is wrong in a file of users: where, at which key, and what would be right.

use std::fmt;
use std::ops::Range;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
    /// The key, `user[2].domain` for instance; empty where the whole file is meant.
    pub key: String,
    /// What is wrong, and what would be right. Never a password or a hash.
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

/// A text that describes no users: all that is wrong in it, in the order of the lines.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct UsersError {
    /// What the text is called.
    pub file: String,
    pub problems: Vec<Problem>,
}

impl fmt::Display for UsersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, problem) in self.problems.iter().enumerate() {
            if place > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{}:{problem}", self.file)?;
        }
        Ok(())
    }
}

/// Problems as they are found, by their place in a text.
pub(super) struct Problems<'t> {
    text: &'t str,
    found: Vec<Problem>,
}

impl<'t> Problems<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        Self {
            text,
            found: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, span: &Range<usize>, key: &str, text: impl Into<String>) {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line = before.rsplit('\n').next().unwrap_or_default();
        self.found.push(Problem {
            line: before.matches('\n').count() + 1,
            column: line.chars().count() + 1,
            key: key.to_owned(),
            text: text.into(),
        });
    }

    pub(super) fn found(mut self) -> Vec<Problem> {
        self.found
            .sort_by_key(|problem| (problem.line, problem.column));
        self.found
    }
}
