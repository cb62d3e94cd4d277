//! Which account speaks for which host's devices and requests.

use std::sync::Arc;

use berth_accelerator::AcceleratorApiOptions;
use berth_http::{LookUpProviderRoot, ProviderLookup, ProviderRoot};
use berth_model::{ProviderName, ProviderUuid};
use serde_json::json;
use uuid::Uuid;

use super::service::{ABSENT, HOST, RP, RP_2, Service, bind, card, guest, options, unbind};

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

/// A Placement in which provider [`RP`] is in the tree of `compute1` and [`RP_2`] in that of `compute2`.
struct TwoTrees;

impl LookUpProviderRoot for TwoTrees {
    fn provider_root(&self, provider: Uuid) -> ProviderLookup<'_> {
        let name = match provider.to_string().as_str() {
            RP => Some("compute1"),
            RP_2 => Some("compute2"),
            _ => None,
        };
        let root = name.map(|name| ProviderRoot {
            uuid: Uuid::nil(),
            name: name.to_owned(),
        });
        Box::pin(async move { Ok(root) })
    }
}

#[tokio::test]
async fn a_host_reports_only_devices_whose_providers_are_in_its_tree_or_named_after_it() {
    let service = Service::with(AcceleratorApiOptions {
        providers: Some(Arc::new(TwoTrees)),
        ..options()
    })
    .await;
    let derived =
        |name: &str| ProviderUuid::of_deployable(&ProviderName::new(name).unwrap()).to_string();
    let named = |name: &str, provider: &str| {
        let mut card = card(0, provider, 1);
        card["deployables"][0]["name"] = json!(name);
        json!({"devices": [card]}).to_string()
    };
    let path = format!("/internal/v1/hosts/{HOST}/devices");
    let own = "compute1_0000:b1:00.0";
    let others = "compute2_0000:b1:00.0";
    for (name, provider) in [
        (own, RP_2.to_owned()),
        (own, derived(others)),
        (others, derived(others)),
        (own, ABSENT.to_owned()),
    ] {
        let stolen = service
            .by(OWN)
            .ask("PUT", &path, Some(named(name, &provider)))
            .await;
        assert_eq!(stolen.status, 403, "{name} {provider}: {stolen:?}");
        assert!(stolen.message().contains(&provider), "{stolen:?}");
    }
    // A provider in the tree may have any UUID, and one that is named after the host may be missing yet.
    for provider in [RP.to_owned(), derived(own)] {
        let taken = service
            .by(OWN)
            .ask("PUT", &path, Some(named(own, &provider)))
            .await;
        assert_eq!(taken.status, 200, "{provider}: {taken:?}");
    }
}
