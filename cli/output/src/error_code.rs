//! The `BERTH-E` numbers: what went wrong, as a number for documentation, searches and the exit code.
//!
//! A new kind of error is one row of `error_codes!`.

use std::fmt;

use crate::exit::ExitCode;

impl ErrorCode {
    /// The hint for most failures of this kind, used where the caller adds none.
    #[must_use]
    pub const fn usual_hint(self) -> Option<&'static str> {
        match self {
            ErrorCode::Unavailable | ErrorCode::Driver => Some("berth doctor"),
            _ => None,
        }
    }
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

            /// The exit code of a process that failed with this error.
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
    /// A bug: an unexpected internal state.
    Bug = 2 => Bug;
    /// The output could not be written.
    Output = 3 => Disk;
    /// A file could not be written or read.
    File = 4 => Disk;
    /// The object does not exist, or the request was rejected.
    Refused = 5 => Refused;

    /// A configuration file is not TOML.
    Syntax = 101 => Configuration;
    /// No option or section has this name.
    UnknownKey = 102 => Configuration;
    /// OpenStack has this option, but this version of Berth does not read it.
    NotYet = 103 => Configuration;
    /// A value has the wrong type.
    WrongType = 104 => Configuration;
    /// A value has the right type but is not allowed.
    BadValue = 105 => Configuration;
    /// A configuration file cannot be read.
    Unreadable = 106 => Configuration;
    /// An option that other options require is not set.
    Missing = 107 => Configuration;
    /// Two options contradict each other.
    Contradiction = 108 => Configuration;
    /// Something in the configuration is valid but probably not intended; rejected only with `--deny-warnings`.
    Doubtful = 109 => Configuration;
    /// Other users can change a file that is executed or that decides rights, or a folder of state.
    Untrusted = 110 => Configuration;

    /// The agent's admin socket does not answer.
    AgentAway = 201 => Unavailable;
    /// The agent's response is invalid.
    AgentAnswer = 202 => Unavailable;

    /// A required service did not answer before the deadline.
    Unavailable = 301 => Unavailable;
    /// A service rejected the credentials.
    Unauthorized = 302 => Configuration;
    /// Another process uses what this one needs.
    Held = 303 => Held;
    /// The state on disk is damaged or cannot be written.
    State = 304 => Disk;
    /// The compute node's identity does not match what Placement or the state directory says.
    Identity = 305 => Configuration;
    /// The driver refused to start with this configuration.
    Driver = 306 => Configuration;
    /// The account lacks permission in Placement: a role is missing, or Placement's policy requires more.
    Forbidden = 307 => Configuration;
    /// Placement does not support the microversion that Berth needs.
    Microversion = 308 => Configuration;
    /// The URL of a service leads to something else, or the catalog has no URL for the service.
    Endpoint = 309 => Configuration;
    /// Placement rejected a request as invalid (400); the unit restarts the agent.
    RequestRefused = 310 => Unavailable;
    /// A journal or a database was written by another release, and this one cannot use it.
    OtherRelease = 311 => Configuration;

    /// A reshape is needed, which is done only at a start.
    ReshapeNeeded = 401 => ReshapeNeeded;
    /// A reshape was rejected.
    ReshapeFailed = 402 => ReshapeFailed;

    /// `berth doctor` found a failure.
    Unfit = 501 => Configuration;
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BERTH-E{:04}", self.number())
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
}
