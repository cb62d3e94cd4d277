//! Problems in a users file: the place, the key, and what would be right.

use std::fmt;
use std::ops::Range;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsersProblem {
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
    /// The key, for example `user[2].domain`; empty for the whole file.
    pub key: String,
    /// What is wrong and what would be right. Never contains a password or a hash.
    pub text: String,
}

impl fmt::Display for UsersProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.line, self.column)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.text)
    }
}

/// All problems of an invalid users file, in the order of its lines.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct UsersError {
    /// The file's name in messages.
    pub file: String,
    pub problems: Vec<UsersProblem>,
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
pub(super) struct UsersProblems<'t> {
    text: &'t str,
    found: Vec<UsersProblem>,
}

impl<'t> UsersProblems<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        Self {
            text,
            found: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, span: &Range<usize>, key: &str, text: impl Into<String>) {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line = before.rsplit('\n').next().unwrap_or_default();
        self.found.push(UsersProblem {
            line: before.matches('\n').count() + 1,
            column: line.chars().count() + 1,
            key: key.to_owned(),
            text: text.into(),
        });
    }

    pub(super) fn found(mut self) -> Vec<UsersProblem> {
        self.found
            .sort_by_key(|problem| (problem.line, problem.column));
        self.found
    }
}
