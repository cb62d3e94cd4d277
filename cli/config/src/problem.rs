//! One error or warning of the configuration, and the refusal that lists all errors.

use std::fmt;

use berth_output::{ErrorCode, Failure};

/// One problem: its place, the key, what is wrong, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigProblem {
    /// `FILE:LINE:COLUMN`, or the environment variable, or the default.
    pub at: String,
    /// `section.key`; empty when the file as a whole is meant.
    pub key: String,
    /// What is wrong. It never contains the value of a secret.
    pub wrong: String,
    /// What would be right; may be empty.
    pub right: String,
    /// The error code, which also decides the exit code.
    pub code: ErrorCode,
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.at)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.wrong)?;
        if !self.right.is_empty() {
            write!(f, "; {}", self.right)?;
        }
        write!(f, " [{}]", self.code)
    }
}

/// An invalid configuration, with all its problems.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigRefusal {
    problems: Vec<ConfigProblem>,
}

impl ConfigRefusal {
    /// Wraps the problems, at least one, sorted by place.
    #[must_use]
    pub fn new(mut problems: Vec<ConfigProblem>) -> Self {
        problems.sort_by(|a, b| by_place(&a.at, &b.at).then_with(|| a.cmp(b)));
        problems.dedup();
        ConfigRefusal { problems }
    }

    fn title(&self) -> String {
        let count = self.problems.len();
        let errors = if count == 1 { "error" } else { "errors" };
        format!("the configuration is refused, {count} {errors}")
    }

    /// Everything that is wrong, in the order of files and lines.
    #[must_use]
    pub fn problems(&self) -> &[ConfigProblem] {
        &self.problems
    }
}

impl fmt::Display for ConfigRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}:", self.title())?;
        for problem in &self.problems {
            writeln!(f, "  {problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigRefusal {}

impl ConfigRefusal {
    /// The refusal as the failure of a command. `check` is the command that checks the same configuration again.
    #[must_use]
    pub fn failure(&self, check: &str) -> Failure {
        let problems = self.problems.iter();
        let code = problems.clone().next();
        let code = code.map_or(ErrorCode::BadValue, |problem| problem.code);
        let failure = Failure::new(code, self.title());
        problems
            .fold(failure, |failure, problem| failure.cause(problem))
            .hint(self.hint(check))
    }

    /// What to do next. `check` is the command that checks the same configuration again.
    #[must_use]
    pub fn hint(&self, check: &str) -> String {
        // Such a problem is the path, the permissions or the format of a file, and its text says what would be right.
        let is_unread_file = |problem: &ConfigProblem| {
            problem.code == ErrorCode::Unreadable && problem.key.is_empty()
        };
        if self.problems.iter().all(is_unread_file) {
            return "correct this file or its path, then repeat the command".to_owned();
        }
        format!("correct these lines, then run: {check}")
    }
}

/// Orders `file:10:1` after `file:9:1`.
pub(super) fn by_place(a: &str, b: &str) -> std::cmp::Ordering {
    fn split(at: &str) -> (&str, u32, u32) {
        let mut parts = at.rsplitn(3, ':');
        let column = parts.next().and_then(|text| text.parse().ok());
        let line = parts.next().and_then(|text| text.parse().ok());
        match (parts.next(), line, column) {
            (Some(file), Some(line), Some(column)) => (file, line, column),
            _ => (at, 0, 0),
        }
    }
    split(a).cmp(&split(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_ordered_by_line_number() {
        assert!(by_place("a.toml:9:1", "a.toml:10:1").is_lt());
        assert!(by_place("a.toml:9:1", "b.toml:1:1").is_lt());
    }
}
