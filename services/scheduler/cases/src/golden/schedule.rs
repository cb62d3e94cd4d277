//! Kind `schedule`: the whole selection loop, with a Placement that grants every claim except those that the case names.

use serde_json::{Map, Value, json};

use crate::case::SchedulerCase;
use crate::claim_failures::claim_failures;
use berth_scheduler::select::{
    Alternates, ClaimPolicy, SelectionRequest, SelectionResult, SelectionStep,
};
use berth_scheduler_objects::from_json::CaseField;
use berth_scheduler_objects::from_json::CaseRequestError;
use berth_scheduler_objects::host_state::HostState;

/// `selections`, `cells`, `claims` and `after`; or `no_valid_host` with its `reason`, `claims` and `deleted_allocations`.
pub(super) fn answer(case: &SchedulerCase<'_>) -> Result<Value, CaseRequestError> {
    let field = case.field.required("request")?;
    let fails = claim_failures(&field)?;
    let alternates = match field.optional_or("return_alternates", false, CaseField::flag)? {
        true => Alternates::Wanted,
        false => Alternates::None,
    };
    let ask = SelectionRequest {
        request: case.request()?,
        instance_uuids: field.required("instance_uuids")?.list(CaseField::string)?,
        alternates,
        claims: ClaimPolicy::Needed,
        seed: 0,
    };
    let scheduler = case.scheduler()?;
    let mut claims = Vec::new();
    let mut step = scheduler.select(ask, case.hosts()?);
    loop {
        step = match step {
            SelectionStep::Claim(claiming) => {
                let claim = claiming.claim();
                let (uuid, host) = (claim.instance_uuid.to_owned(), claim.host.host.clone());
                let is_granted = !fails.contains(&(uuid.clone(), host.clone()));
                claims.push(json!([uuid, host, is_granted]));
                match is_granted {
                    true => claiming.granted(),
                    false => claiming.refused(),
                }
            }
            SelectionStep::Selected(selected) => return Ok(answered(&selected, claims)),
            SelectionStep::NoValidHost(why) => {
                return Ok(json!({
                    "no_valid_host": true,
                    "reason": why.to_string(),
                    "claims": claims,
                    "deleted_allocations": why.claimed,
                }));
            }
        }
    }
}

fn answered(selected: &SelectionResult, claims: Vec<Value>) -> Value {
    let selections = selected.selections.iter();
    let cells = selections.clone().filter_map(|one| one.first());
    let after = selected.after.iter();
    json!({
        "selections": selections
            .map(|one| one.iter().map(|it| it.host.host.clone()).collect())
            .collect::<Vec<Value>>(),
        "cells": cells.map(|one| one.host.cell.clone()).collect::<Vec<_>>(),
        "claims": claims,
        "after": after
            .map(|host| (host.host.clone(), resources(host)))
            .collect::<Map<_, _>>(),
    })
}

fn resources(host: &HostState) -> Value {
    json!({
        "free_ram_mb": host.free_ram_mb,
        "free_disk_mb": host.free_disk_mb,
        "vcpus_used": host.vcpus_used,
        "num_instances": host.num_instances,
        "num_io_ops": host.num_io_ops,
    })
}
