//! Scheduler cases: the filter scheduler on a request and hosts from a JSON file, without a cloud.
//!
//! A case has a request for servers, the hosts to choose from, and scheduler options. A case file has a list of cases and
//! their `kind`, which says what part of the scheduler runs. `docs/guide/reference/scheduler-cases.md` describes the
//! format.
//!
//! | entry | command | what it does |
//! |---|---|---|
//! | [`DryRunCase`] | `berth scheduler explain` | runs one case and explains the decision; options have Berth's defaults |
//! | [`replay`] | `berth scheduler replay` | runs all cases of a file, to compare the results with Nova's |
//! | [`hosts_and_request`] | none | reads a case for benchmarks and tests |
//!
//! | module | contents |
//! |---|---|
//! | `case` | one case: its options, hosts and request |
//! | `dry_run`, `what_if` | `explain`, and the changes to a case that its arguments make |
//! | `golden` | `replay`, one module per kind of case |
//! | `allowed_keys` | refuses unknown keys |
//! | `claim_failures` | the claims that the simulated Placement refuses |
//! | `large_numbers` | replaces numbers beyond 64 bits |
//!
//! By default, [`replay`] behaves as Nova in two points: it tries one allocation candidate per host, and does not
//! compare `hw_maxphysaddr_bits`. It is behind the feature `replay`, which packages do not build.

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

use berth_scheduler_objects::from_json::{CaseField, CaseRequestError, FieldError};
use berth_scheduler_objects::host_state::ConsideredHost;
use berth_scheduler_objects::request::RequestSpec;
use case::SchedulerCase;

pub use dry_run::{CaseDryRun, DryRunCase, DryRunError};
#[cfg(feature = "replay")]
pub use golden::replay;
pub use what_if::{WhatIf, WhatIfError};

/// The value of the key `schema` in a case file.
pub const SCHEMA: &str = "sched-golden/1";

/// Why a case file cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum CaseFileError {
    /// The file could not be read.
    #[error("the cases cannot be read: {0}")]
    Read(#[source] io::Error),
    /// The file is not JSON.
    #[error("the cases are not valid JSON: {0}")]
    NotJson(#[source] serde_json::Error),
    /// A field is wrong: a field of the file outside of its cases, or an option of the only case that runs.
    #[error("{0}")]
    Field(FieldError),
    /// A field of a case is wrong.
    #[error("case {id}: {error}")]
    Case {
        /// The `id` of the case; `number INDEX` if it has none.
        id: String,
        error: FieldError,
    },
    /// The results could not be written.
    #[error("the results cannot be written: {0}")]
    Write(#[source] io::Error),
}

/// The part of the scheduler that the cases of a file run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CaseKind {
    /// One filter, on each host.
    Filter,
    /// The normalization of raw weights.
    Normalize,
    /// The comparison of a value with an extra spec's requirement, such as `>= 5`.
    Ops,
    /// All filters and weighers, for one instance.
    Pipeline,
    /// The query to Placement.
    PlacementQuery,
    /// All filters and weighers, and the claims in Placement, for one or more instances.
    Schedule,
    /// One weigher, on each host.
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
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, kind)| *kind).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|(known, _)| *known).collect();
            field.expected(format!("one of {}", names.join(", ")))
        })
    }
}

/// Reads the hosts and the request of a case, for benchmarks and tests.
pub fn hosts_and_request(
    case: &Value,
) -> Result<(Vec<ConsideredHost>, RequestSpec), CaseFileError> {
    let field = CaseField::root(case);
    let read = || {
        let case = SchedulerCase::read(&field)?;
        Ok((case.hosts()?, case.request()?))
    };
    read().map_err(|error| {
        let error = match error {
            CaseRequestError::Field(error) => error,
            CaseRequestError::Refused(problem) => FieldError {
                path: "request".to_owned(),
                problem,
            },
        };
        case_error(0, &field, error)
    })
}

/// The text without a byte order mark, which some editors write at the start of a file.
pub(crate) fn without_byte_order_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// The kind of a file's cases, and the cases.
fn kind_and_cases<'a>(file: &CaseField<'a>) -> Result<(CaseKind, Vec<CaseField<'a>>), FieldError> {
    let schema = file.required("schema")?;
    if schema.text()? != SCHEMA {
        return Err(schema.expected(format!("`{SCHEMA}`")));
    }
    let kind = CaseKind::read(&file.required("kind")?)?;
    let cases = file.required("cases")?.items()?;
    // Errors name a case by its id, so the paths of its fields begin at the case.
    let cases = cases.iter().map(|case| CaseField::root(case.value()));
    Ok((kind, cases.collect()))
}

/// The error of a field of the case at this index of the file.
fn case_error(index: usize, case: &CaseField<'_>, error: FieldError) -> CaseFileError {
    let id = case.optional("id", |id| id.text().map(str::to_owned));
    let id = id.ok().flatten();
    CaseFileError::Case {
        id: id.unwrap_or_else(|| format!("number {index}")),
        error,
    }
}
