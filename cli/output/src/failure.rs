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
        Self {
            code,
            what: what.into(),
            causes: chain(error),
            hint: None,
        }
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

    /// The text printed for a person, a line per part.
    #[must_use]
    pub fn explain(&self) -> String {
        use fmt::Write as _;
        let mut text = format!("[{}] {}\n", self.code, self.what);
        for cause in &self.causes {
            let _ = writeln!(text, "  caused by: {cause}");
        }
        if let Some(hint) = self.hint.as_deref().or_else(|| self.code.usual_hint()) {
            let _ = writeln!(text, "  hint: {hint}");
        }
        text
    }
}

/// An error and all of its causes in one sentence.
pub fn sentence(error: &(dyn Error + 'static)) -> String {
    chain(error).join(": ")
}

/// The texts of an error and of its causes. A cause is omitted if the error above it contains its text.
fn chain(error: &(dyn Error + 'static)) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    let mut current = Some(error);
    while let Some(error) = current {
        let text = error.to_string();
        if texts.last().is_none_or(|above| !above.contains(&text)) {
            texts.push(text);
        }
        current = error.source();
    }
    texts
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
        assert!(
            away.explain()
                .contains("hint: see that the service named runs")
        );
        let own = away.hint("wait");
        assert!(own.explain().ends_with("hint: wait\n"));
        let driver = Failure::new(ErrorCode::Driver, "the machine file cannot be used");
        assert!(
            driver
                .explain()
                .contains("hint: berth doctor reports what this host lacks")
        );
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
            "[BERTH-E0304] cannot start\n  caused by: the lock file is not writable\n  caused by: no space left\n  \
             hint: df -h /var/lib/berth\n"
        );
        assert_eq!(failure.exit(), ExitCode::Disk);
    }
}
