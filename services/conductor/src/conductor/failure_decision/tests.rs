//! The table of what follows.

use std::collections::BTreeMap;

use berth_client::placement::Candidate;
use berth_client::{AuthError, GuestApiError, ServiceCallError, TransportError};
use berth_model::NodeName;
use berth_wire::guest::LimitsBody;
use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::BootRequest;
use crate::journal::{BootGoal, BootStep, BootStepDetail, BootStepRecord, ChosenHost, StepState};

const HOST: u128 = 2;
const DEVICE: u128 = 3;

/// A guest at this attempt, which has claimed a host and a device there.
fn record(attempt: u32, failures: Vec<FailedAttempt>) -> BootRecord {
    let body = json!({"name": "vm", "flavor": {"name": "f", "vcpus": 1, "ram_mb": 64}});
    let body = berth_wire::decode(body.to_string().as_bytes()).unwrap();
    let candidate = json!({"allocations": {(Uuid::from_u128(HOST).to_string()): {"resources": {"VCPU": 1}}},
        "mappings": {"device_profile_0": [Uuid::from_u128(DEVICE)]}});
    let candidate = berth_wire::decode(candidate.to_string().as_bytes()).unwrap();
    let chosen = ChosenHost {
        host: Uuid::from_u128(HOST).into(),
        node: NodeName::new("n1").unwrap(),
        host_name: Some("h1".to_owned()),
        cell: None,
        zone: None,
        candidate: Candidate::of_body(&candidate).unwrap(),
        limits: LimitsBody::default(),
    };
    let claim = BootStepRecord {
        state: StepState::Done,
        detail: BootStepDetail::Claim(Box::new(chosen)),
    };
    BootRecord {
        request: BootRequest::new(body, Uuid::from_u128(1)).unwrap(),
        goal: BootGoal::Boot,
        attempt,
        failures,
        steps: BTreeMap::from([((attempt, BootStep::Claim), claim)]),
    }
}

fn passed() -> FailedAttempt {
    FailedAttempt {
        node: None,
        host: None,
        cell: None,
        reason: "its devices wait".to_owned(),
        user_message: None,
        avoid: Vec::new(),
        passes: true,
    }
}

fn no_agent() -> BootError {
    BootError::NoAgent("h1".to_owned())
}

fn no_token() -> BootError {
    let error = AuthError::Transport {
        url: "http://keystone".to_owned(),
        reason: TransportError::Refused {
            peer: "keystone".to_owned(),
        },
    };
    BootError::Agent(GuestApiError::Call(ServiceCallError::Auth(error)))
}

/// The name of a verdict, and the providers that are avoided from then on.
fn verdict_of(
    error: &BootError,
    attempt: u32,
    patience: RetryBudget,
    before: Vec<FailedAttempt>,
) -> (&'static str, Vec<u128>) {
    let options = ConductorOptions::default();
    match decide(error, &record(attempt, before), &options, patience) {
        FailureDecision::Wait => ("wait", Vec::new()),
        FailureDecision::Undo { failed, then } => {
            let avoid = failed.avoid.iter().map(Uuid::as_u128).collect();
            let word = match then {
                AfterUndo::Retry => "again",
                AfterUndo::Fail => "fail",
            };
            (word, avoid)
        }
    }
}

#[test]
fn a_boot_waits_retries_elsewhere_or_fails_by_the_error_and_its_duration() {
    use RetryBudget::{Exhausted, Remaining};
    let text = || "why".to_owned();
    let not_ready = || BootError::NotReady(text());
    for (error, attempt, patience, expected, avoid) in [
        // An agent that is away is waited for; then another host is tried, as long as there are attempts.
        (no_agent(), 1, Remaining, "wait", vec![]),
        (no_agent(), 1, Exhausted, "again", vec![HOST]),
        (no_agent(), 3, Exhausted, "fail", vec![HOST]),
        // A service is away for all hosts.
        (no_token(), 1, Remaining, "wait", vec![]),
        (no_token(), 1, Exhausted, "fail", vec![]),
        (BootError::GroupBusy(1), 1, Remaining, "wait", vec![]),
        (BootError::GroupBusy(1), 1, Exhausted, "fail", vec![]),
        // Devices that are made ready: others first.
        (not_ready(), 1, Remaining, "again", vec![DEVICE]),
        (not_ready(), 3, Remaining, "wait", vec![]),
        (not_ready(), 3, Exhausted, "fail", vec![DEVICE]),
        (
            BootError::NotBuilt(text()),
            1,
            Remaining,
            "again",
            vec![DEVICE],
        ),
        (
            BootError::NotBuilt(text()),
            3,
            Remaining,
            "fail",
            vec![DEVICE],
        ),
        (
            BootError::HostCannot(text()),
            2,
            Remaining,
            "again",
            vec![HOST],
        ),
        (BootError::BadImage(text()), 1, Remaining, "fail", vec![]),
        (
            BootError::NoValidHost(text().into()),
            1,
            Remaining,
            "fail",
            vec![],
        ),
    ] {
        let verdict = verdict_of(&error, attempt, patience, Vec::new());
        assert_eq!(
            verdict,
            (expected, avoid),
            "{error:?} {attempt} {patience:?}"
        );
    }
    // Where others were tried in vain, it is waited for.
    assert_eq!(
        verdict_of(&not_ready(), 2, Remaining, vec![passed()]).0,
        "wait"
    );
    assert_eq!(
        verdict_of(&not_ready(), 2, Exhausted, vec![passed()]).0,
        "fail"
    );
}

#[test]
fn the_message_for_users_names_no_host() {
    let error = BootError::NotBuilt("on n1: internal error".to_owned());
    let options = ConductorOptions::default();
    let verdict = decide(
        &error,
        &record(1, Vec::new()),
        &options,
        RetryBudget::Remaining,
    );
    let FailureDecision::Undo { failed, .. } = verdict else {
        panic!("{verdict:?}");
    };
    assert_eq!(failed.to_string(), "on n1: on n1: internal error");
    assert_eq!(
        failed.user_message(),
        "the selected host could not build it"
    );
}
