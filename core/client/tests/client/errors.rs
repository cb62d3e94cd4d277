//! What each refusal becomes: its kind, what a loop does about it, its sentence.

use std::collections::BTreeMap;

use berth_client::{Disposition, PlacementClient, PlacementError};
use berth_model::{Generation, Provider, ProviderName, ProviderUuid, Trait};
use uuid::Uuid;

use crate::script::{Reply, Script, answer, error_reply};

fn root() -> ProviderUuid {
    Uuid::from_u128(1).into()
}

const VERSIONS: &str =
    r#"{"versions": [{"id": "v1.0", "max_version": "1.39", "min_version": "1.0"}]}"#;

/// Placement that gives this answer to all requests but that for its versions.
fn placement(reply: Reply) -> PlacementClient {
    let script = Script::new(move |_, seen| match seen.line().as_str() {
        "GET / [-]" => answer(200, VERSIONS),
        _ => reply.clone(),
    });
    script.placement()
}

async fn put(reply: Reply) -> PlacementError {
    let client = placement(reply);
    client
        .put_inventories(root(), Generation::answered(1), &BTreeMap::new())
        .await
        .unwrap_err()
}

async fn read(reply: Reply) -> PlacementError {
    placement(reply).inventories(root()).await.unwrap_err()
}

#[tokio::test]
async fn codes_distinguish_conflicts() {
    use Disposition::{Fatal, Refresh, Retry};
    for (status, code, kind, disposition) in [
        (409, "placement.concurrent_update", "Conflict", Refresh),
        (409, "placement.inventory.inuse", "InventoryInUse", Refresh),
        (409, "placement.duplicate_name", "NameTaken", Fatal),
        (
            409,
            "placement.resource_provider.inuse",
            "ProviderInUse",
            Refresh,
        ),
        (
            409,
            "placement.resource_provider.cannot_delete_parent",
            "HasChildren",
            Refresh,
        ),
        (409, "placement.undefined_code", "Conflict", Refresh),
        (409, "placement.something_new", "Conflict", Refresh),
        (404, "placement.undefined_code", "NotFound", Refresh),
        (
            400,
            "placement.resource_provider.not_found",
            "NotFound",
            Refresh,
        ),
        (400, "placement.undefined_code", "Refused", Fatal),
        (401, "placement.undefined_code", "Unauthorized", Fatal),
        (403, "placement.undefined_code", "Forbidden", Fatal),
        (406, "placement.undefined_code", "Refused", Fatal),
        (413, "placement.undefined_code", "Refused", Fatal),
        (408, "placement.undefined_code", "Unavailable", Retry),
        (429, "placement.undefined_code", "Unavailable", Retry),
        (500, "placement.undefined_code", "Unavailable", Retry),
        (503, "placement.undefined_code", "Unavailable", Retry),
    ] {
        let error = put(error_reply(status, code, "m")).await;
        let debug = format!("{error:?}");
        assert!(debug.starts_with(kind), "{status} {code}: {debug}");
        assert_eq!(error.disposition(), disposition, "{status} {code}");
        assert_eq!(error.refusal().unwrap().request_id, "req-answer");
    }
}

#[tokio::test]
async fn over_capacity_on_allocations_is_no_conflict() {
    let script = Script::of(vec![error_reply(
        409,
        "placement.undefined_code",
        "Unable to allocate inventory",
    )]);
    let allocations = berth_model::ConsumerAllocations {
        project_id: "p".into(),
        user_id: "u".into(),
        generation: None,
        resources: BTreeMap::new(),
    };
    let consumer = Uuid::from_u128(1).into();
    let error = script
        .placement()
        .put_allocations(consumer, &allocations)
        .await
        .unwrap_err();
    assert!(matches!(error, PlacementError::Refused(_)), "{error:?}");
    assert_eq!(error.disposition(), Disposition::Fatal);
}

#[tokio::test]
async fn sentences_say_what_was_asked_what_came_back_and_what_to_do() {
    insta::assert_snapshot!(put(error_reply(409, "placement.concurrent_update", "resource provider generation conflict")).await, @"Placement answers PUT /resource_providers/00000000-0000-0000-0000-000000000001/inventories with 409 placement.concurrent_update (req-answer): resource provider generation conflict; it was changed concurrently and has to be read again");
    insta::assert_snapshot!(put(error_reply(403, "placement.undefined_code", "Access was denied")).await, @"Placement answers PUT /resource_providers/00000000-0000-0000-0000-000000000001/inventories with 403 placement.undefined_code (req-answer): Access was denied; a Placement with auth_strategy = \"noauth2\" accepts the token admin only; another one needs the account of a user");
    insta::assert_snapshot!(put(error_reply(503, "placement.undefined_code", "")).await, @"Placement answers PUT /resource_providers/00000000-0000-0000-0000-000000000001/inventories with 503 placement.undefined_code (req-answer); its log says more under that request id");
    insta::assert_snapshot!(put(answer(413, "<html>Request Entity\nToo Large</html>")).await, @"Placement answers PUT /resource_providers/00000000-0000-0000-0000-000000000001/inventories with 413 (req-answer): Request Entity Too Large; a proxy before Placement limits the size of requests (LimitRequestBody, client_max_body_size): raise it");
    insta::assert_snapshot!(put(answer(302, "")).await, @"Placement answers PUT /resource_providers/00000000-0000-0000-0000-000000000001/inventories with 302 (req-answer); redirects are not followed: set endpoint_override to where it points");
    insta::assert_snapshot!(put(answer(401, r#"{"message": "The request you have made requires authentication.", "code": "401 Unauthorized", "title": "Unauthorized"}"#)).await, @"Placement answers PUT /resource_providers/00000000-0000-0000-0000-000000000001/inventories with 401 (req-answer); a Placement with auth_strategy = \"noauth2\" accepts the token admin only; another one needs the account of a user");
    insta::assert_snapshot!(put(answer(406, r#"{"errors": [{"status": 406, "title": "Not Acceptable", "detail": "s\n\n Unacceptable version header: 1.26", "request_id": "r", "max_version": "1.10", "min_version": "1.0"}]}"#.replace('\n', "\\n"))).await, @"Placement answers PUT /resource_providers/00000000-0000-0000-0000-000000000001/inventories with 406 (req-answer): Unacceptable version header: 1.26; it speaks the microversions 1.0 to 1.10, and this call needs another: berth needs Placement of Rocky (1.30) or later");
    insta::assert_snapshot!(put(error_reply(400, "placement.undefined_code", "JSON does not validate")).await, @"Placement answers PUT /resource_providers/00000000-0000-0000-0000-000000000001/inventories with 400 placement.undefined_code (req-answer): JSON does not validate; Placement does not accept this request as berth makes it: its log says more under that request id, berth doctor compares versions");
    insta::assert_snapshot!(put(answer(405, "")).await, @"Placement answers PUT /resource_providers/00000000-0000-0000-0000-000000000001/inventories with 405 (req-answer); Placement does not answer with this status: check which service has that URL (openstack endpoint list --service placement, endpoint_override), and the proxies before it");
    let taken = Script::of(vec![error_reply(
        409,
        "placement.duplicate_name",
        "Conflicting resource provider name: gpu-01 already exists.",
    )]);
    let provider = Provider::root(root(), ProviderName::new("gpu-01").unwrap());
    insta::assert_snapshot!(taken.placement().create_provider(&provider).await.unwrap_err(), @"Placement answers POST /resource_providers with 409 placement.duplicate_name (req-answer): Conflicting resource provider name: gpu-01 already exists; if this host was renamed or its compute_id file was lost, restore the file with the UUID of the existing provider (openstack resource provider list --name NAME)");
}

#[tokio::test]
async fn answers_that_are_not_placements_are_named_by_route_and_expectation() {
    insta::assert_snapshot!(read(answer(200, "<html>hello</html>")).await, @r#"the answer to GET /resource_providers/00000000-0000-0000-0000-000000000001/inventories (200, req-answer) is not a provider's inventories: not a JSON document: expected value at line 1 column 1 (it begins "<html>hello</html>")"#);
    insta::assert_snapshot!(read(answer(200, r#"{"resource_provider_generation": 1, "inventories": {"VGPU": {"to"#)).await, @r#"the answer to GET /resource_providers/00000000-0000-0000-0000-000000000001/inventories (200, req-answer) is not a provider's inventories: not a JSON document: EOF while parsing a string at line 1 column 64 (it begins "{\"resource_provider_generation\": 1, \"inventories\": {\"VGPU\": {\"to")"#);
    insta::assert_snapshot!(read(answer(200, r#"{"resource_provider_generation": 1, "inventories": {"VGPU": {"total": "8"}}}"#)).await, @r#"the answer to GET /resource_providers/00000000-0000-0000-0000-000000000001/inventories (200, req-answer) is not a provider's inventories: inventories.VGPU.total: invalid type: string "8", expected i64 at line 1 column 73"#);
    insta::assert_snapshot!(read(answer(200, r#"{"resource_provider_generation": 1, "inventories": {"VGPU": {"total": -8}}}"#)).await, @"the answer to GET /resource_providers/00000000-0000-0000-0000-000000000001/inventories (200, req-answer) is not a provider's inventories: inventories.VGPU.total: -8 is out of range, 1 to 2147483647 is allowed");
    insta::assert_snapshot!(read(answer(200, "")).await, @r#"the answer to GET /resource_providers/00000000-0000-0000-0000-000000000001/inventories (200, req-answer) is not a provider's inventories: not a JSON document: EOF while parsing a value at line 1 column 0 (it begins "")"#);
    let error = read(answer(200, "[]")).await;
    assert_eq!(error.disposition(), Disposition::Retry);
    let error = put(answer(200, "[]")).await;
    assert_eq!(
        error.disposition(),
        Disposition::Refresh,
        "the write was done, its generation is unknown"
    );
}

#[tokio::test]
async fn a_strange_404_does_not_say_that_a_provider_is_gone() {
    let client = placement(answer(404, "<html>no such site</html>"));
    let error = client.provider(root()).await.unwrap_err();
    assert!(
        matches!(error, PlacementError::Malformed { .. }),
        "{error:?}"
    );
    let error = client.delete_provider(root()).await.unwrap_err();
    assert!(
        matches!(error, PlacementError::Malformed { .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn long_queries_and_long_messages_are_cut() {
    let script = Script::of(vec![answer(500, "x ".repeat(5000))]);
    let error = script
        .placement()
        .known_traits(&[Trait::COMPUTE_NODE].into())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("Placement answers GET /traits with 500"),
        "{error}"
    );
    assert!(error.len() < 700, "{}", error.len());
}

#[tokio::test]
async fn a_url_of_another_service_is_not_placement() {
    for (what, reply, found) in [
        (
            "Cyborg's 404",
            answer(404, r#"{"error_message": "{\"faultcode\": \"Client\"}"}"#),
            "GET / answers 404",
        ),
        (
            "Keystone's 401",
            answer(401, r#"{"error": {"code": 401, "message": "m"}}"#),
            "GET / answers 401",
        ),
        (
            "a web server's page",
            answer(200, "<html>It works!</html>"),
            "no version document",
        ),
    ] {
        let script = Script::of(vec![reply]);
        let error = script.placement().provider(root()).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "http://placement is not a Placement API ({found}); its URL is [placement] endpoint_override, or by default the \
                 catalog's (openstack endpoint list --service placement)"
            ),
            "{what}"
        );
        assert_eq!(error.disposition(), Disposition::Fatal, "{what}");
    }
    // A service that is starting says nothing about the URL.
    let script = Script::of(vec![answer(404, ""), answer(503, "")]);
    let error = script.placement().provider(root()).await.unwrap_err();
    assert!(
        matches!(error, PlacementError::Malformed { .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_placement_that_has_answered_once_is_not_doubted() {
    let script = Script::of(vec![
        answer(200, r#"{"resource_providers": []}"#),
        answer(404, "<html>no backend</html>"),
    ]);
    let client = script.placement();
    client.providers_in_tree(root()).await.unwrap();
    let error = client.provider(root()).await.unwrap_err();
    assert_eq!(error.disposition(), Disposition::Retry, "{error}");
    assert_eq!(script.seen().len(), 2, "the versions are not read");
}
