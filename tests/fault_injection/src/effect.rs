//! Effects: the actions that cross a boundary of the process, and how they end.

use std::borrow::Cow;
use std::fmt;

/// Where an effect leaves the process. There is no other way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Boundary {
    /// A request to a service, over a socket or in process.
    Http,
    /// A call of the virt driver.
    Driver,
    /// A read or write below a sysfs root.
    Sysfs,
    /// A file of the state directory, or a journal.
    Store,
    /// A transaction of a database that other processes use as well, on a server of its own or on this one's disk.
    Database,
}

impl Boundary {
    pub const ALL: [Boundary; 5] = [
        Boundary::Http,
        Boundary::Driver,
        Boundary::Sysfs,
        Boundary::Store,
        Boundary::Database,
    ];

    /// The name in traces.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Boundary::Http => "http",
            Boundary::Driver => "driver",
            Boundary::Sysfs => "sysfs",
            Boundary::Store => "store",
            Boundary::Database => "database",
        }
    }
}

impl fmt::Display for Boundary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Whether an effect can change anything on the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EffectKind {
    Read,
    /// It may change something.
    Write,
}

/// One effect about to happen: the unit that is traced, counted and failed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Effect {
    pub boundary: Boundary,
    pub kind: EffectKind,
    /// What is done: a template without identifiers: `GET /resource_providers/{uuid}/inventories`, `observe`.
    pub operation: Cow<'static, str>,
    /// The object, by a name that is the same in every run; empty if the operation is enough.
    pub subject: String,
}

impl Effect {
    #[must_use]
    pub fn read(
        boundary: Boundary,
        operation: impl Into<Cow<'static, str>>,
        subject: impl Into<String>,
    ) -> Self {
        Self {
            boundary,
            kind: EffectKind::Read,
            operation: operation.into(),
            subject: subject.into(),
        }
    }

    #[must_use]
    pub fn write(
        boundary: Boundary,
        operation: impl Into<Cow<'static, str>>,
        subject: impl Into<String>,
    ) -> Self {
        Self {
            kind: EffectKind::Write,
            ..Self::read(boundary, operation, subject)
        }
    }
}

impl fmt::Display for Effect {
    /// `http PUT /resource_providers/{uuid}/inventories gpu-01`. Traces and reports are made of it: do not change.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.boundary, self.operation)?;
        if self.subject.is_empty() {
            Ok(())
        } else {
            write!(f, " {}", self.subject)
        }
    }
}

/// Before or after the effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EffectPhase {
    /// Nothing has happened yet.
    Before,
    /// The effect has happened, and the caller does not know it yet.
    After,
}

impl fmt::Display for EffectPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            EffectPhase::Before => "before",
            EffectPhase::After => "after",
        })
    }
}

/// How an effect ended, in a short text that is the same in every run. Never contains a secret or a whole body.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EffectOutcome {
    /// The other side did it: `204`, `3 guests`.
    Done(String),
    /// The other side refused, or the outcome is unknown: `409 placement.concurrent_update`, `timed out`.
    Failed(String),
}

impl fmt::Display for EffectOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EffectOutcome::Done(answer) => write!(f, "done {answer}"),
            EffectOutcome::Failed(reason) => write!(f, "failed {reason}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effect_shows_its_boundary_operation_and_subject() {
        let effect = Effect::write(Boundary::Http, "POST /reshaper", "");
        assert_eq!(effect.to_string(), "http POST /reshaper");
        let effect = Effect::read(Boundary::Store, "read", "compute_id");
        assert_eq!(effect.to_string(), "store read compute_id");
        assert_eq!(effect.kind, EffectKind::Read);
    }
}
