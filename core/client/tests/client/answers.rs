//! Properties: whatever a service answers, a call ends in a value or a typed error, never a panic.

use std::collections::BTreeSet;

use berth_model::{ProviderName, ProviderUuid, Trait};
use proptest::prelude::*;
use uuid::Uuid;

use crate::script::Script;

fn every_call(status: u16, body: &[u8]) {
    let reply = http::Response::builder()
        .status(status)
        .body(bytes::Bytes::copy_from_slice(body))
        .unwrap();
    let client = Script::of(vec![Ok(reply)]).placement();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let root: ProviderUuid = Uuid::from_u128(1).into();
    let provider = berth_model::Provider::root(root, ProviderName::new("a").unwrap());
    runtime.block_on(async {
        let mut errors = Vec::new();
        errors.extend(client.version_document().await.err());
        errors.extend(client.providers_in_tree(root).await.err());
        errors.extend(client.provider(root).await.err());
        errors.extend(client.create_provider(&provider).await.err());
        errors.extend(client.delete_provider(root).await.err());
        errors.extend(client.inventories(root).await.err());
        errors.extend(client.traits(root).await.err());
        errors.extend(client.aggregates(root).await.err());
        errors.extend(
            client
                .known_traits(&BTreeSet::from([Trait::COMPUTE_NODE]))
                .await
                .err(),
        );
        errors.extend(client.resource_classes().await.err());
        errors.extend(client.usages(root).await.err());
        errors.extend(client.provider_allocations(root).await.err());
        errors.extend(client.allocations(Uuid::from_u128(2).into()).await.err());
        for error in errors {
            assert!(error.to_string().len() < 3000);
            let _ = error.disposition();
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_answer_makes_a_call_panic(status in 200u16..600, body in prop::collection::vec(any::<u8>(), 0..300)) {
        every_call(status, &body);
    }

    #[test]
    fn no_answer_of_json_makes_a_call_panic(status in 200u16..600, body in "[\\[\\]{}:,\"a-z0-9_ -]{0,120}") {
        every_call(status, body.as_bytes());
    }
}
