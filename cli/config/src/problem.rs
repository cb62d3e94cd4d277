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

impl From<ConfigRefusal> for Failure {
    fn from(refused: ConfigRefusal) -> Self {
        let code = refused
            .problems()
            .first()
            .map_or(ErrorCode::BadValue, |problem| problem.code);
        let failure = Failure::new(code, refused.title());
        let problems = refused.problems.iter();
        problems
            .fold(failure, |failure, problem| failure.cause(problem))
            .hint("correct these lines, then run: berth config check")
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
