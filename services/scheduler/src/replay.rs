//! Cases from a file, answered one by one: `berth scheduler replay`.
//!
//! A file (schema `sched-golden/1`) has a kind, a subject and cases: hosts and a request with the options under which they met. A
//! case goes the way a request goes, with the loop as Nova's is: one candidate per host is tried, weights are normalised as Nova
//! does, ties keep the order in which hosts come. Callers: `cli`, the example `replay`.

mod beyond;
mod case;
mod dry_run;
mod field;
mod filter;
mod host;
mod known;
mod ops;
mod pipeline;
mod placement_query;
mod request;
mod schedule;
#[cfg(test)]
pub(crate) mod testing;
mod weigher;
mod what_if;

use std::io::{self, Read, Write};

use serde_json::{Value, json};

use crate::host_state::ConsideredHost;
use crate::request::RequestSpec;
use case::{Case, CaseError};
use field::{Field, FieldError};

pub use dry_run::{DryRun, DryRunCase, DryRunError};
pub use what_if::{WhatIf, WhatIfError};

/// The schema of the files that are read here.
pub const SCHEMA: &str = "sched-golden/1";

/// A file that cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It could not be read.
    #[error("the cases cannot be read: {0}")]
    Read(#[source] io::Error),
    /// It is no JSON.
    #[error("the cases are no JSON: {0}")]
    NotJson(#[source] serde_json::Error),
    /// Something outside of the cases is wrong.
    #[error("{0}")]
    File(FieldError),
    /// A case is wrong.
    #[error("case {id}: {error}")]
    Case {
        /// Its `id`, or its place in the file where it has none.
        id: String,
        error: FieldError,
    },
    /// The answers could not be written.
    #[error("the answers cannot be written: {0}")]
    Write(#[source] io::Error),
}

/// What a file asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Filter,
    Normalize,
    Ops,
    Pipeline,
    PlacementQuery,
    Schedule,
    Weigher,
}

impl Kind {
    const ALL: &'static [(&'static str, Self)] = &[
        ("filter", Self::Filter),
        ("normalize", Self::Normalize),
        ("ops", Self::Ops),
        ("pipeline", Self::Pipeline),
        ("placement_query", Self::PlacementQuery),
        ("schedule", Self::Schedule),
        ("weigher", Self::Weigher),
    ];

    fn read(field: &Field<'_>) -> Result<Self, FieldError> {
        let name = field.text()?;
        let found = Self::ALL.iter().find(|(it, _)| *it == name);
        found.map(|(_, kind)| *kind).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|(it, _)| *it).collect();
            field.should_be(format!("one of {}", names.join(", ")))
        })
    }

    /// The answer to one case.
    fn answer(self, subject: &Field<'_>, case: &Case<'_>) -> Result<Value, CaseError> {
        match self {
            Self::Filter => filter::answer(subject, case),
            Self::Normalize => weigher::normalized(case),
            Self::Ops => ops::answer(case),
            Self::Pipeline => pipeline::answer(case),
            Self::PlacementQuery => placement_query::answer(case),
            Self::Schedule => schedule::answer(case),
            Self::Weigher => weigher::answer(subject, case),
        }
    }
}

/// Answers each case of `input` with a line of JSON, `{"id": ..., "result": {...}}`. A request that Nova's API would refuse is
/// answered with `request_error`.
///
/// # Errors
/// The file cannot be read, or something in it is not as it should be; cases before it are answered.
pub fn replay(mut input: impl Read, mut out: impl Write) -> Result<(), ReplayError> {
    let mut text = String::new();
    input.read_to_string(&mut text).map_err(ReplayError::Read)?;
    let file: Value = serde_json::from_str(&beyond::brought_in(without_mark(&text)))
        .map_err(ReplayError::NotJson)?;
    known::file(&file).map_err(ReplayError::File)?;
    let file = Field::root(&file);
    let (kind, cases) = head(&file).map_err(ReplayError::File)?;
    let subject = file.needed("subject").map_err(ReplayError::File)?;
    for (place, case) in cases.iter().enumerate() {
        known::case(case.value()).map_err(|error| wrong(place, case, error))?;
        let case = Case::read(case).map_err(|error| wrong(place, case, error))?;
        let result = match kind.answer(&subject, &case) {
            Ok(result) => result,
            Err(CaseError::Request(sentence)) => json!({ "request_error": sentence }),
            Err(CaseError::Field(error)) => return Err(wrong(place, &case.field, error)),
        };
        let line = json!({ "id": case.id, "result": result });
        writeln!(out, "{line}").map_err(ReplayError::Write)?;
    }
    out.flush().map_err(ReplayError::Write)
}

/// The hosts and the request of a case, for who goes his own way with them: the benchmark.
pub fn scene(case: &Value) -> Result<(Vec<ConsideredHost>, RequestSpec), ReplayError> {
    let field = Field::root(case);
    let read = || {
        let case = Case::read(&field)?;
        Ok((case.hosts()?, case.request()?))
    };
    read().map_err(|error| match error {
        CaseError::Field(error) => wrong(0, &field, error),
        CaseError::Request(wrong) => ReplayError::File(FieldError {
            path: "request".to_owned(),
            wrong,
        }),
    })
}

/// Without the mark of the order of bytes, which some editors write before a text.
pub(crate) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// The kind, and the cases.
fn head<'a>(file: &Field<'a>) -> Result<(Kind, Vec<Field<'a>>), FieldError> {
    let schema = file.needed("schema")?;
    if schema.text()? != SCHEMA {
        return Err(schema.should_be(format!("`{SCHEMA}`")));
    }
    let kind = Kind::read(&file.needed("kind")?)?;
    let cases = file.needed("cases")?.items()?;
    let rooted = cases.iter().map(|case| Field::root(case.value()));
    Ok((kind, rooted.collect()))
}

fn wrong(place: usize, case: &Field<'_>, error: FieldError) -> ReplayError {
    let id = case.maybe("id", |it| it.text().map(str::to_owned));
    ReplayError::Case {
        id: id
            .ok()
            .flatten()
            .unwrap_or_else(|| format!("number {place}")),
        error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(file: &Value) -> Result<Vec<Value>, ReplayError> {
        let mut out = Vec::new();
        replay(file.to_string().as_bytes(), &mut out)?;
        let lines = String::from_utf8(out).expect("JSON is UTF-8");
        Ok(lines
            .lines()
            .map(|line| serde_json::from_str(line).expect("each line is JSON"))
            .collect())
    }

    fn file(cases: &Value) -> Value {
        json!({"schema": SCHEMA, "kind": "filter", "subject": "NumInstancesFilter", "cases": cases})
    }

    #[test]
    fn each_case_is_answered_by_its_id() {
        let got = answers(&file(&json!([
            {"id": "a", "hosts": [{"num_instances": 1}, {"num_instances": 2}], "request": {},
             "config": {"filter_scheduler.max_instances_per_host": 2}},
            {"id": "b", "hosts": [], "request": {}},
        ])))
        .expect("a good file");
        assert_eq!(got[0]["id"], "a");
        assert_eq!(got[0]["result"]["pass"], json!([true, false]));
        assert_eq!(
            got[0]["result"]["reasons"],
            json!([null, {"code": "too_many_instances", "num_instances": 2, "max_instances_per_host": 2}])
        );
        assert_eq!(got[0]["result"]["surviving_candidates"], json!([[0], [0]]));
        assert_eq!(
            got[1],
            json!({"id": "b", "result": {
            "pass": [], "reasons": [], "surviving_candidates": [], "limits": [], "instance_numa": null}})
        );
    }

    #[test]
    fn the_guides_sample_is_answered() {
        let sample = include_str!("../../../docs/examples/scheduler/cases.json");
        let file: Value = serde_json::from_str(sample).expect("JSON");
        let got = answers(&file).expect("a good file");
        assert_eq!(got[0]["id"], "memory-first");
        assert_eq!(
            got[0]["result"]["per_filter"],
            json!([["ComputeFilter", 3, 2], ["RamFilter", 2, 2]])
        );
        assert_eq!(got[0]["result"]["order"], json!(["compute-2", "compute-1"]));
        assert!(DryRunCase::read(sample, None, &WhatIf::default()).is_ok());
        let request = include_str!("../../../docs/examples/scheduler/request.json");
        assert!(DryRunCase::read(request, None, &WhatIf::default()).is_ok());
    }

    #[test]
    fn a_bad_file_is_refused_by_case_and_field() {
        let with = |key: &str, value: Value| {
            let mut file = file(&json!([]));
            file[key] = value;
            file
        };
        for (file, sentence) in [
            (
                with("schema", json!("x")),
                "schema: should be `sched-golden/1`, and is \"x\"",
            ),
            (with("kind", json!("x")), "kind: should be one of "),
            (
                with("cases", json!({})),
                "cases: should be a list, and is an object",
            ),
            (
                file(&json!([{"hosts": []}])),
                "case number 0: id: is missing",
            ),
            (
                file(&json!([{"id": "a", "hosts": [{}, {"free_ram_mb": "1"}], "request": {}}])),
                "case a: hosts[1].free_ram_mb: should be a whole number, and is \"1\"",
            ),
            (
                file(&json!([{"id": "a", "hosts": [], "request": {"flavor": {"vcpus": 1.5}}}])),
                "case a: request.flavor.vcpus: should be a whole number, and is 1.5",
            ),
            (
                file(
                    &json!([{"id": "a", "hosts": [], "request": {}, "config": {"metrics.required": 1}}]),
                ),
                "case a: config: metrics.required: invalid type: integer `1`, expected a boolean",
            ),
            (
                file(&json!([{"id": "a", "hosts": [{"free_ram": 1}], "request": {}}])),
                "case a: hosts[0].free_ram: there is no such key; is free_ram_mb meant?",
            ),
            (
                with("subjects", json!("x")),
                "subjects: there is no such key; is subject meant?",
            ),
            (
                file(&json!([{"id": "a", "hosts": [{"host_ip": "300.1.1.1"}], "request": {}}])),
                "case a: hosts[0].host_ip: should be an IP address, and is \"300.1.1.1\"",
            ),
        ] {
            let error = answers(&file).expect_err(sentence).to_string();
            assert!(error.starts_with(sentence), "{error}");
        }
        let unknown = with("subject", json!("NoFilter"));
        let mut asked = unknown.clone();
        asked["cases"] = json!([{"id": "a", "hosts": [], "request": {}}]);
        let error = answers(&asked).expect_err("no such filter").to_string();
        assert!(error.contains("there is no filter NoFilter"), "{error}");
        assert!(replay(&b"{"[..], Vec::new()).is_err());
        for scalar in [
            json!(42),
            json!("x".repeat(100_000)),
            json!(null),
            json!([]),
        ] {
            let error = answers(&scalar).expect_err("no object").to_string();
            assert!(error.starts_with("should be an object, and is "), "{error}");
            assert!(error.len() < 1000, "{} bytes", error.len());
        }
        let long = json!([{"id": "a", "hosts": "x".repeat(100_000), "request": {}}]);
        let error = answers(&file(&long)).expect_err("no list").to_string();
        assert!(
            error.starts_with("case a: hosts: should be a list, and is \"xxx"),
            "{error}"
        );
        assert!(error.len() < 1000, "{} bytes", error.len());
        let mut marked = "\u{feff}".as_bytes().to_vec();
        marked.extend(file(&json!([])).to_string().into_bytes());
        assert!(replay(&marked[..], Vec::new()).is_ok());
    }
}
