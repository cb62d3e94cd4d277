//! Answers the cases of a file one by one: `berth scheduler replay`. One module per kind of case.

mod filter;
mod ops;
mod pipeline;
mod placement_query;
mod schedule;
mod weigher;

use std::io::{Read, Write};

use serde_json::{Value, json};

use super::case::SchedulerCase;
use super::{
    CaseFileError, CaseKind, allowed_keys, case_error, kind_and_cases, large_numbers,
    without_byte_order_mark,
};
use berth_scheduler_objects::from_json::CaseField;
use berth_scheduler_objects::from_json::CaseRequestError;

/// Answers each case of `input` with a line of JSON, `{"id": ..., "result": {...}}`. A request that Nova's API would
/// refuse is answered with `request_error`.
///
/// Errors: The file cannot be read, or a case is invalid; earlier cases are answered.
pub fn replay(mut input: impl Read, mut out: impl Write) -> Result<(), CaseFileError> {
    let mut text = String::new();
    input
        .read_to_string(&mut text)
        .map_err(CaseFileError::Read)?;
    let file: Value = {
        let text = large_numbers::replace_large_numbers(without_byte_order_mark(&text));
        serde_json::from_str(&text).map_err(CaseFileError::NotJson)?
    };
    allowed_keys::file(&file).map_err(CaseFileError::Field)?;
    let file = CaseField::root(&file);
    let (kind, cases) = kind_and_cases(&file).map_err(CaseFileError::Field)?;
    let subject = file.required("subject").map_err(CaseFileError::Field)?;
    for (index, case) in cases.iter().enumerate() {
        allowed_keys::case(case.value()).map_err(|error| case_error(index, case, error))?;
        let case = SchedulerCase::read(case).map_err(|error| case_error(index, case, error))?;
        let result = match answer(kind, &subject, &case) {
            Ok(result) => result,
            Err(CaseRequestError::Refused(sentence)) => json!({ "request_error": sentence }),
            Err(CaseRequestError::Field(error)) => {
                return Err(case_error(index, &case.field, error));
            }
        };
        let line = json!({ "id": case.id, "result": result });
        writeln!(out, "{line}").map_err(CaseFileError::Write)?;
    }
    out.flush().map_err(CaseFileError::Write)
}

/// The answer to one case.
fn answer(
    kind: CaseKind,
    subject: &CaseField<'_>,
    case: &SchedulerCase<'_>,
) -> Result<Value, CaseRequestError> {
    match kind {
        CaseKind::Filter => filter::answer(subject, case),
        CaseKind::Normalize => weigher::normalized(case),
        CaseKind::Ops => ops::answer(case),
        CaseKind::Pipeline => pipeline::answer(case),
        CaseKind::PlacementQuery => placement_query::answer(case),
        CaseKind::Schedule => schedule::answer(case),
        CaseKind::Weigher => weigher::answer(subject, case),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DryRunCase, SCHEMA, WhatIf};

    fn answers(file: &Value) -> Result<Vec<Value>, CaseFileError> {
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
        let sample = include_str!("../../../../docs/examples/scheduler/cases.json");
        let file: Value = serde_json::from_str(sample).expect("JSON");
        let got = answers(&file).expect("a good file");
        assert_eq!(got[0]["id"], "memory-first");
        assert_eq!(
            got[0]["result"]["per_filter"],
            json!([["ComputeFilter", 3, 2], ["RamFilter", 2, 2]])
        );
        assert_eq!(got[0]["result"]["order"], json!(["compute-2", "compute-1"]));
        assert!(DryRunCase::read(sample, None, &WhatIf::default()).is_ok());
        let request = include_str!("../../../../docs/examples/scheduler/request.json");
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
