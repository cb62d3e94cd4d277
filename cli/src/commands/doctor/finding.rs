//! The types of a doctor check and of its result, and the function that runs all checks.

use berth_config::{ConfigRefusal, LoadedConfig};

use crate::commands::doctor::facts::HostReader;
use crate::commands::doctor::placement_observation::PlacementObservation;

/// One question about the host.
#[derive(Debug, Clone, Copy)]
pub struct DoctorCheck {
    /// Its name in output and documentation; names are never reused.
    pub code: &'static str,
    /// A sentence that is true on a good host.
    pub title: &'static str,
    /// How serious a bad result is.
    pub severity: CheckSeverity,
    /// Checks that explain this one with a bad result: it is then skipped.
    pub depends_on: &'static [&'static str],
    pub run: fn(&CheckContext<'_>) -> CheckResult,
}

/// How serious a bad result is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckSeverity {
    /// The node cannot work.
    Failure,
    /// The node works, but something is probably unintended.
    Warning,
}

/// The inputs of a check.
#[derive(Clone, Copy)]
pub struct CheckContext<'a> {
    pub facts: &'a dyn HostReader,
    /// The configuration, or why it is invalid.
    pub config: Result<&'a LoadedConfig, &'a ConfigRefusal>,
    /// The command that checks this configuration.
    pub check_command: &'a str,
    pub placement: &'a PlacementObservation,
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckResult {
    /// The host is as it should be; the text is the evidence: the path and the value read.
    Good(String),
    /// The host is not as it should be.
    Bad {
        /// The path and the value read.
        evidence: String,
        /// What to do, best as a command.
        hint: String,
    },
    /// The check does not apply to this host; the text says why.
    NotAsked(String),
}

impl CheckResult {
    pub fn good(evidence: impl Into<String>) -> Self {
        CheckResult::Good(evidence.into())
    }

    /// A bad result with its evidence and hint.
    pub fn bad(evidence: impl Into<String>, hint: impl Into<String>) -> Self {
        CheckResult::Bad {
            evidence: evidence.into(),
            hint: hint.into(),
        }
    }

    /// A check that does not apply, with the reason.
    pub fn not_asked(why: impl Into<String>) -> Self {
        CheckResult::NotAsked(why.into())
    }
}

/// The status of a finished check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The host passed the check.
    Ok,
    /// A bad result that is only a warning.
    Warning,
    Failure,
    /// The check did not run: it does not apply, or another finding explains it.
    Skipped,
}

impl Status {
    /// The status as it is printed.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Warning => "warning",
            Status::Failure => "failure",
            Status::Skipped => "skipped",
        }
    }
}

/// A check with its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckReport {
    pub code: &'static str,
    pub title: &'static str,
    pub status: Status,
    /// The path and the value read, or why the check did not run.
    pub evidence: String,
    /// What to do; empty unless bad.
    pub hint: String,
}

/// Runs the checks in order; a check that depends on a bad or skipped one is skipped.
#[must_use]
pub fn examine(checks: &[DoctorCheck], host: &CheckContext<'_>) -> Vec<CheckReport> {
    let mut findings: Vec<CheckReport> = Vec::with_capacity(checks.len());
    let mut blocked: Vec<&'static str> = Vec::new();
    for check in checks {
        let cause = check.depends_on.iter().find(|code| blocked.contains(code));
        let (status, evidence, hint) = match cause {
            Some(cause) => (
                Status::Skipped,
                format!("because of {cause}"),
                String::new(),
            ),
            None => match (check.run)(host) {
                CheckResult::Good(evidence) => (Status::Ok, evidence, String::new()),
                CheckResult::NotAsked(why) => (Status::Skipped, why, String::new()),
                CheckResult::Bad { evidence, hint } if check.severity == CheckSeverity::Failure => {
                    (Status::Failure, evidence, hint)
                }
                CheckResult::Bad { evidence, hint } => (Status::Warning, evidence, hint),
            },
        };
        if cause.is_some() || matches!(status, Status::Failure | Status::Warning) {
            blocked.push(check.code);
        }
        findings.push(CheckReport {
            code: check.code,
            title: check.title,
            status,
            evidence,
            hint,
        });
    }
    findings
}
