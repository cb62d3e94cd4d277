//! Finds mistakes in flavors, aggregates, device profiles, images and server groups before a request uses them.
//!
//! Nova accepts most of them silently: a misspelt extra spec has no effect, `>=8` without a blank is compared as text, an invalid
//! multiplier is ignored. Each finding says where the mistake is, what it is, and what would be right. Caller: `berth scheduler lint`.

mod aggregates;
mod catalogue;
mod enabled;
mod extra_specs;
mod images;
mod profiles;
mod requirement;
mod server_groups;

use std::fmt::{self, Display, Formatter};

use berth_scheduler::options::SchedulerOptions;
use serde::{Deserialize, Serialize};

use enabled::EnabledFeatures;

pub use catalogue::{
    AggregateEntry, Catalogue, CatalogueError, DeviceProfileEntry, FlavorEntry, ImageEntry,
    ServerGroupEntry,
};

/// A problem, certain or suspected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LintFinding {
    pub severity: LintSeverity,
    pub code: LintCode,
    pub place: LintSubject,
    /// What is wrong, without the subject.
    pub text: String,
    /// What would be right, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// How bad a finding is, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LintSeverity {
    /// It does not work: no guest can be placed with it, or it has no reader.
    Error,
    Warning,
    /// It has no effect, but is harmless.
    Note,
}

/// The kind of a finding: a fixed vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LintCode {
    /// No extra spec, key or property has this name.
    UnknownName,
    /// An operator and its operand without a blank between them.
    GluedOperator,
    /// `>` or `<`, which are not operators.
    NoSuchOperator,
    /// An operator with a missing or unsuitable operand.
    BadOperand,
    /// Text that is ignored.
    IdleWords,
    BadValue,
    /// A key without a scope, which two filters read.
    Unscoped,
    /// A demand that nothing in the file meets.
    NeverMet,
    /// A known name that no enabled filter or weigher reads.
    Unread,
    /// An invalid number in an aggregate, so that no aggregate of the host overrides the option.
    VoidOverride,
    /// Several units of a device class that has one unit per provider.
    OneUnitDevices,
    /// Hosts refuse it, so each request with it is refused.
    Unsupported,
}

/// The subject of a finding.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LintSubject {
    pub kind: LintSubjectKind,
    /// Its name; of an option its group.
    pub name: String,
    /// The key, property or option; `None` if it concerns the whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// The kind of subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LintSubjectKind {
    Flavor,
    Aggregate,
    DeviceProfile,
    Image,
    ServerGroup,
    /// An option of the scheduler.
    Option,
}

/// All findings, by subject, in the order of the file.
#[must_use]
pub fn lint(catalogue: &Catalogue) -> Vec<LintFinding> {
    let enabled = EnabledFeatures::of(&catalogue.options);
    let mut all = Vec::new();
    for flavor in &catalogue.flavors {
        extra_specs::lint(flavor, catalogue, &enabled, &mut all);
    }
    for aggregate in &catalogue.aggregates {
        aggregates::lint(aggregate, catalogue, &enabled, &mut all);
    }
    for profile in &catalogue.device_profiles {
        profiles::lint(profile, &mut all);
    }
    for image in &catalogue.images {
        images::lint(image, &mut all);
    }
    for group in &catalogue.server_groups {
        server_groups::lint(group, &enabled, &mut all);
    }
    all.extend(few_candidates(catalogue));
    all
}

/// The limit of the query to Placement is lower than the number of hosts in the file.
fn few_candidates(catalogue: &Catalogue) -> Option<LintFinding> {
    let hosts = catalogue.hosts?;
    let limit = catalogue.options.scheduler.max_placement_results;
    let place = LintSubject::new(
        LintSubjectKind::Option,
        "scheduler",
        "max_placement_results",
    );
    let text = format!(
        "of {hosts} hosts {limit} at most are looked at for a request, so one that fits may not be found"
    );
    (limit < hosts).then(|| {
        let found = place.finds(LintSeverity::Note, LintCode::BadValue, text);
        found.hint(format!("{hosts} at least"))
    })
}

/// The first unknown extra spec of a flavor that is misspelt.
#[must_use]
pub fn misspelt(
    extra_specs: &[(String, String)],
    options: &SchedulerOptions,
) -> Option<LintFinding> {
    let flavor = FlavorEntry {
        name: String::new(),
        vcpus: None,
        memory_mb: None,
        swap: 0,
        extra_specs: extra_specs.iter().cloned().collect(),
    };
    let enabled = EnabledFeatures::of(options);
    let mut findings = Vec::new();
    extra_specs::lint(&flavor, &Catalogue::default(), &enabled, &mut findings);
    findings.into_iter().find(|it| {
        it.code == LintCode::UnknownName
            && (it.severity == LintSeverity::Error || it.hint.is_some())
    })
}

impl LintSubject {
    fn new(kind: LintSubjectKind, name: &str, key: &str) -> Self {
        Self {
            kind,
            name: name.to_owned(),
            key: Some(key.to_owned()),
        }
    }

    fn finds(
        &self,
        severity: LintSeverity,
        code: LintCode,
        text: impl Into<String>,
    ) -> LintFinding {
        LintFinding {
            severity,
            code,
            place: self.clone(),
            text: text.into(),
            hint: None,
        }
    }
}

impl LintFinding {
    fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }

    /// Adds a similar name.
    fn near(self, name: Option<&str>) -> Self {
        match name {
            Some(name) => self.hint(name),
            None => self,
        }
    }
}

/// `error: flavor m1.large, hw:cpu_polcy: no extra spec has this name; right would be: hw:cpu_policy`
impl Display for LintFinding {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.severity, self.place, self.text)?;
        match &self.hint {
            None => Ok(()),
            Some(hint) => write!(f, "; right would be: {hint}"),
        }
    }
}

impl Display for LintSeverity {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}

impl Display for LintSubject {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.kind {
            LintSubjectKind::Flavor => write!(f, "flavor {}", self.name)?,
            LintSubjectKind::Aggregate => write!(f, "aggregate {}", self.name)?,
            LintSubjectKind::DeviceProfile => write!(f, "device profile {}", self.name)?,
            LintSubjectKind::Image => write!(f, "image {}", self.name)?,
            LintSubjectKind::ServerGroup => write!(f, "server group {}", self.name)?,
            LintSubjectKind::Option => write!(f, "option [{}]", self.name)?,
        }
        match (&self.key, self.kind) {
            (None, _) => Ok(()),
            (Some(key), LintSubjectKind::Option) => write!(f, " {key}"),
            (Some(key), _) => write!(f, ", {key}"),
        }
    }
}

#[cfg(test)]
mod tests;
