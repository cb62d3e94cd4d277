//! The error type of every command: what happened, its causes, a hint and an error number. The number decides the exit
//! code.
//!
//! A command returns a [`Failure`]; the program prints it once and exits.

use std::error::Error;
use std::fmt;
use std::io;

use crate::error_code::ErrorCode;
use crate::exit::ExitCode;

/// A failed command: printed once, on standard error, by `run` of the crate berth-cli.
#[derive(Debug)]
pub struct Failure {
    code: ErrorCode,
    what: String,
    causes: Vec<String>,
    hint: Option<String>,
}

impl Failure {
    /// A failure without an underlying error.
    #[must_use]
    pub fn new(code: ErrorCode, what: impl Into<String>) -> Self {
        Self {
            code,
            what: what.into(),
            causes: Vec::new(),
            hint: None,
        }
    }

    /// A failure caused by `error`; the whole chain is kept as text.
    #[must_use]
    pub fn caused(code: ErrorCode, what: impl Into<String>, error: &(dyn Error + 'static)) -> Self {
        let what = what.into();
        let mut texts = vec![what];
        add_chain(&mut texts, error);
        Self {
            code,
            what: texts.remove(0),
            causes: texts,
            hint: None,
        }
    }

    /// Adds a cause.
    #[must_use]
    pub fn cause(mut self, cause: impl fmt::Display) -> Self {
        add_text(&mut self.causes, cause.to_string());
        self
    }

    /// The failure that `error` itself describes.
    #[must_use]
    pub fn from_error(code: ErrorCode, error: &(dyn Error + 'static)) -> Self {
        let mut texts = chain(error);
        let what = texts.remove(0);
        Self {
            code,
            what,
            causes: texts,
            hint: None,
        }
    }

    /// Adds a hint: what the reader can do, best as a command.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The code, which also decides how the process ends.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// The exit code of the process.
    #[must_use]
    pub fn exit(&self) -> ExitCode {
        self.code.exit()
    }

    /// The text printed for a person, a line per part. A hint that is part of the other lines is not repeated.
    #[must_use]
    pub fn explain(&self) -> String {
        use fmt::Write as _;
        let mut text = format!("error: {} [{}]\n", self.what, self.code);
        for cause in &self.causes {
            let _ = writeln!(text, "cause: {cause}");
        }
        let hint = self.hint.as_deref().or_else(|| self.code.usual_hint());
        if let Some(hint) = hint.filter(|hint| !text.contains(hint)) {
            let _ = writeln!(text, "hint: {hint}");
        }
        text
    }
}

/// An error and all of its causes in one sentence.
pub fn sentence(error: &(dyn Error + 'static)) -> String {
    chain(error).join(": ")
}

/// The texts of an error and of its causes.
fn chain(error: &(dyn Error + 'static)) -> Vec<String> {
    let mut texts = Vec::new();
    add_chain(&mut texts, error);
    texts
}

fn add_chain(texts: &mut Vec<String>, error: &(dyn Error + 'static)) {
    let mut current = Some(error);
    while let Some(error) = current {
        add_text(texts, error.to_string());
        current = error.source();
    }
}

/// Adds a cause, unless a text above contains it.
fn add_text(texts: &mut Vec<String>, text: String) {
    let text = without_os_number(text);
    if !texts.iter().any(|above| above.contains(&text)) {
        texts.push(text);
    }
}

/// The text without `(os error 13)`, which the words before it say.
fn without_os_number(text: String) -> String {
    let Some((before, rest)) = text.split_once(" (os error ") else {
        return text;
    };
    let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    match after.strip_prefix(')') {
        Some(after) => format!("{before}{after}"),
        None => text,
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::caused(ErrorCode::Output, "cannot write the output", &error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_without_a_hint_of_its_own_has_that_of_its_kind() {
        let away = Failure::new(ErrorCode::Unavailable, "Placement did not answer");
        assert!(away.explain().ends_with("\nhint: berth doctor\n"));
        let own = away.hint("wait");
        assert!(own.explain().ends_with("hint: wait\n"));
        let driver = Failure::new(ErrorCode::Driver, "the machine file cannot be used");
        assert!(driver.explain().ends_with("\nhint: berth doctor\n"));
    }

    #[test]
    fn an_error_is_printed_with_its_whole_chain_and_the_hint() {
        #[derive(Debug, thiserror::Error)]
        #[error("the lock file is not writable")]
        struct Outer(#[source] io::Error);

        let inner = io::Error::new(io::ErrorKind::StorageFull, "no space left");
        let failure = Failure::caused(ErrorCode::State, "cannot start", &Outer(inner))
            .hint("df -h /var/lib/berth");
        assert_eq!(
            failure.explain(),
            "error: cannot start [BERTH-E0304]\ncause: the lock file is not writable\ncause: no space left\n\
             hint: df -h /var/lib/berth\n"
        );
        assert_eq!(failure.exit(), ExitCode::Disk);
    }

    #[test]
    fn a_cause_that_adds_nothing_and_the_number_of_a_system_error_are_left_out() {
        let denied = io::Error::from_raw_os_error(13);
        let failure = Failure::caused(ErrorCode::File, "cannot write x", &denied);
        assert_eq!(
            failure.explain(),
            "error: cannot write x [BERTH-E0004]\ncause: Permission denied\n"
        );
        let denied = io::Error::from_raw_os_error(13);
        let failure = Failure::caused(ErrorCode::File, "Permission denied on x", &denied);
        assert_eq!(
            failure.explain(),
            "error: Permission denied on x [BERTH-E0004]\n"
        );
    }

    #[test]
    fn a_hint_is_printed_once() {
        let failure = Failure::new(ErrorCode::Refused, "x is private; chmod 600 x");
        assert_eq!(
            failure.hint("chmod 600 x").explain(),
            "error: x is private; chmod 600 x [BERTH-E0005]\n"
        );
    }
}
