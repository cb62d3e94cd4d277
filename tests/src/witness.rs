//! Records every write to Placement for the audit: its content, the generations that it is based on, and its answer;
//! and Placement's rows immediately before and after a reshape.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use berth_client::{HttpService, TransportError};
use berth_invariants::{AllocatedAmounts, Answer, Fact, PlacementWrite, Reshape};
use berth_model::{ConsumerUuid, Generation, Inventory, ProviderUuid, ResourceClass, Trait};
use berth_store::SqlStore;
use berth_wire::placement::InventoryBody;
use bytes::Bytes;
use http::{Method, Request, Response};
use serde_json::Value;

use crate::worlds::{PlacementRows, Rows};

#[derive(Debug, Clone, Default)]
pub struct WitnessReport {
    /// The writes, in the order of their answers.
    pub writes: Vec<PlacementWrite>,
    /// The reshapes that Placement took.
    pub reshapes: Vec<Reshape>,
}

#[derive(Debug, Clone, Default)]
pub struct Witness(Arc<Mutex<WitnessReport>>);

impl Witness {
    /// The built-in Placement with this witness before it.
    #[must_use]
    pub fn before(&self, placement: HttpService, store: &SqlStore) -> HttpService {
        let (witness, store) = (self.clone(), store.clone());
        HttpService::new(tower::service_fn(move |request| {
            let (witness, placement, store) = (witness.clone(), placement.clone(), store.clone());
            async move { witness.see(request, &placement, &store).await }
        }))
    }

    /// What was noted so far.
    #[must_use]
    pub fn testimony(&self) -> WitnessReport {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    async fn see(
        &self,
        request: Request<Bytes>,
        placement: &HttpService,
        store: &SqlStore,
    ) -> Result<Response<Bytes>, TransportError> {
        if request.method() == Method::GET {
            return placement.send(request).await;
        }
        let is_reshape = request.uri().path() == "/reshaper";
        let before = rows(store, is_reshape).await;
        let mut write = write_of(&request);
        let answer = placement.send(request).await?;
        let done = answer.status().is_success();
        write.answer = if done {
            Answer::Acknowledged
        } else {
            Answer::Refused
        };
        if done {
            write.facts.extend(provider(answer.body()));
        }
        let after = rows(store, is_reshape && done).await;
        let mut testimony = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        testimony.writes.push(write);
        if let (Some(before), Some(after)) = (before, after) {
            testimony.reshapes.extend(reshape(&before, &after));
        }
        Ok(answer)
    }
}

async fn rows(store: &SqlStore, wanted: bool) -> Option<PlacementRows> {
    if wanted {
        Some(Rows::BuiltIn(store).all().await)
    } else {
        None
    }
}

/// The tree of a reshape is that of a provider with changed inventories.
fn reshape(before: &PlacementRows, after: &PlacementRows) -> Option<Reshape> {
    let changed = after.providers.iter().find(|(name, row)| {
        let known = before.providers.get(*name);
        known.is_none_or(|known| known.inventories != row.inventories)
    });
    let root = &after.providers.get(&changed?.1.root)?.uuid;
    Some(Reshape {
        root: root.parse().ok()?,
        before: before.into(),
        after: after.into(),
        one_class: Vec::new(),
    })
}

/// What a request says, as far as its body tells; the answer is still to come.
fn write_of(request: &Request<Bytes>) -> PlacementWrite {
    let body: Value = serde_json::from_slice(request.body()).unwrap_or_default();
    let segments: Vec<&str> = request
        .uri()
        .path()
        .split('/')
        .filter(|part| !part.is_empty())
        .collect();
    let mut write = PlacementWrite {
        sender: "agent".to_owned(),
        node: None,
        facts: Vec::new(),
        based_on: BTreeMap::new(),
        answer: Answer::Unknown,
    };
    match segments[..] {
        ["resource_providers", uuid] if request.method() == Method::DELETE => {
            write.facts.extend(uuid.parse().ok().map(Fact::NoProvider));
        }
        ["resource_providers", uuid, what] => {
            if let Ok(uuid) = uuid.parse::<ProviderUuid>() {
                write.facts.extend(association(uuid, what, &body));
                write
                    .based_on
                    .extend(generation(&body).map(|based_on| (uuid, based_on)));
            }
        }
        ["reshaper"] => {
            for (uuid, one) in object(&body["inventories"]) {
                write
                    .facts
                    .push(Fact::Inventories(uuid, inventories(&one["inventories"])));
                write
                    .based_on
                    .extend(generation(one).map(|based_on| (uuid, based_on)));
            }
            write.facts.extend(consumers(&body["allocations"]));
        }
        ["allocations", consumer] => {
            if let Ok(consumer) = consumer.parse() {
                write
                    .facts
                    .push(Fact::Allocations(consumer, allocated(&body["allocations"])));
            }
        }
        _ => {}
    }
    write
}

fn association(uuid: ProviderUuid, what: &str, body: &Value) -> Option<Fact> {
    match what {
        "inventories" => Some(Fact::Inventories(uuid, inventories(&body["inventories"]))),
        "traits" => Some(Fact::Traits(uuid, names::<Trait>(&body["traits"]))),
        "aggregates" => Some(Fact::Aggregates(uuid, names(&body["aggregates"]))),
        _ => None,
    }
}

fn generation(body: &Value) -> Option<Generation> {
    body["resource_provider_generation"]
        .as_i64()
        .map(Generation::answered)
}

/// The provider that an answer describes.
fn provider(body: &[u8]) -> Option<Fact> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let uuid = |key: &str| body[key].as_str().and_then(|uuid| uuid.parse().ok());
    Some(Fact::Provider {
        uuid: uuid("uuid")?,
        name: body["name"].as_str()?.to_owned(),
        parent: uuid("parent_provider_uuid"),
    })
}

fn object<K: FromStr>(value: &Value) -> impl Iterator<Item = (K, &Value)> {
    let entries = value.as_object().into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.parse().ok()?, value)))
}

fn names<T: FromStr + Ord>(value: &Value) -> BTreeSet<T> {
    let names = value.as_array().into_iter().flatten();
    names
        .filter_map(|name| name.as_str()?.parse().ok())
        .collect()
}

fn inventories(value: &Value) -> BTreeMap<ResourceClass, Inventory> {
    object(value)
        .filter_map(|(class, body)| {
            let body: InventoryBody = serde_json::from_value(body.clone()).ok()?;
            Some((class, Inventory::try_from(&body).ok()?))
        })
        .collect()
}

fn consumers(value: &Value) -> impl Iterator<Item = Fact> {
    object::<ConsumerUuid>(value)
        .map(|(consumer, body)| Fact::Allocations(consumer, allocated(&body["allocations"])))
}

fn allocated(value: &Value) -> AllocatedAmounts {
    object::<ProviderUuid>(value)
        .flat_map(|(provider, body)| {
            object::<ResourceClass>(&body["resources"])
                .filter_map(move |(class, amount)| Some(((provider, class), amount.as_u64()?)))
        })
        .collect()
}
