//! Claims of the last units by two services with separate connections, as of two processes, on one database.

use axum::body::Body;
use berth_placement::{PlacementApiOptions, prepare, router};
use berth_store::{Isolation, SqlOptions};
use futures_util::future::join_all;
use http::{Method, Request, StatusCode, header};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::databases::test_database::TestDatabase;

on_servers! {
    never_one_unit_too_many_at_repeatable_read
    never_one_unit_too_many_at_read_committed
    the_loser_of_a_conflict_gets_an_error_and_holds_nothing
    a_provider_is_deleted_or_has_a_claim_and_never_both
    a_release_and_a_concurrent_move_at_repeatable_read
    a_release_and_a_concurrent_move_at_read_committed
}

async fn a_release_and_a_concurrent_move_at_repeatable_read(place: TestDatabase) {
    a_release_and_a_concurrent_move(place, Isolation::RepeatableRead).await;
}

async fn a_release_and_a_concurrent_move_at_read_committed(place: TestDatabase) {
    a_release_and_a_concurrent_move(place, Isolation::ReadCommitted).await;
}

/// One writer releases all allocations of a consumer while another moves it to a second host and extends it. Only one
/// of them has the consumer's generation, and no allocation may be orphaned.
async fn a_release_and_a_concurrent_move(place: TestDatabase, isolation: Isolation) {
    let services = services(&place, isolation).await;
    let [here, there] = [
        provider(&services[0], 1, 1_000).await,
        provider(&services[0], 2, 1_000).await,
    ];
    let put = async |service: Service, consumer: u32, generation: Value, wants: Value| {
        let body = json!({"allocations": wants, "project_id": "p", "user_id": "u",
            "consumer_generation": generation, "consumer_type": "INSTANCE"});
        let path = format!("/allocations/{}", uuid(2, consumer));
        ask(&service, Method::PUT, &path, &body).await.0
    };
    let holds = |host: &String, units: u32| json!({host: {"resources": {"VCPU": units}}});
    for trial in 0..40 {
        let made = put(services[0].clone(), trial, Value::Null, holds(&here, 1)).await;
        assert_eq!(made, 204);
        // On even rounds the other moves, on odd ones it keeps what it has and takes more elsewhere.
        let mut more = holds(&there, 1);
        if trial % 2 == 1 {
            more[&here] = holds(&here, 1)[&here].clone();
        }
        let (first, second) = tokio::join!(
            put(services[0].clone(), trial, json!(1), json!({})),
            put(services[1].clone(), trial, json!(1), more.clone()),
        );
        let done = [first, second].map(|status| status == 204);
        assert_ne!(done[0], done[1], "trial {trial}: {first} {second}");
        let path = format!("/allocations/{}", uuid(2, trial));
        let (_, held) = ask(&services[0], Method::GET, &path, &Value::Null).await;
        let hosts = held["allocations"].as_object().map_or(0, |all| all.len());
        let expected = if done[0] { 0 } else { 1 + (trial % 2) as usize };
        assert_eq!(hosts, expected, "trial {trial}: {held}");
        if done[1] {
            assert_eq!(
                put(services[0].clone(), trial, json!(2), json!({})).await,
                204
            );
        }
    }
    for host in [&here, &there] {
        assert_eq!(used(&services[0], host).await, 0, "no orphaned allocation");
    }
}

async fn never_one_unit_too_many_at_repeatable_read(place: TestDatabase) {
    never_one_unit_too_many(place, Isolation::RepeatableRead).await;
}

async fn never_one_unit_too_many_at_read_committed(place: TestDatabase) {
    never_one_unit_too_many(place, Isolation::ReadCommitted).await;
}

pub(crate) type Service = axum::Router;

async fn services(place: &TestDatabase, isolation: Isolation) -> [Service; 2] {
    let options = SqlOptions {
        isolation,
        ..SqlOptions::default()
    };
    services_with(place, options).await
}

async fn services_with(place: &TestDatabase, options: SqlOptions) -> [Service; 2] {
    let (one, other) = (place.open(&options).await, place.open(&options).await);
    let (first, second) = tokio::join!(prepare(&one), prepare(&other));
    first.unwrap();
    second.unwrap();
    [one, other].map(|store| router(store, PlacementApiOptions::default()))
}

pub(crate) async fn ask(
    service: &Service,
    method: Method,
    path: &str,
    body: &Value,
) -> (StatusCode, Value) {
    let body = match body {
        Value::Null => Body::empty(),
        body => Body::from(body.to_string()),
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("x-auth-token", "admin")
        .header("openstack-api-version", "placement 1.39")
        .header(header::CONTENT_TYPE, "application/json")
        .body(body)
        .unwrap();
    let answer = service.clone().oneshot(request).await.unwrap();
    let status = answer.status();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

pub(crate) fn uuid(kind: u32, number: u32) -> String {
    format!("00000000-0000-0000-{kind:04}-{number:012}")
}

async fn provider(service: &Service, number: u32, total: u32) -> String {
    let uuid = uuid(1, number);
    let body = json!({"name": format!("host-{number}"), "uuid": uuid});
    let (made, text) = ask(service, Method::POST, "/resource_providers", &body).await;
    assert_eq!(made, 200, "{text}");
    let body =
        json!({"resource_provider_generation": 0, "inventories": {"VCPU": {"total": total}}});
    let path = format!("/resource_providers/{uuid}/inventories");
    let (set, text) = ask(service, Method::PUT, &path, &body).await;
    assert_eq!(set, 200, "{text}");
    uuid
}

async fn claim(service: &Service, provider: &str, consumer: u32) -> StatusCode {
    let body = json!({
        "allocations": {provider: {"resources": {"VCPU": 1}}},
        "project_id": format!("p{}", consumer % 3), "user_id": "u",
        "consumer_generation": null, "consumer_type": "INSTANCE",
    });
    let path = format!("/allocations/{}", uuid(2, consumer));
    ask(service, Method::PUT, &path, &body).await.0
}

async fn used(service: &Service, provider: &str) -> Value {
    let path = format!("/resource_providers/{provider}/usages");
    let (_, usages) = ask(service, Method::GET, &path, &Value::Null).await;
    usages["usages"]["VCPU"].clone()
}

async fn never_one_unit_too_many(place: TestDatabase, isolation: Isolation) {
    let services = services(&place, isolation).await;
    for trial in 0..8 {
        let host = provider(&services[0], trial, 6).await;
        let claims = (0..16).map(|n| {
            let service = services[n as usize % 2].clone();
            let host = host.clone();
            tokio::spawn(async move { claim(&service, &host, trial * 100 + n).await })
        });
        let answers = join_all(claims).await;
        let answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
        let granted = answers.iter().filter(|status| **status == 204).count();
        assert_eq!(used(&services[1], &host).await, granted, "{answers:?}");
        assert!(granted <= 6, "{answers:?}");
        // A refusal is that it is full, or that too many came at once; never that the service failed.
        let refused = |status: &StatusCode| *status == 204 || *status == 409;
        assert!(answers.iter().all(refused), "{answers:?}");
        // A lone claim gets what is left.
        for n in 20..26 {
            claim(&services[0], &host, trial * 100 + n).await;
        }
        assert_eq!(used(&services[1], &host).await, 6);
    }
}

/// The server refuses the second transaction, and it is not retried: that is a conflict, not a failure.
async fn the_loser_of_a_conflict_gets_an_error_and_holds_nothing(place: TestDatabase) {
    let one = services(&place, Isolation::RepeatableRead).await;
    // The first of a project is not what is looked at.
    let first = provider(&one[0], 99, 3).await;
    for n in 9_900..9_903 {
        assert_eq!(claim(&one[0], &first, n).await, 204);
    }
    let options = SqlOptions {
        attempts: 1,
        ..SqlOptions::default()
    };
    let services = services_with(&place, options).await;
    for trial in 0..8 {
        let host = provider(&one[0], trial, 16).await;
        let claims = (0..16).map(|n| {
            let service = services[n as usize % 2].clone();
            let host = host.clone();
            tokio::spawn(async move { claim(&service, &host, trial * 100 + n).await })
        });
        let answers = join_all(claims).await;
        let answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
        let reported = |status: &StatusCode| *status == 204 || *status == 409;
        assert!(answers.iter().all(reported), "{answers:?}");
        let granted = answers.iter().filter(|status| **status == 204).count();
        assert_eq!(used(&one[1], &host).await, granted, "{answers:?}");
    }
}

async fn a_provider_is_deleted_or_has_a_claim_and_never_both(place: TestDatabase) {
    let services = services(&place, Isolation::RepeatableRead).await;
    for trial in 0..24 {
        let host = provider(&services[0], trial, 6).await;
        let delete = async {
            let path = format!("/resource_providers/{host}");
            ask(&services[0], Method::DELETE, &path, &Value::Null)
                .await
                .0
        };
        let (deleted, claimed) = tokio::join!(delete, claim(&services[1], &host, trial));
        let outcome = (deleted.as_u16(), claimed.as_u16());
        assert!(
            matches!(outcome, (204, 400) | (409, 204)),
            "deleted and claimed: {outcome:?}"
        );
        let rows = place.query(
            "select count(*) from allocations a left join resource_providers p on p.id = a.resource_provider_id \
             where p.id is null",
        );
        assert_eq!(rows, [["0"]]);
    }
}
