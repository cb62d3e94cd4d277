//! POST /reshaper: its body, and what a loop does about each way it can end.

use std::collections::{BTreeMap, BTreeSet};

use berth_client::{AdapterOptions, Disposition, PlacementError, RetryPolicy, ServiceCallError};
use berth_model::{
    Allocation, Allocations, ConsumerAllocations, DesiredTree, Generation, Home, HomelessReason,
    Homes, Inventory, Move, Plan, Provider, ProviderName, ProviderTree, ProviderUuid,
    ReshapeRequest, ResourceClass, Usages, plan,
};
use uuid::Uuid;

use crate::script::{Reply, Script, answer, connection_reset, error_reply, options};

const ROOT: u128 = 1;
const GPU: u128 = 2;

fn provider(n: u128) -> ProviderUuid {
    Uuid::from_u128(n).into()
}

/// Two VGPU of one consumer go from the root to its GPU.
fn request() -> ReshapeRequest {
    let name = |text| ProviderName::new(text).unwrap();
    let vgpu = || BTreeMap::from([(ResourceClass::VGPU, Inventory::of(8).unwrap())]);
    let mut root = Provider::root(provider(ROOT), name("gpu-01"));
    root.generation = Some(Generation::answered(7));
    root.inventories = vgpu();
    let current = ProviderTree::new(root);
    let mut tree = current.clone();
    tree.root_mut().inventories.clear();
    let mut gpu = Provider::child(provider(GPU), name("gpu-01_pci"), provider(ROOT));
    gpu.inventories = vgpu();
    tree.insert(gpu).unwrap();
    let moves = vec![Move {
        provider: provider(ROOT),
        class: ResourceClass::VGPU,
        to: BTreeSet::from([ResourceClass::VGPU]),
        reason: "each GPU has its own provider",
    }];
    let Plan::ReshapeNeeded(pending) = plan(
        &current,
        DesiredTree {
            tree,
            moves,
            held_traits: std::collections::BTreeMap::new(),
        },
        &Usages::new(),
    ) else {
        panic!("moved inventory needs a reshape")
    };
    let held = ConsumerAllocations {
        project_id: "p".into(),
        user_id: "u".into(),
        generation: Some(Generation::answered(4)),
        resources: BTreeMap::from([((provider(ROOT), ResourceClass::VGPU), 2)]),
    };
    let allocations: Allocations = [(Uuid::from_u128(9).into(), held)].into_iter().collect();
    let to_the_gpu = |allocation: &Allocation, _: &Allocations| Homes::At {
        homes: vec![Home {
            provider: provider(GPU),
            class: ResourceClass::VGPU,
            amount: allocation.amount,
        }],
        rest: HomelessReason::Unknown,
    };
    pending.resolve(&allocations, to_the_gpu).unwrap()
}

fn generations() -> BTreeMap<ProviderUuid, Generation> {
    BTreeMap::from([
        (provider(ROOT), Generation::answered(7)),
        (provider(GPU), Generation::answered(0)),
    ])
}

async fn reshape(reply: Reply) -> (Script, Result<(), PlacementError>) {
    let script = Script::of(vec![reply]);
    let retry = RetryPolicy {
        connect_retries: 3,
        status_code_retries: 3,
        ..RetryPolicy::default()
    };
    let client = script.placement_with(&AdapterOptions { retry, ..options() });
    let result = client.reshape(&request(), &generations()).await;
    (script, result)
}

#[tokio::test]
async fn a_reshape_is_one_request_with_everything_in_it() {
    let (script, result) = reshape(answer(204, "")).await;
    result.unwrap();
    assert_eq!(script.lines(), ["POST /reshaper [placement 1.30]"]);
    insta::assert_snapshot!(script.seen()[0].body, @r#"{"inventories":{"00000000-0000-0000-0000-000000000001":{"resource_provider_generation":7,"inventories":{}},"00000000-0000-0000-0000-000000000002":{"resource_provider_generation":0,"inventories":{"VGPU":{"total":8,"reserved":0,"min_unit":1,"max_unit":8,"step_size":1,"allocation_ratio":1.0}}}},"allocations":{"00000000-0000-0000-0000-000000000009":{"allocations":{"00000000-0000-0000-0000-000000000002":{"resources":{"VGPU":2}}},"project_id":"p","user_id":"u","consumer_generation":4}}}"#);
}

#[tokio::test]
async fn a_reshape_without_a_generation_is_not_sent() {
    let script = Script::of(vec![answer(204, "")]);
    let mut generations = generations();
    generations.remove(&provider(GPU));
    let error = script
        .placement()
        .reshape(&request(), &generations)
        .await
        .unwrap_err();
    assert_eq!(error.disposition(), Disposition::Refresh);
    insta::assert_snapshot!(error, @"the generation of provider 00000000-0000-0000-0000-000000000002 is not known; the provider has to be created or read before the reshape");
    assert_eq!(script.lines().len(), 0);
}

#[tokio::test]
async fn each_way_a_reshape_ends_has_its_disposition_and_is_sent_once() {
    for (reply, disposition) in [
        (
            error_reply(409, "placement.concurrent_update", "generation"),
            Disposition::Refresh,
        ),
        (
            error_reply(409, "placement.inventory.inuse", "in use"),
            Disposition::Refresh,
        ),
        (
            error_reply(
                409,
                "placement.undefined_code",
                "Unable to allocate inventory",
            ),
            Disposition::Fatal,
        ),
        (
            error_reply(400, "placement.resource_provider.not_found", "gone"),
            Disposition::Refresh,
        ),
        (
            error_reply(400, "placement.undefined_code", "does not validate"),
            Disposition::Fatal,
        ),
        (
            error_reply(403, "placement.undefined_code", "denied"),
            Disposition::Fatal,
        ),
        (
            error_reply(500, "placement.undefined_code", "broken"),
            Disposition::Refresh,
        ),
        (answer(504, "<html>"), Disposition::Refresh),
        (connection_reset(), Disposition::Refresh),
    ] {
        let (script, result) = reshape(reply.clone()).await;
        assert_eq!(result.unwrap_err().disposition(), disposition, "{reply:?}");
        assert_eq!(script.lines().len(), 1, "{reply:?}");
    }
}

#[tokio::test]
async fn a_lost_answer_says_so() {
    let error = reshape(connection_reset()).await.1.unwrap_err();
    assert!(
        matches!(
            error,
            PlacementError::Call(ServiceCallError::AnswerLost { .. })
        ),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_missing_role_is_named() {
    let error = reshape(error_reply(
        403,
        "placement.undefined_code",
        "Access was denied to this resource.",
    ))
    .await;
    insta::assert_snapshot!(error.1.unwrap_err(), @"Placement answers POST /reshaper with 403 placement.undefined_code (req-answer): Access was denied to this resource; a Placement with auth_strategy = \"noauth2\" accepts the token admin only; another one needs the account of a user");
}
