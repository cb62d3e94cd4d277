//! Which account speaks for which host's devices and requests.

use serde_json::json;

use super::service::{HOST, RP, Service, bind, guest, unbind};

/// The account of the host of these tests, and that of another.
const OWN: &str = "host/compute1";
const OTHER: &str = "host/compute2";

#[tokio::test]
async fn a_host_reports_its_own_devices_and_no_other_host_s() {
    let service = Service::with_profile(1).await;
    let uuids = service.requests("dp").await;
    assert_eq!(service.bind(&uuids, &guest(1)).await.status, 202);
    let path = |rest: &str| format!("/internal/v1/hosts/{HOST}/{rest}");
    let programming = path("programmings/11111111-2222-4333-8444-000000000001");
    let nothing = json!({"devices": [], "guests": []}).to_string();
    for (method, path, body) in [
        ("PUT", path("devices"), Some(nothing)),
        ("GET", path("devices"), None),
        ("GET", path("changes?wait=0"), None),
        ("GET", path("programmings"), None),
        ("POST", programming, Some("{}".to_owned())),
    ] {
        let own = service.by(OWN).ask(method, &path, body.clone()).await;
        assert!(own.status.is_success(), "{method} {path}: {own:?}");
        for (who, words) in [
            (
                OTHER,
                "The account of host compute2 does not speak for host compute1.",
            ),
            ("nova", "log in as host/compute1"),
        ] {
            let refused = service.by(who).ask(method, &path, body.clone()).await;
            assert_eq!(refused.status, 403, "{who} {path}: {refused:?}");
            assert!(refused.message().contains(words), "{refused:?}");
        }
    }
}

#[tokio::test]
async fn a_host_releases_the_requests_that_are_bound_on_it_and_sees_no_other_host_s() {
    let service = Service::with_profile(2).await;
    let (bound, free) = (service.requests("dp").await, service.requests("dp").await);
    assert_eq!(service.bind(&bound, &guest(1)).await.status, 202);
    let one = format!("/v2/accelerator_requests/{}", bound[0]);
    let all = "/v2/accelerator_requests";
    let (own, other) = (
        service.by(OWN).vouched_by(OWN),
        service.by(OTHER).vouched_by(OTHER),
    );
    // Its own, and those that may still be bound on it.
    let seen = own.get(all).await.uuids();
    assert_eq!(seen.len(), bound.len() + free.len());
    let seen = other.get(all).await.uuids();
    assert!(seen.iter().all(|uuid| free.contains(uuid)), "{seen:?}");
    assert_eq!(other.get(&one).await.status, 404);
    assert_eq!(other.patch(unbind(&bound)).await.status, 404);
    assert_eq!(other.delete(&one).await.status, 404);
    let by_guest = format!("{all}?instance={}", guest(1));
    other.delete(&by_guest).await;
    assert_eq!(service.request(&bound[0]).await.body["state"], "Bound");
    // A host neither binds, nor makes or deletes requests that are not bound on it.
    assert_eq!(
        own.patch(bind(&free, &guest(2), HOST, RP)).await.status,
        404
    );
    let free_one = format!("/v2/accelerator_requests/{}", free[0]);
    assert_eq!(own.delete(&free_one).await.status, 404);
    for (method, path, body) in [
        ("POST", all, json!({"device_profile_name": "dp"})),
        (
            "PUT",
            "/internal/v1/accelerator_requests",
            json!({"arqs": []}),
        ),
    ] {
        let refused = own.ask(method, path, Some(body.to_string())).await;
        assert_eq!(refused.status, 403, "{refused:?}");
        assert!(
            refused.message().contains("belongs to this host"),
            "{refused:?}"
        );
    }
    // Its token vouches for nobody else.
    let user = service.by("alice").vouched_by(OWN);
    assert_eq!(user.patch(unbind(&bound)).await.status, 403);
    assert_eq!(own.patch(unbind(&bound)).await.status, 202);
    assert_eq!(service.request(&bound[0]).await.body["state"], "Unbound");
}
