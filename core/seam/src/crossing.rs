//! What an effect says about itself.

use std::borrow::Cow;
use std::fmt;

/// Where an effect leaves the process. There is no sixth way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Seam {
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

impl Seam {
    pub const ALL: [Seam; 5] = [
        Seam::Http,
        Seam::Driver,
        Seam::Sysfs,
        Seam::Store,
        Seam::Database,
    ];

    /// The word used in traces.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Seam::Http => "http",
            Seam::Driver => "driver",
            Seam::Sysfs => "sysfs",
            Seam::Store => "store",
            Seam::Database => "database",
        }
    }
}

impl fmt::Display for Seam {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Whether a crossing can change anything on the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    Read,
    /// It may change something.
    Write,
}

/// One effect about to happen: the unit that is traced, counted and failed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Crossing {
    pub seam: Seam,
    /// Whether it looks or changes.
    pub effect: Effect,
    /// What is done, as a template without identifiers: `GET /resource_providers/{uuid}/inventories`, `observe`.
    pub operation: Cow<'static, str>,
    /// On what, in words that are the same in every run; empty where the operation says it all.
    pub subject: String,
}

impl Crossing {
    /// A crossing that only looks.
    #[must_use]
    pub fn read(
        seam: Seam,
        operation: impl Into<Cow<'static, str>>,
        subject: impl Into<String>,
    ) -> Self {
        Self {
            seam,
            effect: Effect::Read,
            operation: operation.into(),
            subject: subject.into(),
        }
    }

    /// A crossing that may change something.
    #[must_use]
    pub fn write(
        seam: Seam,
        operation: impl Into<Cow<'static, str>>,
        subject: impl Into<String>,
    ) -> Self {
        Self {
            effect: Effect::Write,
            ..Self::read(seam, operation, subject)
        }
    }
}

impl fmt::Display for Crossing {
    /// `http PUT /resource_providers/{uuid}/inventories gpu-01`. Traces and reports are made of it: do not change.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.seam, self.operation)?;
        if self.subject.is_empty() {
            Ok(())
        } else {
            write!(f, " {}", self.subject)
        }
    }
}

/// On which side of the effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Moment {
    /// Nothing has happened yet.
    Before,
    /// It has happened, the caller does not know it yet.
    After,
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Moment::Before => "before",
            Moment::After => "after",
        })
    }
}

/// How an effect ended, in a few stable words. Never holds a secret or a whole body.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EffectEnd {
    /// The other side did it: `204`, `3 guests`.
    Done(String),
    /// The other side did not, or it is not known: `409 placement.concurrent_update`, `timed out`.
    Failed(String),
}

impl fmt::Display for EffectEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EffectEnd::Done(answer) => write!(f, "done {answer}"),
            EffectEnd::Failed(reason) => write!(f, "failed {reason}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crossing_shows_seam_operation_and_subject() {
        let crossing = Crossing::write(Seam::Http, "POST /reshaper", "");
        assert_eq!(crossing.to_string(), "http POST /reshaper");
        let crossing = Crossing::read(Seam::Store, "read", "compute_id");
        assert_eq!(crossing.to_string(), "store read compute_id");
        assert_eq!(crossing.effect, Effect::Read);
    }
}
