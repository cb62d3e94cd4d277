//! What the account of a host may change: its own tree, and allocations on it.

use std::sync::Arc;

use berth_http::auth::Validation;
use berth_http::{Caller, HostAccount, TokenError, TokenRequest, TokenScope, ValidateToken};
use berth_model::{ProviderName, ProviderUuid};
use berth_placement::PlacementApiOptions;
use serde_json::{Value, json};
use uuid::Uuid;

use super::service::{Reply, Service, consumer, refused};

/// Tokens of services by their names; `host/NAME` is the account of a host.
struct Names;

impl ValidateToken for Names {
    fn validate<'a>(&'a self, request: TokenRequest<'a>) -> Validation<'a> {
        let roles: &[&str] = match request.token {
            "admin" => &["admin", "service"],
            "nova" => &["service"],
            host if host.starts_with("host/") => &["service"],
            _ => return Box::pin(async { Err(TokenError::Refused) }),
        };
        let caller = Caller {
            user_id: request.token.to_owned(),
            scope: TokenScope::Project("service".to_owned()),
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
            host: HostAccount::of_user_name(request.token),
            ..Caller::default()
        };
        Box::pin(async move { Ok(caller) })
    }
}

const ONE: &str = "11111111-0000-0000-0000-000000000001";
const ONE_GPU: &str = "11111111-0000-0000-0000-000000000011";
const TWO: &str = "22222222-0000-0000-0000-000000000002";
const TWO_GPU: &str = "22222222-0000-0000-0000-000000000022";

/// A Placement in which two hosts have made their own trees, each with a child.
async fn cloud() -> Service {
    let service = Service::with(PlacementApiOptions {
        tokens: Arc::new(Names),
        ..PlacementApiOptions::default()
    })
    .await;
    for (host, root, child, name) in [
        (service.by("host/one"), ONE, ONE_GPU, "one"),
        (service.by("host/two"), TWO, TWO_GPU, "two"),
    ] {
        let body = json!({"uuid": root, "name": name});
        assert_eq!(host.post("/resource_providers", body).await.status, 200);
        let body =
            json!({"uuid": child, "name": format!("{name}_gpu"), "parent_provider_uuid": root});
        assert_eq!(host.post("/resource_providers", body).await.status, 200);
        host.inventories(root, json!({"VCPU": {"total": 8}})).await;
    }
    service
}

fn wants(provider: &str, vcpus: i64, generation: Value) -> Value {
    json!({
        "allocations": {provider: {"resources": {"VCPU": vcpus}}},
        "project_id": "p", "user_id": "u", "consumer_type": "INSTANCE", "consumer_generation": generation,
    })
}

#[tokio::test]
async fn a_host_changes_the_providers_of_its_own_tree_and_no_other_s() {
    let service = cloud().await;
    let (one, admin) = (service.by("host/one"), service.by("admin"));
    let before = service.rows().await;
    let generation = service.generation(TWO).await;
    let of = |rest: &str| format!("/resource_providers/{TWO}{rest}");
    let inventory = json!({"total": 1, "resource_provider_generation": generation});
    for (method, path, body) in [
        (
            "PUT",
            of("/inventories"),
            json!({"resource_provider_generation": generation, "inventories": {}}),
        ),
        (
            "POST",
            of("/inventories"),
            json!({"resource_class": "DISK_GB", "total": 1}),
        ),
        ("PUT", of("/inventories/VCPU"), inventory),
        ("DELETE", of("/inventories/VCPU"), Value::Null),
        ("DELETE", of("/inventories"), Value::Null),
        (
            "PUT",
            of("/traits"),
            json!({"resource_provider_generation": generation, "traits": []}),
        ),
        ("DELETE", of("/traits"), Value::Null),
        (
            "PUT",
            of("/aggregates"),
            json!({"resource_provider_generation": generation, "aggregates": []}),
        ),
        ("PUT", of(""), json!({"name": "one"})),
        (
            "DELETE",
            format!("/resource_providers/{TWO_GPU}"),
            Value::Null,
        ),
        // A new tree, a new place in another tree, and the way out of its own tree.
        (
            "POST",
            "/resource_providers".to_owned(),
            json!({"name": "evil"}),
        ),
        (
            "POST",
            "/resource_providers".to_owned(),
            json!({"name": "evil", "parent_provider_uuid": TWO}),
        ),
        (
            "PUT",
            format!("/resource_providers/{ONE}"),
            json!({"name": "other"}),
        ),
        (
            "PUT",
            format!("/resource_providers/{ONE_GPU}"),
            json!({"name": "x", "parent_provider_uuid": TWO}),
        ),
        (
            "PUT",
            format!("/resource_providers/{ONE_GPU}"),
            json!({"name": "x", "parent_provider_uuid": null}),
        ),
        // The same in another notation of the UUID.
        (
            "POST",
            "/resource_providers".to_owned(),
            json!({"name": "one_evil", "parent_provider_uuid": TWO.replace('-', "")}),
        ),
        (
            "PUT",
            format!("/resource_providers/{ONE_GPU}"),
            json!({"name": "one_gpu", "parent_provider_uuid": TWO.replace('-', "")}),
        ),
    ] {
        let reply = match (method, body) {
            ("DELETE", _) => one.delete(&path).await,
            ("PUT", body) => one.put(&path, body).await,
            (_, body) => one.post(&path, body).await,
        };
        assert_eq!(reply.status, 403, "{method} {path}: {reply:?}");
        let words = "The account of host one may change only the providers of its own tree";
        assert!(reply.detail().starts_with(words), "{reply:?}");
    }
    assert_eq!(service.rows().await, before, "nothing was changed");

    one.inventories(ONE, json!({"VCPU": {"total": 16}})).await;
    let rename = json!({"name": "one_card", "parent_provider_uuid": ONE});
    let renamed = one
        .put(&format!("/resource_providers/{ONE_GPU}"), rename)
        .await;
    assert_eq!(renamed.status, 200, "{renamed:?}");
    let path = format!("/resource_providers/{ONE_GPU}");
    assert_eq!(one.delete(&path).await.status, 204);
    assert_eq!(
        admin
            .delete(&format!("/resource_providers/{TWO_GPU}"))
            .await
            .status,
        204
    );
}

#[tokio::test]
async fn a_host_makes_traits_and_classes_and_takes_none_away() {
    let one = cloud().await.by("host/one");
    for path in ["/traits/CUSTOM_A", "/resource_classes/CUSTOM_A"] {
        assert_eq!(one.put_empty(path).await.status, 201, "{path}");
        let refused = one.delete(path).await;
        assert_eq!(refused.status, 403, "{refused:?}");
        assert!(
            refused.detail().contains("belongs to this host"),
            "{refused:?}"
        );
        assert_eq!(one.by("admin").delete(path).await.status, 204, "{path}");
    }
}

#[tokio::test]
async fn a_host_writes_allocations_on_its_own_tree_and_takes_no_other_host_s_away() {
    let service = cloud().await;
    let (one, two, nova) = (
        service.by("host/one"),
        service.by("host/two"),
        service.by("nova"),
    );
    let path = |n: usize| format!("/allocations/{}", consumer(n));
    assert_eq!(
        two.put(&path(2), wants(TWO, 2, Value::Null)).await.status,
        204
    );
    let both = json!({ONE: {"resources": {"VCPU": 1}}, TWO: {"resources": {"VCPU": 1}}});
    let mut moving = wants(ONE, 1, Value::Null);
    moving["allocations"] = both;
    assert_eq!(nova.put(&path(3), moving.clone()).await.status, 204);

    let mut taken = wants(ONE, 1, json!(1));
    taken["consumer_generation"] = json!(1);
    let mut nothing = wants(TWO, 1, json!(1));
    nothing["allocations"] = json!({});
    let reshape = json!({"allocations": {}, "inventories": {TWO: {
        "resource_provider_generation": service.generation(TWO).await, "inventories": {}}}});
    let before = service.rows().await;
    for (what, reply) in [
        ("another host's consumer", one.delete(&path(2)).await),
        ("a consumer of both", one.delete(&path(3)).await),
        (
            "on another host",
            one.put(&path(4), wants(TWO, 1, Value::Null)).await,
        ),
        (
            "more on another host",
            one.put(&path(3), {
                let mut more = moving.clone();
                more["consumer_generation"] = json!(1);
                more["allocations"][TWO]["resources"]["VCPU"] = json!(2);
                more
            })
            .await,
        ),
        (
            "another host's consumer moved here",
            one.put(&path(2), taken.clone()).await,
        ),
        (
            "nothing left to it",
            one.put(&path(2), nothing.clone()).await,
        ),
        (
            "several",
            one.post("/allocations", json!({consumer(2): nothing}))
                .await,
        ),
        (
            "inventories of another host",
            one.post("/reshaper", reshape).await,
        ),
    ] {
        assert_eq!(reply.status, 403, "{what}: {reply:?}");
        assert!(
            reply.detail().contains("in the tree of two"),
            "{what}: {reply:?}"
        );
    }
    assert_eq!(service.rows().await, before, "nothing was changed");

    // Its own part of a consumer on both hosts, and its own consumers.
    moving["consumer_generation"] = json!(1);
    moving["allocations"][ONE]["resources"]["VCPU"] = json!(2);
    assert_eq!(one.put(&path(3), moving).await.status, 204);
    assert_eq!(
        one.put(&path(5), wants(ONE, 1, Value::Null)).await.status,
        204
    );
    assert_eq!(one.delete(&path(5)).await.status, 204);
    assert_eq!(
        nova.delete(&path(2)).await.status,
        204,
        "a service of the cloud may do all of it"
    );
}

const FIRST: &str = "aaaaaaaa-0000-0000-0000-000000000001";
const SECOND: &str = "aaaaaaaa-0000-0000-0000-000000000002";
const THIRD: &str = "aaaaaaaa-0000-0000-0000-000000000003";

/// Replaces the aggregates or the traits of the root of host one.
async fn set_of_one(by: &Service, what: &str, values: &[&str]) -> Reply {
    let body = json!({"resource_provider_generation": by.generation(ONE).await, what: values});
    by.put(&format!("/resource_providers/{ONE}/{what}"), body)
        .await
}

#[tokio::test]
async fn a_host_keeps_and_leaves_aggregates_and_joins_none() {
    let service = cloud().await;
    let (one, nova) = (service.by("host/one"), service.by("nova"));
    let path = format!("/resource_providers/{ONE}/aggregates");
    let words = "The account of host one may put no resource provider into an aggregate. An operator or the compute API \
                 must put one into";
    let before = service.rows().await;
    let now = set_of_one(&one, "aggregates", &[FIRST]).await;
    refused(&now, 403, &format!("{words} {FIRST}."));
    let before_generations = one.at("1.18").put(&path, json!([FIRST])).await;
    refused(&before_generations, 403, words);
    assert_eq!(service.rows().await, before, "nothing was changed");

    let joined = set_of_one(&nova, "aggregates", &[FIRST, SECOND]).await;
    assert_eq!(joined.status, 200, "{joined:?}");
    let before = service.rows().await;
    let exchanged = set_of_one(&one, "aggregates", &[SECOND, THIRD]).await;
    refused(&exchanged, 403, &format!("{words} {THIRD}."));
    assert_eq!(service.rows().await, before, "nothing was changed");
    for fewer in [&[FIRST, SECOND][..], &[SECOND]] {
        let kept = set_of_one(&one, "aggregates", fewer).await;
        assert_eq!(kept.status, 200, "{kept:?}");
        assert_eq!(kept.body["aggregates"], json!(fewer));
    }
    let none = one.at("1.18").put(&path, json!([])).await;
    assert_eq!(none.status, 200, "{none:?}");
}

#[tokio::test]
async fn a_host_offers_its_inventory_to_no_other_host() {
    let service = cloud().await;
    let (one, nova) = (service.by("host/one"), service.by("nova"));
    let (avx, shares) = ("HW_CPU_X86_AVX2", "MISC_SHARES_VIA_AGGREGATE");
    let words = "The account of host one may not set the trait MISC_SHARES_VIA_AGGREGATE. An operator must set it on one.";
    let before = service.rows().await;
    let shared = set_of_one(&one, "traits", &[avx, shares]).await;
    refused(&shared, 403, words);
    assert_eq!(service.rows().await, before, "nothing was changed");

    let shared = set_of_one(&nova, "traits", &[shares]).await;
    assert_eq!(shared.status, 200, "{shared:?}");
    for kept in [&[avx, shares][..], &[avx]] {
        let kept = set_of_one(&one, "traits", kept).await;
        assert_eq!(kept.status, 200, "{kept:?}");
    }
    let again = set_of_one(&one, "traits", &[avx, shares]).await;
    refused(&again, 403, words);
}

#[tokio::test]
async fn a_host_names_its_providers_after_itself() {
    let service = cloud().await;
    let (one, nova) = (service.by("host/one"), service.by("nova"));
    let gpu = format!("/resource_providers/{ONE_GPU}");
    let child = |name: &str| json!({"name": name, "parent_provider_uuid": ONE});
    let before = service.rows().await;
    for name in [
        "compute4",
        "two_0000:b1:00.0",
        "one-and-more_numa0",
        "One_numa0",
        "on",
    ] {
        let words = format!(
            "The account of host one may not name a resource provider {name}. Its providers are named one, or begin with one_."
        );
        let made = one.post("/resource_providers", child(name)).await;
        refused(&made, 403, &words);
        let renamed = one.put(&gpu, json!({"name": name})).await;
        refused(&renamed, 403, &words);
        let renamed = one.at("1.0").put(&gpu, json!({"name": name})).await;
        refused(&renamed, 403, &words);
    }
    assert_eq!(service.rows().await, before, "nothing was changed");
    for name in ["one_0000:B1:00.0", "one_pci_0000_84_00_0", "one_numa0"] {
        let made = one.post("/resource_providers", child(name)).await;
        assert_eq!(made.status, 200, "{made:?}");
    }

    // The name that an operator gave stays, and the host may replace it with its own.
    for (by, name) in [(&nova, "fpga"), (&one, "fpga"), (&one, "one_fpga")] {
        let renamed = by.put(&gpu, child(name)).await;
        assert_eq!(renamed.status, 200, "{renamed:?}");
    }
}

#[tokio::test]
async fn a_host_gives_its_providers_no_uuid_that_another_host_derives() {
    let service = cloud().await;
    let (one, three) = (service.by("host/one"), service.by("host/three"));
    let name = |text: &str| ProviderName::new(text).unwrap();
    let child = |root: &str, text: &str| {
        let root = ProviderUuid::from(Uuid::parse_str(root).unwrap());
        root.child(&name(text)).to_string()
    };
    let deployable = |text: &str| ProviderUuid::of_deployable(&name(text)).to_string();
    let before = service.rows().await;
    for uuid in [child(TWO, "two_numa0"), deployable("two_0000:b1:00.0")] {
        let body = json!({"uuid": uuid, "name": "one_numa0", "parent_provider_uuid": ONE});
        let made = one.post("/resource_providers", body).await;
        let words = "The account of host one may not give resource provider one_numa0 the UUID";
        refused(&made, 403, words);
        let root = json!({"uuid": uuid, "name": "three"});
        let made = three.post("/resource_providers", root).await;
        let words = "The account of host three may not give resource provider three the UUID";
        refused(&made, 403, words);
    }
    assert_eq!(service.rows().await, before, "nothing was changed");
    for (uuid, name) in [
        (child(ONE, "one_numa0"), "one_numa0"),
        (deployable("one_0000:b1:00.0"), "one_0000:b1:00.0"),
    ] {
        let body = json!({"uuid": uuid, "name": name, "parent_provider_uuid": ONE});
        let made = one.post("/resource_providers", body).await;
        assert_eq!(made.status, 200, "{made:?}");
    }
}

#[tokio::test]
async fn a_host_changes_neither_the_project_nor_the_user_of_a_consumer() {
    let service = cloud().await;
    let (one, nova) = (service.by("host/one"), service.by("nova"));
    let guest = consumer(1);
    let path = format!("/allocations/{guest}");
    let made = one.put(&path, wants(ONE, 1, Value::Null)).await;
    assert_eq!(made.status, 204, "{made:?}");
    let words = format!(
        "The account of host one may not change the project or the user of consumer {guest}."
    );
    let before = service.rows().await;
    for key in ["project_id", "user_id"] {
        let mut other = wants(ONE, 1, json!(1));
        other[key] = json!("other");
        let several = json!({guest.as_str(): other});
        let inventories = json!({ONE: {
            "resource_provider_generation": one.generation(ONE).await,
            "inventories": {"VCPU": {"total": 8}},
        }});
        let reshape = json!({"inventories": inventories, "allocations": several});
        for reply in [
            one.put(&path, other.clone()).await,
            one.post("/allocations", several).await,
            one.post("/reshaper", reshape).await,
        ] {
            refused(&reply, 403, &words);
        }
        let of_version_1_12 = json!({
            "allocations": {ONE: {"resources": {"VCPU": 1}}},
            "project_id": other["project_id"], "user_id": other["user_id"],
        });
        refused(
            &one.at("1.12").put(&path, of_version_1_12).await,
            403,
            &words,
        );
        // The writer of an outdated owner reads the consumer again.
        other["consumer_generation"] = json!(7);
        refused(
            &one.put(&path, other).await,
            409,
            "consumer generation conflict",
        );
    }
    assert_eq!(service.rows().await, before, "nothing was changed");

    let grown = one.put(&path, wants(ONE, 2, json!(1))).await;
    assert_eq!(grown.status, 204, "{grown:?}");
    let mut other = wants(ONE, 2, json!(2));
    other["project_id"] = json!("other");
    let given = nova.put(&path, other).await;
    assert_eq!(given.status, 204, "{given:?}");
    let mut nothing = wants(ONE, 2, json!(3));
    nothing["allocations"] = json!({});
    let released = one.put(&path, nothing).await;
    assert_eq!(released.status, 204, "{released:?}");
}

#[tokio::test]
async fn a_host_searches_for_no_allocation_candidates() {
    let service = cloud().await;
    let search = "/allocation_candidates?resources=VCPU:1";
    let refused = service.by("host/one").get(search).await;
    assert_eq!(refused.status, 403, "{refused:?}");
    assert_eq!(service.by("nova").get(search).await.status, 200);
}
