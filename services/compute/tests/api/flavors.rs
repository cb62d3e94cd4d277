//! Tests of flavors: created, listed page by page, described, deleted.

use serde_json::{Value, json};

use super::service::Service;

fn ids(reply: &super::service::Reply) -> Vec<String> {
    let flavors = reply.body["flavors"].as_array();
    let flavors = flavors.unwrap_or_else(|| panic!("{reply:?}"));
    flavors
        .iter()
        .map(|one| one["id"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_flavor_is_made_with_the_given_values_and_novas_defaults_for_the_rest() {
    let service = Service::start().await;
    let body = json!({"flavor": {"name": "small", "id": "1", "ram": "512", "vcpus": 2, "disk": 0}});
    let made = service
        .ask("admin", "2.1", "POST", "/flavors", Some(body))
        .await;
    assert_eq!(made.status, 200, "{made:?}");
    let href = "http://cloud.example/compute";
    let expected = json!({"flavor": {
        "id": "1", "name": "small", "ram": 512, "vcpus": 2, "disk": 0, "swap": "", "OS-FLV-EXT-DATA:ephemeral": 0,
        "OS-FLV-DISABLED:disabled": false, "os-flavor-access:is_public": true, "rxtx_factor": 1.0,
        "links": [
            {"rel": "self", "href": format!("{href}/v2.1/flavors/1")},
            {"rel": "bookmark", "href": format!("{href}/flavors/1")},
        ],
    }});
    assert_eq!(made.body, expected);
    assert_eq!(
        service.get("alice", "2.1", "/flavors/1").await.body,
        expected
    );
}

#[tokio::test]
async fn what_a_flavor_shows_depends_on_the_version() {
    let service = Service::start().await;
    let made = service.flavor("a", json!({"description": "fast"})).await;
    assert_eq!(made.status, 200, "{made:?}");
    for (version, description, specs, swap) in [
        ("2.54", None, None, json!("")),
        ("2.55", Some("fast"), None, json!("")),
        ("2.61", Some("fast"), Some(json!({})), json!("")),
        ("2.75", Some("fast"), Some(json!({})), json!(0)),
    ] {
        let shown = service.get("alice", version, "/flavors/a").await.body;
        let flavor = &shown["flavor"];
        assert_eq!(
            flavor.get("description").and_then(Value::as_str),
            description,
            "{version}"
        );
        assert_eq!(flavor.get("extra_specs").cloned(), specs, "{version}");
        assert_eq!(flavor["swap"], swap, "{version}");
        let list = service.get("alice", version, "/flavors").await.body;
        let brief = list["flavors"][0].as_object().unwrap();
        assert_eq!(
            brief.contains_key("description"),
            description.is_some(),
            "{version}"
        );
        assert!(!brief.contains_key("ram"), "{version}");
    }
}

#[tokio::test]
async fn a_flavor_without_an_id_gets_a_uuid() {
    let service = Service::start().await;
    for (name, id) in [("a", json!("auto")), ("b", Value::Null)] {
        let body = json!({"flavor": {"name": name, "id": id, "ram": 1, "vcpus": 1, "disk": 1}});
        let made = service
            .ask("admin", "", "POST", "/flavors", Some(body))
            .await;
        let id = made.body["flavor"]["id"].as_str().unwrap();
        assert_eq!((id.len(), id.matches('-').count()), (36, 4), "{id}");
    }
}

#[tokio::test]
async fn what_is_wrong_in_a_flavor_is_named() {
    let service = Service::start().await;
    for (more, named) in [
        (json!({"ram": 0}), "attribute ram. Value: 0"),
        (json!({"vcpus": 2_147_483_648_u64}), "attribute vcpus"),
        (json!({"vcpus": 1.5}), "attribute vcpus. Value: 1.5"),
        (json!({"disk": -1}), "attribute disk. Value: -1"),
        (json!({"swap": "much"}), "attribute swap. Value: \"much\""),
        (json!({"name": ""}), "attribute name"),
        (json!({"name": " a"}), "attribute name"),
        (json!({"name": "a".repeat(256)}), "attribute name"),
        (json!({"id": "a/b"}), "attribute id. Value: \"a/b\""),
        (json!({"rxtx_factor": 0}), "attribute rxtx_factor"),
        (
            json!({"os-flavor-access:is_public": "perhaps"}),
            "os-flavor-access:is_public",
        ),
        (
            json!({"OS-FLV-EXT-DATA:ephemeral": -1}),
            "OS-FLV-EXT-DATA:ephemeral",
        ),
        (json!({"description": 1}), "attribute description"),
        (json!({"colour": "red"}), "('colour' was unexpected)"),
    ] {
        let refused = service.flavor("a", more.clone()).await;
        assert_eq!(refused.status, 400, "{more}");
        let message = refused.message("badRequest");
        assert!(message.contains(named), "{more}: {message}");
    }
    for (body, named) in [
        (json!({}), "'flavor' is a required property"),
        (json!({"flavor": []}), "attribute flavor. Value: []"),
        (
            json!({"flavor": {"name": "a", "vcpus": 1, "disk": 1}}),
            "'ram' is a required property",
        ),
        (json!({"flavor": {}, "more": 1}), "('more' was unexpected)"),
    ] {
        let refused = service
            .ask("admin", "", "POST", "/flavors", Some(body.clone()))
            .await;
        let message = refused.message("badRequest");
        assert!(message.contains(named), "{body}: {message}");
    }
    // Older versions have no such field.
    let body =
        json!({"flavor": {"name": "a", "ram": 1, "vcpus": 1, "disk": 1, "description": "d"}});
    let early = service
        .ask("admin", "2.54", "POST", "/flavors", Some(body))
        .await;
    assert_eq!(early.status, 400);
}

#[tokio::test]
async fn names_and_ids_are_each_flavors_own() {
    let service = Service::start().await;
    service.flavor("a", json!({})).await;
    let same = service.flavor("a", json!({"name": "other"})).await;
    assert_eq!(
        same.message("conflictingRequest"),
        "Flavor with ID a already exists."
    );
    let same = service.flavor("b", json!({"name": "n-a"})).await;
    assert_eq!(
        same.message("conflictingRequest"),
        "Flavor with name n-a already exists."
    );
    assert_eq!(
        service.flavor("A", json!({"name": "N-A"})).await.status,
        200
    );
}

#[tokio::test]
async fn a_list_is_filtered_sorted_and_paged() {
    let service = Service::start().await;
    for (id, ram, disk, public) in [
        ("a", 512, 30, true),
        ("b", 256, 20, true),
        ("c", 1024, 10, true),
        ("d", 2048, 5, false),
    ] {
        let more = json!({"ram": ram, "disk": disk, "os-flavor-access:is_public": public});
        assert_eq!(service.flavor(id, more).await.status, 200);
    }
    for (token, query, expected) in [
        ("alice", "", "abc"),
        ("admin", "", "abc"),
        ("admin", "?is_public=None", "abcd"),
        ("admin", "?is_public=false", "d"),
        ("alice", "?is_public=None", "abc"),
        ("alice", "?minRam=512", "ac"),
        ("alice", "?minDisk=20", "ab"),
        ("alice", "?minRam=512&minDisk=20", "a"),
        ("alice", "?sort_key=memory_mb", "bac"),
        ("alice", "?sort_key=memory_mb&sort_dir=desc", "cab"),
        ("alice", "?sort_key=created_at&sort_dir=desc", "cba"),
        ("alice", "?limit=2", "ab"),
        ("alice", "?limit=2&marker=b", "c"),
        ("alice", "?limit=0", ""),
    ] {
        for path in ["/flavors", "/flavors/detail"] {
            let list = service.get(token, "2.82", &format!("{path}{query}")).await;
            assert_eq!(ids(&list).concat(), expected, "{token} {path}{query}");
        }
    }
    let page = service
        .get("alice", "", "/flavors/detail?limit=2&sort_key=name")
        .await;
    assert_eq!(
        page.body["flavors_links"],
        json!([{"rel": "next",
                "href": "http://cloud.example/compute/v2.1/flavors/detail?limit=2&sort_key=name&marker=b"}])
    );
    let last = service.get("alice", "", "/flavors?limit=2&marker=b").await;
    assert_eq!(last.body.get("flavors_links"), None);
}

#[tokio::test]
async fn what_is_wrong_in_a_query_is_named() {
    let service = Service::start().await;
    for (query, named) in [
        ("limit=-1", "limit"),
        ("marker=none", "marker [none] not found"),
        ("sort_key=colour", "Invalid sort_key [colour]"),
        ("sort_dir=up", "Invalid sort_dir [up]"),
        ("minRam=much", "Invalid minRam filter [much]"),
        ("minDisk=much", "Invalid minDisk filter [much]"),
        ("is_public=perhaps", "Invalid is_public filter [perhaps]"),
        ("colour=red", "('colour' was unexpected)"),
    ] {
        let refused = service
            .get("admin", "2.75", &format!("/flavors?{query}"))
            .await;
        let message = refused.message("badRequest");
        assert!(message.contains(named), "{query}: {message}");
    }
    let early = service.get("admin", "2.74", "/flavors?colour=red").await;
    assert_eq!(early.status, 200);
}

#[tokio::test]
async fn a_description_is_changed_and_nothing_else() {
    let service = Service::start().await;
    service.flavor("a", json!({})).await;
    let put = async |version: &str, flavor: Value| {
        let body = Some(json!({"flavor": flavor}));
        service
            .ask("admin", version, "PUT", "/flavors/a", body)
            .await
    };
    let changed = put("2.55", json!({"description": "new"})).await;
    assert_eq!(changed.body["flavor"]["description"], "new", "{changed:?}");
    let taken = put("2.55", json!({"description": null})).await;
    assert_eq!(taken.body["flavor"]["description"], Value::Null);
    assert_eq!(put("2.55", json!({})).await.status, 400);
    let more = json!({"description": "d", "ram": 1});
    assert_eq!(put("2.55", more).await.status, 400);
    assert_eq!(put("2.54", json!({"description": "d"})).await.status, 404);
}

#[tokio::test]
async fn a_flavor_that_is_removed_is_gone_with_all_that_it_had() {
    let service = Service::start().await;
    service
        .flavor("a", json!({"os-flavor-access:is_public": false}))
        .await;
    let specs = json!({"extra_specs": {"hw:cpu_policy": "dedicated"}});
    let set = service
        .ask(
            "admin",
            "",
            "POST",
            "/flavors/a/os-extra_specs",
            Some(specs),
        )
        .await;
    assert_eq!(set.status, 200);
    let add = json!({"addTenantAccess": {"tenant": "project-of-p"}});
    let added = service
        .ask("admin", "", "POST", "/flavors/a/action", Some(add))
        .await;
    assert_eq!(added.status, 200);
    let gone = service.ask("admin", "", "DELETE", "/flavors/a", None).await;
    assert_eq!(gone.status, 202);
    let again = service.ask("admin", "", "DELETE", "/flavors/a", None).await;
    assert_eq!(
        again.message("itemNotFound"),
        "Flavor a could not be found."
    );
    assert_eq!(
        service.flavor("a", json!({})).await.body["flavor"]["extra_specs"],
        json!({})
    );
}
