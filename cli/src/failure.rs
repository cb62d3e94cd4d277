//! How a command fails: what happened, its causes, the mend, a code. The one place where errors become exit codes.
//!
//! A command returns [`Failure`]; [`run`](crate::run) prints it once and ends the process. A new kind of error
//! gets a row in [`ErrorCode`] and a `From` here, nowhere else.

use std::error::Error;
use std::fmt;
use std::io;

use berth_client::{AuthError, CallError, Disposition, PlacementError};

use crate::config::Refused;
use crate::exit::ExitCode;

/// A failed command: printed once, on standard error, by [`run`](crate::run).
#[derive(Debug)]
pub struct Failure {
    code: ErrorCode,
    what: String,
    causes: Vec<String>,
    mend: Option<String>,
}

impl Failure {
    /// A failure without an underlying error.
    #[must_use]
    pub fn new(code: ErrorCode, what: impl Into<String>) -> Self {
        Self {
            code,
            what: what.into(),
            causes: Vec::new(),
            mend: None,
        }
    }

    /// A failure caused by `error`, whose whole chain is kept as text.
    #[must_use]
    pub fn caused(code: ErrorCode, what: impl Into<String>, error: &(dyn Error + 'static)) -> Self {
        Self {
            code,
            what: what.into(),
            causes: chain(error),
            mend: None,
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
            mend: None,
        }
    }

    /// Adds what the reader can do, best as a command.
    #[must_use]
    pub fn mend(mut self, mend: impl Into<String>) -> Self {
        self.mend = Some(mend.into());
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
        if let Some(mend) = self.mend.as_deref().or_else(|| self.code.usual_mend()) {
            let _ = writeln!(text, "  mend: {mend}");
        }
        text
    }
}

impl ErrorCode {
    /// What helps with most failures of this kind, where nothing more is known of this one.
    #[must_use]
    pub const fn usual_mend(self) -> Option<&'static str> {
        match self {
            ErrorCode::Unavailable => Some(
                "see that the service named runs and that its URL is right (berth config show --set), then repeat; \
                 berth doctor asks it, too",
            ),
            ErrorCode::Driver => Some(
                "berth doctor says what this host lacks; berth config show --set, what the driver is told",
            ),
            _ => None,
        }
    }

    /// The code of a call of Placement that was not done.
    #[must_use]
    pub fn of_placement(error: &PlacementError) -> Self {
        if error.disposition() != Disposition::Fatal {
            return ErrorCode::Unavailable;
        }
        match error {
            PlacementError::Forbidden { .. } => ErrorCode::Forbidden,
            PlacementError::Unauthorized(_) => ErrorCode::Unauthorized,
            PlacementError::TooOld { .. } => ErrorCode::Microversion,
            PlacementError::NameTaken(_) => ErrorCode::Identity,
            PlacementError::Refused(refusal) if refusal.status.as_u16() == 400 => {
                ErrorCode::RequestRefused
            }
            PlacementError::Refused(refusal) if refusal.status.as_u16() == 409 => {
                ErrorCode::Refused
            }
            PlacementError::Call(CallError::Auth(AuthError::Refused { status: 401, .. })) => {
                ErrorCode::Unauthorized
            }
            // A certificate that cannot be read, a request that cannot be made of the options.
            PlacementError::Call(CallError::Transport { .. } | CallError::AnswerLost { .. })
            | PlacementError::Call(CallError::Auth(AuthError::Transport { .. })) => {
                ErrorCode::BadValue
            }
            _ => ErrorCode::Endpoint,
        }
    }
}

/// An error and everything below it in one sentence.
pub(crate) fn sentence(error: &(dyn Error + 'static)) -> String {
    chain(error).join(": ")
}

/// The texts of an error and of everything below it; a text that the one above already says is left out.
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

macro_rules! error_codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $number:literal => $exit:ident;)+) => {
        /// What went wrong, as a number that documentation and searches can use: `BERTH-E0102`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ErrorCode {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl ErrorCode {
            /// Every code, in numeric order.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$variant,)+];

            /// The number after `BERTH-E`.
            #[must_use]
            pub const fn number(self) -> u16 {
                match self { $(ErrorCode::$variant => $number,)+ }
            }

            /// How a process ends that failed so.
            #[must_use]
            pub const fn exit(self) -> ExitCode {
                match self { $(ErrorCode::$variant => ExitCode::$exit,)+ }
            }

            /// One sentence for the documentation.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(ErrorCode::$variant => concat!($($doc, "\n"),+).trim(),)+ }
            }
        }
    };
}

error_codes! {
    /// The command line is wrong.
    Usage = 1 => Usage;
    /// A bug: a state its authors thought impossible.
    Bug = 2 => Bug;
    /// The output could not be written.
    Output = 3 => Disk;
    /// A file could not be written or read.
    File = 4 => Disk;
    /// What was asked for does not exist, or a rule forbids it.
    Refused = 5 => Refused;

    /// A configuration file is not TOML.
    Syntax = 101 => Configuration;
    /// No option or section has this name.
    UnknownKey = 102 => Configuration;
    /// OpenStack has the option, this version of berth does not read it.
    NotYet = 103 => Configuration;
    /// A value has the wrong type.
    WrongType = 104 => Configuration;
    /// A value is of the right type but not allowed.
    BadValue = 105 => Configuration;
    /// A configuration file cannot be read.
    Unreadable = 106 => Configuration;
    /// An option that others make necessary is not set.
    Missing = 107 => Configuration;
    /// Two options contradict each other.
    Contradiction = 108 => Configuration;
    /// Something in the configuration is lawful but probably not meant; refused only with `--deny-warnings`.
    Doubtful = 109 => Configuration;

    /// The agent's admin socket does not answer.
    AgentAway = 201 => Unavailable;
    /// The agent's answer is not understood.
    AgentAnswer = 202 => Unavailable;

    /// A service needed did not answer before the deadline.
    Unavailable = 301 => Unavailable;
    /// A service refused the credentials.
    Unauthorized = 302 => Configuration;
    /// Another process holds what this one needs.
    Held = 303 => Held;
    /// The state on disk is damaged or cannot be written.
    State = 304 => Disk;
    /// The compute node's identity does not match what Placement or the state directory says.
    Identity = 305 => Configuration;
    /// The driver refused to start with this configuration.
    Driver = 306 => Configuration;
    /// The account may not do this in Placement: its role is missing, or Placement's policy asks for more.
    Forbidden = 307 => Configuration;
    /// Placement does not speak the microversion that berth needs.
    Microversion = 308 => Configuration;
    /// What answers at a service's URL does not answer as that service, or the catalog has no such URL.
    Endpoint = 309 => Configuration;
    /// Placement does not accept a request as berth makes it (400); the unit starts the agent again.
    RequestRefused = 310 => Unavailable;
    /// A journal or a database was written by another release, and this one cannot use it.
    OtherRelease = 311 => Configuration;

    /// A reshape is needed, which is lawful only at start.
    ReshapeNeeded = 401 => ReshapeNeeded;
    /// A reshape was refused.
    ReshapeFailed = 402 => ReshapeFailed;

    /// `berth doctor` found a failure.
    Unfit = 501 => Configuration;
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BERTH-E{:04}", self.number())
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        let code = refused
            .problems()
            .first()
            .map_or(ErrorCode::BadValue, |problem| problem.code);
        Failure::new(code, refused.to_string().trim_end().to_owned())
            .mend("correct the lines named, then run: berth config check")
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
    fn error_numbers_are_distinct_and_ascending() {
        assert!(
            ErrorCode::ALL
                .windows(2)
                .all(|pair| pair[0].number() < pair[1].number())
        );
    }

    #[test]
    fn a_failure_without_a_mend_of_its_own_has_that_of_its_kind() {
        let away = Failure::new(ErrorCode::Unavailable, "Placement did not answer");
        assert!(
            away.explain()
                .contains("mend: see that the service named runs")
        );
        let own = away.mend("wait");
        assert!(own.explain().ends_with("mend: wait\n"));
        let driver = Failure::new(ErrorCode::Driver, "the machine file cannot be used");
        assert!(
            driver
                .explain()
                .contains("mend: berth doctor says what this host lacks")
        );
    }

    #[test]
    fn an_error_is_told_with_its_whole_chain_and_the_mend() {
        #[derive(Debug, thiserror::Error)]
        #[error("the lock file is not writable")]
        struct Outer(#[source] io::Error);

        let inner = io::Error::new(io::ErrorKind::StorageFull, "no space left");
        let failure = Failure::caused(ErrorCode::State, "cannot start", &Outer(inner))
            .mend("df -h /var/lib/berth");
        assert_eq!(
            failure.explain(),
            "[BERTH-E0304] cannot start\n  caused by: the lock file is not writable\n  caused by: no space left\n  \
             mend: df -h /var/lib/berth\n"
        );
        assert_eq!(failure.exit(), ExitCode::Disk);
    }
}
