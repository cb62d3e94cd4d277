//! Fills a Placement with the objects that a scheduler, an operator or another host would have created.

use std::collections::BTreeMap;

use berth_client::PlacementClient;
use berth_client::placement::TypedAllocations;
use berth_model::{
    AggregateUuid, ConsumerAllocations, ConsumerUuid, Inventory, Provider, ProviderName,
    ProviderUuid, ResourceClass, Trait,
};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use uuid::Uuid;

/// The project and user of every consumer.
pub const PROJECT: &str = "project";

#[derive(Debug, Clone)]
pub struct Claim {
    pub consumer: ConsumerUuid,
    /// `INSTANCE`, `MIGRATION`.
    pub kind: &'static str,
    pub resources: BTreeMap<(ProviderUuid, ResourceClass), u64>,
}

impl Claim {
    /// An instance's claim of nothing yet.
    #[must_use]
    pub fn of(consumer: ConsumerUuid) -> Self {
        Self {
            consumer,
            kind: "INSTANCE",
            resources: BTreeMap::new(),
        }
    }

    #[must_use]
    pub fn migrating(mut self) -> Self {
        self.kind = "MIGRATION";
        self
    }

    /// And so much of this.
    #[must_use]
    pub fn and(mut self, provider: ProviderUuid, class: &ResourceClass, amount: u64) -> Self {
        self.resources.insert((provider, class.clone()), amount);
        self
    }

    /// And what every guest of one vCPU and 256 MiB takes of a root.
    #[must_use]
    pub fn and_a_guest(self, root: ProviderUuid) -> Self {
        self.and(root, &ResourceClass::VCPU, 1)
            .and(root, &ResourceClass::MEMORY_MB, 256)
    }
}

/// Makes the claims, several at a time.
///
/// # Panics
/// Placement does not take one.
pub async fn claim(placement: &PlacementClient, claims: Vec<Claim>) {
    let made = stream::iter(claims).map(|claim| async move {
        let typed = TypedAllocations {
            allocations: ConsumerAllocations {
                project_id: PROJECT.to_owned(),
                user_id: PROJECT.to_owned(),
                generation: None,
                resources: claim.resources,
            },
            consumer_type: claim.kind.to_owned(),
        };
        // The real Placement answers some of several writers with a conflict or "database is locked".
        for _ in 0..20 {
            let made = placement
                .put_typed_allocations(claim.consumer, &typed)
                .await;
            match made {
                Err(error) if error.disposition() != berth_model::Disposition::Fatal => {}
                made => return made,
            }
        }
        placement
            .put_typed_allocations(claim.consumer, &typed)
            .await
    });
    let made: Result<Vec<()>, _> = made.buffer_unordered(4).try_collect().await;
    made.expect("Placement takes the claims");
}

/// What is outside a host's own tree.
#[derive(Debug, Clone, Copy)]
pub struct Neighbours {
    /// A sharing provider of DISK_GB.
    pub storage: ProviderUuid,
    pub other: ProviderUuid,
    /// The aggregate that brings the storage in.
    pub aggregate: AggregateUuid,
}

/// Makes a sharing provider `storage` of 100,000 GiB and another host `other-01` of 64 CPUs and 64 GiB.
///
/// # Panics
/// Placement does not take them.
pub async fn neighbours(placement: &PlacementClient) -> Neighbours {
    let neighbours = Neighbours {
        storage: Uuid::from_u128(0x5704).into(),
        other: Uuid::from_u128(0x07e4).into(),
        aggregate: Uuid::from_u128(0xa99).into(),
    };
    let storage = [(ResourceClass::DISK_GB, 100_000)];
    add(
        placement,
        neighbours.storage,
        "storage",
        None,
        &storage,
        &[Trait::MISC_SHARES_VIA_AGGREGATE],
    )
    .await;
    join(placement, neighbours.storage, neighbours.aggregate).await;
    let other = [
        (ResourceClass::VCPU, 6400),
        (ResourceClass::MEMORY_MB, 65_536),
    ];
    add(placement, neighbours.other, "other-01", None, &other, &[]).await;
    neighbours
}

/// Creates a provider with inventories and traits, as another client would.
///
/// # Panics
/// Placement refuses.
pub async fn add(
    placement: &PlacementClient,
    uuid: ProviderUuid,
    name: &str,
    parent: Option<ProviderUuid>,
    inventories: &[(ResourceClass, u64)],
    traits: &[Trait],
) {
    let name = ProviderName::new(name).expect("a provider's name");
    let provider = match parent {
        Some(parent) => Provider::child(uuid, name, parent),
        None => Provider::root(uuid, name),
    };
    let made = placement
        .create_provider(&provider)
        .await
        .expect("a new provider");
    let mut generation = made.generation.expect("an answer with a generation");
    if !inventories.is_empty() {
        let inventories = inventories
            .iter()
            .map(|(class, total)| (class.clone(), Inventory::of(*total).expect("an amount")))
            .collect();
        generation = placement
            .put_inventories(uuid, generation, &inventories)
            .await
            .expect("inventories that Placement takes");
    }
    if !traits.is_empty() {
        let traits = traits.iter().cloned().collect();
        placement
            .put_traits(uuid, generation, &traits)
            .await
            .expect("traits that Placement takes");
    }
}

/// Makes a provider a member of an aggregate too, as an operator would.
///
/// # Panics
/// Placement does not take it.
pub async fn join(placement: &PlacementClient, provider: ProviderUuid, aggregate: AggregateUuid) {
    let now = placement.aggregates(provider).await.expect("a provider");
    let mut aggregates = now.value;
    aggregates.insert(aggregate);
    placement
        .put_aggregates(provider, now.generation, &aggregates)
        .await
        .expect("aggregates that Placement takes");
}
