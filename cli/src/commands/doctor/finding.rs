//! A check, and what it found.

use berth_config::LoadedConfig;

use crate::commands::doctor::facts::HostReader;
use crate::commands::doctor::placement_observation::PlacementObservation;

/// One question about the host.
#[derive(Debug, Clone, Copy)]
pub struct DoctorCheck {
    /// Its name in output and documentation; never reused.
    pub code: &'static str,
    /// What it asks, as a sentence that is true on a good host.
    pub title: &'static str,
    /// How bad a bad answer is.
    pub severity: CheckSeverity,
    /// Checks whose bad answer explains this one's: it is skipped then.
    pub depends_on: &'static [&'static str],
    pub look: fn(&CheckContext<'_>) -> CheckResult,
}

/// How bad a bad answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckSeverity {
    /// The node cannot do its work.
    Failure,
    /// The node works, but something is probably not meant so.
    Warning,
}

/// What a check has to look at.
#[derive(Clone, Copy)]
pub struct CheckContext<'a> {
    pub facts: &'a dyn HostReader,
    /// The configuration, or why it is refused.
    pub config: Result<&'a LoadedConfig, &'a str>,
    pub placement: &'a PlacementObservation,
}

/// What a check saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckResult {
    /// As it should be; the text is the evidence: path and value read.
    Good(String),
    /// Not as it should be.
    Bad {
        /// Path and value read.
        evidence: String,
        /// What to do, best as a command.
        mend: String,
    },
    /// The question does not arise on this host; the text says why.
    NotAsked(String),
}

impl CheckResult {
    pub fn good(evidence: impl Into<String>) -> Self {
        CheckResult::Good(evidence.into())
    }

    /// Bad, with evidence and mend.
    pub fn bad(evidence: impl Into<String>, mend: impl Into<String>) -> Self {
        CheckResult::Bad {
            evidence: evidence.into(),
            mend: mend.into(),
        }
    }

    /// Not asked, with the reason.
    pub fn not_asked(why: impl Into<String>) -> Self {
        CheckResult::NotAsked(why.into())
    }
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// As it should be.
    Ok,
    /// Bad, and only a warning.
    Warning,
    Failure,
    /// Not looked at: it does not arise, or another finding explains it.
    Skipped,
}

impl Status {
    /// As it is printed.
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

/// A check with what it found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckReport {
    pub code: &'static str,
    pub title: &'static str,
    pub status: Status,
    /// Path and value read, or why it was not looked at.
    pub evidence: String,
    /// What to do; empty unless bad.
    pub mend: String,
}

/// Runs the checks in order; one that depends on a bad or unanswered one is skipped.
#[must_use]
pub fn examine(checks: &[DoctorCheck], host: &CheckContext<'_>) -> Vec<CheckReport> {
    let mut findings: Vec<CheckReport> = Vec::with_capacity(checks.len());
    let mut blocked: Vec<&'static str> = Vec::new();
    for check in checks {
        let cause = check.depends_on.iter().find(|code| blocked.contains(code));
        let (status, evidence, mend) = match cause {
            Some(cause) => (
                Status::Skipped,
                format!("because of {cause}"),
                String::new(),
            ),
            None => match (check.look)(host) {
                CheckResult::Good(evidence) => (Status::Ok, evidence, String::new()),
                CheckResult::NotAsked(why) => (Status::Skipped, why, String::new()),
                CheckResult::Bad { evidence, mend } if check.severity == CheckSeverity::Failure => {
                    (Status::Failure, evidence, mend)
                }
                CheckResult::Bad { evidence, mend } => (Status::Warning, evidence, mend),
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
            mend,
        });
    }
    findings
}
