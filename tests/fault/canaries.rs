//! Planted bugs between the agent and Placement: each must be caught by the invariant that it breaks. An invariant
//! without a caught bug does not count; those of other stores are tested with the audit itself.

use berth_client::{HttpService, TransportError};
use berth_invariants::{InvariantId, audit_at_rest};
use berth_tests::host::consumer;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};

use crate::case::{Case, run_tampered};
use crate::evidence;
use crate::scenarios::FaultScenario;
use crate::sweep::CleanRun;

type Answer = Result<Response<Bytes>, TransportError>;

/// What a tamperer does with a request.
enum Tampering {
    Sent(Request<Bytes>),
    Answered(Response<Bytes>),
}

fn tampering(http: HttpService, tamper: fn(Request<Bytes>) -> Tampering) -> HttpService {
    HttpService::new(tower::service_fn(move |request: Request<Bytes>| {
        let http = http.clone();
        async move {
            let answer: Answer = match tamper(request) {
                Tampering::Sent(request) => http.send(request).await,
                Tampering::Answered(answer) => Ok(answer),
            };
            answer
        }
    }))
}

fn swept() -> CleanRun {
    CleanRun::of(FaultScenario::StartupReshape)
}

/// Runs the reshape with a bug on the way.
fn with_bug(swept: &CleanRun, tamper: fn(Request<Bytes>) -> Tampering) -> (Case, Vec<InvariantId>) {
    let case = run_tampered(&swept.situation, &[], |http| tampering(http, tamper));
    let worlds = evidence::worlds(&swept.situation, &case, &swept.clean.end);
    let broken = audit_at_rest(&worlds)
        .iter()
        .map(|violation| violation.invariant)
        .collect();
    (case, broken)
}

fn is(request: &Request<Bytes>, method: &Method, end: &str) -> bool {
    request.method() == method && request.uri().path().ends_with(end)
}

/// The body of a reshape, changed.
fn reshaping(request: Request<Bytes>, change: impl FnOnce(&mut Value)) -> Tampering {
    if !is(&request, &Method::POST, "/reshaper") {
        return Tampering::Sent(request);
    }
    Tampering::Sent(request.map(|body| {
        let mut body: Value = serde_json::from_slice(&body).unwrap();
        change(&mut body);
        body.to_string().into()
    }))
}

fn answer(status: StatusCode, body: &Value) -> Tampering {
    let mut answer = Response::new(Bytes::from(body.to_string()));
    *answer.status_mut() = status;
    Tampering::Answered(answer)
}

/// The units of the n-th consumer's virtual GPU in a reshape's body.
fn vgpus(body: &mut Value, n: u32) -> &mut serde_json::Map<String, Value> {
    let held = &mut body["allocations"][consumer(n).to_string()]["allocations"];
    let mut places = held.as_object_mut().unwrap().values_mut();
    let place = places
        .find(|place| place["resources"]["VGPU"].is_u64())
        .unwrap();
    place["resources"].as_object_mut().unwrap()
}

#[test]
fn a_reshape_that_forgets_an_allocation_is_caught() {
    let (case, broken) = with_bug(&swept(), |request| {
        reshaping(request, |body| {
            let held = &mut body["allocations"][consumer(0).to_string()]["allocations"];
            held.as_object_mut()
                .unwrap()
                .retain(|_, place| !place["resources"]["VGPU"].is_u64());
        })
    });
    assert!(
        broken.contains(&InvariantId::S2),
        "{broken:?} {:?}",
        case.history
    );
}

#[test]
fn a_reshape_that_doubles_a_unit_is_caught() {
    let (case, broken) = with_bug(&swept(), |request| {
        reshaping(request, |body| {
            vgpus(body, 5).insert("VGPU".to_owned(), 2.into());
        })
    });
    assert!(
        broken.contains(&InvariantId::S2),
        "{broken:?} {:?}",
        case.history
    );
}

#[test]
fn a_reshape_that_changes_allocations_elsewhere_is_caught() {
    let (case, broken) = with_bug(&swept(), |request| {
        reshaping(request, |body| {
            let held = &mut body["allocations"][consumer(4).to_string()]["allocations"];
            held.as_object_mut()
                .unwrap()
                .retain(|_, place| !place["resources"]["DISK_GB"].is_u64());
        })
    });
    assert!(
        broken.contains(&InvariantId::S2),
        "{broken:?} {:?}",
        case.history
    );
}

#[test]
fn two_consumers_on_each_others_gpu_are_caught_by_the_count_of_units() {
    let swept = swept();
    let (case, broken) = with_bug(&swept, |request| {
        reshaping(request, |body| {
            let places =
                [0, 1].map(|n| body["allocations"][consumer(n).to_string()]["allocations"].clone());
            let [first, second] = places;
            body["allocations"][consumer(0).to_string()]["allocations"] = second;
            body["allocations"][consumer(1).to_string()]["allocations"] = first;
        })
    });
    assert!(
        !broken.contains(&InvariantId::S2),
        "the sums are the same: {broken:?}"
    );
    let expected = &swept.situation.expected[&0];
    assert_ne!(case.end.held_by(consumer(0)), *expected);
}

#[test]
fn children_that_a_refused_reshape_leaves_are_caught() {
    let (case, broken) = with_bug(&swept(), |request| {
        if is(&request, &Method::POST, "/reshaper") {
            let refusal =
                json!({"errors": [{"status": 403, "title": "Forbidden", "detail": "no role"}]});
            return answer(StatusCode::FORBIDDEN, &refusal);
        }
        if request.method() == Method::DELETE {
            return answer(StatusCode::NO_CONTENT, &Value::Null);
        }
        Tampering::Sent(request)
    });
    assert!(
        case.history.ends[0].starts_with("76: "),
        "{:?}",
        case.history.ends
    );
    assert!(broken.contains(&InvariantId::S11), "{broken:?}");
}

#[test]
fn an_acknowledged_write_without_effect_is_caught() {
    let (_, broken) = with_bug(&swept(), |request| {
        if is(&request, &Method::PUT, "/traits") {
            let body: Value = serde_json::from_slice(request.body()).unwrap();
            let body = json!({"traits": body["traits"],
                "resource_provider_generation": body["resource_provider_generation"].as_i64().unwrap() + 1});
            return answer(StatusCode::OK, &body);
        }
        Tampering::Sent(request)
    });
    assert!(broken.contains(&InvariantId::L5), "{broken:?}");
}

#[test]
fn a_secret_that_a_peer_echoes_into_an_error_is_caught() {
    let (case, broken) = with_bug(&swept(), |request| {
        if is(&request, &Method::POST, "/reshaper") {
            let echo = json!({"errors": [{"status": 403, "title": "Forbidden", "detail": "planted-secret"}]});
            return answer(StatusCode::FORBIDDEN, &echo);
        }
        Tampering::Sent(request)
    });
    assert!(
        broken.contains(&InvariantId::S13),
        "{broken:?} {:?}",
        case.history
    );
}

#[test]
fn a_loop_that_tries_again_at_once_is_caught() {
    let swept = swept();
    let mut case = crate::case::run(
        &swept.situation,
        &["effect:3:before:internal_error".parse().unwrap()],
    );
    let caught = |case: &Case| {
        let worlds = evidence::worlds(&swept.situation, case, &swept.clean.end);
        audit_at_rest(&worlds)
            .iter()
            .any(|violation| violation.invariant == InvariantId::S12)
    };
    assert!(!caught(&case));
    let failed = case
        .history
        .passes
        .iter()
        .position(|pass| pass.failure.is_some())
        .unwrap();
    case.history.passes[failed + 1].began = case.history.passes[failed].ended;
    assert!(caught(&case));
}
