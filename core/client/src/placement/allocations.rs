//! Allocations of a provider or a consumer. The writes are for tests and tools: the agent never claims or releases.

use std::collections::BTreeMap;

use berth_model::{ConsumerAllocations, ConsumerUuid, ProviderUuid, ResourceClass};
use berth_wire::encode;
use berth_wire::placement::{AllocationsOfConsumer, AllocationsOfProvider, PutAllocations};
use http::Method;

use super::{DeleteOutcome, PlacementClient, PlacementError, WithGeneration, pins, read, write};

const ONE: &str = "/allocations/{consumer}";
const ALL: &str = "/allocations";
const OF_PROVIDER: &str = "/resource_providers/{uuid}/allocations";
const EXPECTED: &str = "a consumer's allocations";

/// A consumer's allocations with its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypedAllocations {
    pub allocations: ConsumerAllocations,
    /// `INSTANCE`, `MIGRATION`, …; `unknown` if it was never set.
    pub consumer_type: String,
}

impl PlacementClient {
    /// The allocations from a provider by consumer and class.
    ///
    /// Errors: No answer, a refusal (unknown provider), or an invalid answer.
    pub async fn provider_allocations(
        &self,
        uuid: ProviderUuid,
    ) -> Result<WithGeneration<BTreeMap<ConsumerUuid, BTreeMap<ResourceClass, u64>>>, PlacementError>
    {
        let call = read(
            OF_PROVIDER,
            format!("/resource_providers/{uuid}/allocations"),
            pins::ALLOCATIONS,
        );
        self.parse(
            call,
            "a provider's allocations",
            |body: AllocationsOfProvider| {
                let generation =
                    berth_model::Generation::answered(body.resource_provider_generation);
                Ok(WithGeneration {
                    generation,
                    value: body.by_consumer()?,
                })
            },
        )
        .await
    }

    /// All allocations of a consumer; `None` if it has none or does not exist.
    pub async fn allocations(
        &self,
        consumer: ConsumerUuid,
    ) -> Result<Option<ConsumerAllocations>, PlacementError> {
        let call = read(ONE, format!("/allocations/{consumer}"), pins::ALLOCATIONS);
        self.parse(call, EXPECTED, AllocationsOfConsumer::into_allocations)
            .await
    }

    /// Like [`PlacementClient::allocations`] with the consumer type; needs microversion 1.38.
    pub async fn typed_allocations(
        &self,
        consumer: ConsumerUuid,
    ) -> Result<Option<TypedAllocations>, PlacementError> {
        let call = read(
            ONE,
            format!("/allocations/{consumer}"),
            pins::CONSUMER_TYPES,
        );
        self.parse(call, EXPECTED, |mut body: AllocationsOfConsumer| {
            let consumer_type = body
                .consumer_type
                .take()
                .unwrap_or_else(|| "unknown".to_owned());
            let allocations = body.into_allocations()?;
            Ok(allocations.map(|allocations| TypedAllocations {
                allocations,
                consumer_type,
            }))
        })
        .await
    }

    /// Replaces all allocations of a consumer, if its generation is the one in `allocations` (none: the
    /// consumer must not exist).
    pub async fn put_allocations(
        &self,
        consumer: ConsumerUuid,
        allocations: &ConsumerAllocations,
    ) -> Result<(), PlacementError> {
        let body = encode(&PutAllocations::new(allocations));
        let path = format!("/allocations/{consumer}");
        self.send_expecting_success(write(Method::PUT, ONE, path, pins::ALLOCATIONS, Some(body)))
            .await
    }

    /// Replaces all allocations of these consumers atomically, so that one may take what another releases.
    ///
    /// Errors: No answer, or a refusal (generation conflict, no capacity).
    pub async fn post_allocations(
        &self,
        all: &BTreeMap<ConsumerUuid, ConsumerAllocations>,
    ) -> Result<(), PlacementError> {
        let all: BTreeMap<String, PutAllocations<'_>> = all
            .iter()
            .map(|(consumer, held)| (consumer.to_string(), PutAllocations::new(held)))
            .collect();
        let call = write(
            Method::POST,
            ALL,
            ALL.to_owned(),
            pins::ALLOCATIONS,
            Some(encode(&all)),
        );
        self.send_expecting_success(call).await
    }

    /// Like [`PlacementClient::put_allocations`] for a consumer of this type (`INSTANCE`, `MIGRATION`,
    /// …); needs microversion 1.38.
    pub async fn put_typed_allocations(
        &self,
        consumer: ConsumerUuid,
        typed: &TypedAllocations,
    ) -> Result<(), PlacementError> {
        let body = encode(&PutAllocations::typed(
            &typed.allocations,
            &typed.consumer_type,
        ));
        let path = format!("/allocations/{consumer}");
        self.send_expecting_success(write(
            Method::PUT,
            ONE,
            path,
            pins::CONSUMER_TYPES,
            Some(body),
        ))
        .await
    }

    /// Releases all allocations of a consumer.
    pub async fn delete_allocations(
        &self,
        consumer: ConsumerUuid,
    ) -> Result<DeleteOutcome, PlacementError> {
        let path = format!("/allocations/{consumer}");
        self.delete(write(Method::DELETE, ONE, path, pins::ALLOCATIONS, None))
            .await
    }
}
