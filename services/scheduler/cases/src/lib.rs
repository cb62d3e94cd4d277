//! Files of cases (schema `sched-golden/1`): a kind, a subject, and cases with hosts, a request and options.
//!
//! `berth scheduler explain` runs one case ([`DryRunCase`]); `berth scheduler replay` answers all of them ([`replay`],
//! feature `replay`). Replay works as Nova does: it tries one candidate per host, normalises weights as Nova, and
//! breaks ties by the order of the hosts.

mod allowed_keys;
mod case;
mod claim_failures;
mod dry_run;
#[cfg(feature = "replay")]
mod golden;
mod large_numbers;
mod what_if;

use std::io;

use serde_json::Value;

use berth_scheduler_objects::from_json::CaseRequestError;
use berth_scheduler_objects::from_json::{CaseField, FieldError};
use berth_scheduler_objects::host_state::ConsideredHost;
use berth_scheduler_objects::request::RequestSpec;
use case::ReplayCase;

pub use dry_run::{CaseDryRun, DryRunCase, DryRunError};
#[cfg(feature = "replay")]
pub use golden::replay;
pub use what_if::{WhatIf, WhatIfError};

/// The schema of the files that are read here.
pub const SCHEMA: &str = "sched-golden/1";

/// A file that cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The file could not be read.
    #[error("the cases cannot be read: {0}")]
    Read(#[source] io::Error),
    /// The file is not JSON.
    #[error("the cases are not valid JSON: {0}")]
    NotJson(#[source] serde_json::Error),
    /// Something outside of the cases is wrong.
    #[error("{0}")]
    File(FieldError),
    /// A case is wrong.
    #[error("case {id}: {error}")]
    Case {
        /// Its `id`, or its index in the file if it has none.
        id: String,
        error: FieldError,
    },
    /// The answers could not be written.
    #[error("the answers cannot be written: {0}")]
    Write(#[source] io::Error),
}

/// The kind of a file's cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CaseKind {
    Filter,
    Normalize,
    Ops,
    Pipeline,
    PlacementQuery,
    Schedule,
    Weigher,
}

impl CaseKind {
    const ALL: &'static [(&'static str, Self)] = &[
        ("filter", Self::Filter),
        ("normalize", Self::Normalize),
        ("ops", Self::Ops),
        ("pipeline", Self::Pipeline),
        ("placement_query", Self::PlacementQuery),
        ("schedule", Self::Schedule),
        ("weigher", Self::Weigher),
    ];

    fn read(field: &CaseField<'_>) -> Result<Self, FieldError> {
        let name = field.text()?;
        let found = Self::ALL.iter().find(|(it, _)| *it == name);
        found.map(|(_, kind)| *kind).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|(it, _)| *it).collect();
            field.should_be(format!("one of {}", names.join(", ")))
        })
    }
}

/// The hosts and the request of a case, for benchmarks and tests.
pub fn scene(case: &Value) -> Result<(Vec<ConsideredHost>, RequestSpec), ReplayError> {
    let field = CaseField::root(case);
    let read = || {
        let case = ReplayCase::read(&field)?;
        Ok((case.hosts()?, case.request()?))
    };
    read().map_err(|error| match error {
        CaseRequestError::Field(error) => wrong(0, &field, error),
        CaseRequestError::Refused(wrong) => ReplayError::File(FieldError {
            path: "request".to_owned(),
            wrong,
        }),
    })
}

/// The text without a byte order mark, which some editors write.
pub(crate) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// The kind, and the cases.
fn head<'a>(file: &CaseField<'a>) -> Result<(CaseKind, Vec<CaseField<'a>>), FieldError> {
    let schema = file.needed("schema")?;
    if schema.text()? != SCHEMA {
        return Err(schema.should_be(format!("`{SCHEMA}`")));
    }
    let kind = CaseKind::read(&file.needed("kind")?)?;
    let cases = file.needed("cases")?.items()?;
    let rooted = cases.iter().map(|case| CaseField::root(case.value()));
    Ok((kind, rooted.collect()))
}

fn wrong(place: usize, case: &CaseField<'_>, error: FieldError) -> ReplayError {
    let id = case.maybe("id", |it| it.text().map(str::to_owned));
    ReplayError::Case {
        id: id
            .ok()
            .flatten()
            .unwrap_or_else(|| format!("number {place}")),
        error,
    }
}
