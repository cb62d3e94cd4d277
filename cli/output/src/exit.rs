//! Every exit code of `berth`, in one place: scripts and the unit file (`RestartPreventExitStatus=`) branch on them.
//!
//! Errors reach a code only through [`ErrorCode::exit`](crate::ErrorCode::exit). The page `docs/guide/reference/exit-codes.md` is written
//! from this enum, and a test compares the two.

use std::fmt;

/// How a `berth` process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ExitCode {
    Done = 0,
    /// 1: refused by a rule, or the thing asked for does not exist.
    Refused = 1,
    /// 2: only with `--detailed-exitcode`: a plain update is pending.
    UpdatePending = 2,
    /// 64: the command line is wrong (`EX_USAGE`).
    Usage = 64,
    /// 69: a service needed was away until the deadline passed (`EX_UNAVAILABLE`).
    Unavailable = 69,
    /// 70: a bug in berth (`EX_SOFTWARE`).
    Bug = 70,
    /// 73: held by another process (`EX_CANTCREAT`).
    Held = 73,
    /// 74: a disk or file could not be read or written (`EX_IOERR`).
    Disk = 74,
    /// 75: a reshape is needed, which happens at the next start (`EX_TEMPFAIL`).
    ReshapeNeeded = 75,
    /// 76: the reshape was refused; an operator must act (`EX_PROTOCOL`).
    ReshapeFailed = 76,
    /// 78: the configuration, or the host as `berth doctor` sees it, is wrong (`EX_CONFIG`).
    Configuration = 78,
}

impl ExitCode {
    /// Every code, in numeric order.
    pub const ALL: [ExitCode; 11] = [
        ExitCode::Done,
        ExitCode::Refused,
        ExitCode::UpdatePending,
        ExitCode::Usage,
        ExitCode::Unavailable,
        ExitCode::Bug,
        ExitCode::Held,
        ExitCode::Disk,
        ExitCode::ReshapeNeeded,
        ExitCode::ReshapeFailed,
        ExitCode::Configuration,
    ];

    /// The exit status of the process.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Its row in the documented table.
    #[must_use]
    pub const fn meaning(self) -> ExitCodeMeaning {
        match self {
            ExitCode::Done => ExitCodeMeaning {
                name: "done",
                when: "The command succeeded. For `berth agent`: it was asked to stop and stopped cleanly.",
                next: "Nothing.",
            },
            ExitCode::Refused => ExitCodeMeaning {
                name: "refused or not found",
                when: "The request was rejected, or the named object does not exist. Nothing was changed.",
                next: "Read the message on standard error; it names the rule or the object.",
            },
            ExitCode::UpdatePending => ExitCodeMeaning {
                name: "update pending",
                when: "Only with `--detailed-exitcode`: an update without a reshape is pending.",
                next: "Nothing: the running agent sends the update.",
            },
            ExitCode::Usage => ExitCodeMeaning {
                name: "usage",
                when: "Unknown subcommand or option, or a missing or malformed argument.",
                next: "See `berth help` or `berth COMMAND --help`. The unit does not restart on it.",
            },
            ExitCode::Unavailable => ExitCodeMeaning {
                name: "dependency unavailable",
                when: "A service (Placement, Keystone, the agent) did not answer before `--deadline`; a running \
                       agent retries instead. Or Placement answered the agent's start with 400.",
                next: "`berth doctor` names the service; repeat when it is reachable. After 400 the unit \
                       restarts the agent.",
            },
            ExitCode::Bug => ExitCodeMeaning {
                name: "bug",
                when: "Berth reached an unexpected internal state.",
                next: "Report the message on standard error. The unit restarts.",
            },
            ExitCode::Held => ExitCodeMeaning {
                name: "held by another",
                when: "Another process uses what this one needs: the SQLite file, the state directory, an \
                       address; or a service is running during an offline upgrade.",
                next: "Stop the other process; the message names what it uses.",
            },
            ExitCode::Disk => ExitCodeMeaning {
                name: "disk",
                when: "A file could not be read or written: no space, an I/O error, a damaged state file.",
                next: "Free space or repair the disk; the message names the path.",
            },
            ExitCode::ReshapeNeeded => ExitCodeMeaning {
                name: "reshape needed",
                when: "A periodic cycle found that the provider tree must be reshaped, which is done only at a \
                       start. Also `berth reshape plan --detailed-exitcode`.",
                next: "Nothing: the unit restarts the agent, which then reshapes.",
            },
            ExitCode::ReshapeFailed => ExitCodeMeaning {
                name: "reshape failed",
                when: "A reshape was rejected by a rule or by Placement, or the role `service` is missing. \
                       Nothing was changed.",
                next: "The message names provider, class and consumer, or the role. Fix the cause and start the \
                       unit again; it does not restart by itself.",
            },
            ExitCode::Configuration => ExitCodeMeaning {
                name: "configuration",
                when: "The configuration was rejected, or `berth doctor` found a failure.",
                next: "`berth config check` lists every error with file, line and key. The unit does not restart on it.",
            },
        }
    }
}

impl fmt::Display for ExitCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.number(), self.meaning().name)
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        std::process::ExitCode::from(code.number())
    }
}

/// One row of the exit code table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExitCodeMeaning {
    /// A name of two or three words.
    pub name: &'static str,
    /// When a process exits with this code.
    pub when: &'static str,
    /// What an operator does next.
    pub next: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_distinct_and_ascending() {
        assert!(
            ExitCode::ALL
                .windows(2)
                .all(|pair| pair[0].number() < pair[1].number())
        );
    }
}
