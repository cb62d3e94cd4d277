//! Allocations of a provider and of a consumer, and writes of a consumer's allocations.

use std::collections::BTreeMap;

use berth_model::{ConsumerAllocations, ConsumerUuid, Generation, ProviderUuid, ResourceClass};
use schemars::JsonSchema;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use uuid::Uuid;

use crate::BodyError;

/// Response of GET /resource_providers/{uuid}/allocations: allocations by consumer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AllocationsOfProvider {
    /// The provider's generation, for the next write.
    pub resource_provider_generation: i64,
    /// The allocations from this provider by consumer.
    pub allocations: BTreeMap<Uuid, HeldOfProvider>,
}

/// The allocations of one consumer from a provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeldOfProvider {
    /// Amounts in the unit of each resource class.
    pub resources: BTreeMap<String, u64>,
    /// The consumer's generation; from 1.28.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer_generation: Option<i64>,
}

impl AllocationsOfProvider {
    /// The amounts by consumer and class. Fails on an invalid class name or amount; the error names the field.
    pub fn by_consumer(
        &self,
    ) -> Result<BTreeMap<ConsumerUuid, BTreeMap<ResourceClass, u64>>, BodyError> {
        self.allocations
            .iter()
            .map(|(consumer, held)| {
                let amounts = amounts(&held.resources)
                    .collect::<Result<_, _>>()
                    .map_err(|error| error.under(format_args!("allocations.{consumer}")))?;
                Ok((ConsumerUuid::from(*consumer), amounts))
            })
            .collect()
    }
}

/// GET /allocations/{consumer} from 1.28. A consumer that holds nothing is answered with `{"allocations": {}}` alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AllocationsOfConsumer {
    /// The allocations by provider.
    pub allocations: BTreeMap<Uuid, AllocationOnProvider>,
    /// The project that pays; from 1.12.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// The user; from 1.12.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The consumer's generation; from 1.28.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer_generation: Option<i64>,
    /// `INSTANCE`, `MIGRATION`, … or `unknown`; from 1.38.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer_type: Option<String>,
}

/// The allocations of a consumer from one provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AllocationOnProvider {
    /// The provider's generation; only in responses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// Amounts in the unit of each resource class.
    pub resources: BTreeMap<String, u64>,
}

impl AllocationsOfConsumer {
    /// Converts it to the model; `None` if the consumer has no allocations. Fails on a missing field, or an invalid
    /// name or amount; the error names the field.
    pub fn into_allocations(self) -> Result<Option<ConsumerAllocations>, BodyError> {
        if self.allocations.is_empty() {
            return Ok(None);
        }
        let mut resources = BTreeMap::new();
        for (provider, held) in &self.allocations {
            for entry in amounts(&held.resources) {
                let (class, amount) =
                    entry.map_err(|error| error.under(format_args!("allocations.{provider}")))?;
                resources.insert((ProviderUuid::from(*provider), class), amount);
            }
        }
        Ok(Some(ConsumerAllocations {
            project_id: self.project_id.ok_or_else(|| missing("project_id"))?,
            user_id: self.user_id.ok_or_else(|| missing("user_id"))?,
            generation: self.consumer_generation.map(Generation::answered),
            resources,
        }))
    }
}

fn missing(field: &str) -> BodyError {
    BodyError::field(field, "is missing next to allocations")
}

pub(super) fn amounts(
    resources: &BTreeMap<String, u64>,
) -> impl Iterator<Item = Result<(ResourceClass, u64), BodyError>> {
    resources.iter().map(|(class, amount)| {
        if *amount == 0 || i32::try_from(*amount).is_err() {
            let reason =
                format_args!("{amount} is out of range, 1 to {} is allowed", i32::MAX).to_string();
            return Err(BodyError::field(format!("resources.{class}"), reason));
        }
        let class =
            ResourceClass::answered(class).map_err(|error| BodyError::field("resources", error))?;
        Ok((class, *amount))
    })
}

/// The body of PUT /allocations/{consumer} (1.28, and 1.38 with a consumer type), and a consumer in POST /allocations
/// and POST /reshaper. It borrows from the model.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct PutAllocations<'a> {
    #[serde(serialize_with = "by_provider")]
    allocations: &'a BTreeMap<(ProviderUuid, ResourceClass), u64>,
    project_id: &'a str,
    user_id: &'a str,
    // Null: the consumer must not exist yet.
    consumer_generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    consumer_type: Option<&'a str>,
}

impl<'a> PutAllocations<'a> {
    /// The body for microversions 1.28 to 1.37.
    #[must_use]
    pub fn new(held: &'a ConsumerAllocations) -> Self {
        Self {
            allocations: &held.resources,
            project_id: &held.project_id,
            user_id: &held.user_id,
            consumer_generation: held.generation.map(Generation::as_i64),
            consumer_type: None,
        }
    }

    /// The body for microversion 1.38 and later, with the consumer type (`INSTANCE`, `MIGRATION`, …).
    #[must_use]
    pub fn typed(held: &'a ConsumerAllocations, consumer_type: &'a str) -> Self {
        Self {
            consumer_type: Some(consumer_type),
            ..Self::new(held)
        }
    }
}

type AmountsByProvider = BTreeMap<(ProviderUuid, ResourceClass), u64>;

/// `{PROVIDER: {"resources": {CLASS: amount}}}`. The map is ordered by provider first, so equal providers are neighbours.
fn by_provider<S: Serializer>(
    places: &AmountsByProvider,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    let mut rest = places.iter().peekable();
    while let Some(((provider, class), amount)) = rest.next() {
        let mut resources = vec![(class, *amount)];
        while let Some(((_, class), amount)) = rest.next_if(|((here, _), _)| here == provider) {
            resources.push((class, *amount));
        }
        map.serialize_entry(provider.as_uuid(), &OnProvider { resources })?;
    }
    map.end()
}

#[derive(Serialize)]
struct OnProvider<'a> {
    #[serde(serialize_with = "by_class")]
    resources: Vec<(&'a ResourceClass, u64)>,
}

fn by_class<S: Serializer>(
    resources: &[(&ResourceClass, u64)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(resources.len()))?;
    for (class, amount) in resources {
        map.serialize_entry(class.as_str(), amount)?;
    }
    map.end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{decode, encode};

    fn provider(n: u128) -> ProviderUuid {
        Uuid::from_u128(n).into()
    }

    fn held() -> ConsumerAllocations {
        ConsumerAllocations {
            project_id: "p".into(),
            user_id: "u".into(),
            generation: Some(Generation::answered(2)),
            resources: BTreeMap::from([
                ((provider(1), ResourceClass::VCPU), 4),
                ((provider(1), ResourceClass::MEMORY_MB), 2048),
                ((provider(2), ResourceClass::VGPU), 1),
            ]),
        }
    }

    #[test]
    fn a_consumers_allocations_are_grouped_by_provider() {
        let bytes = encode(&PutAllocations::new(&held()));
        insta::assert_snapshot!(String::from_utf8_lossy(&bytes), @r#"{"allocations":{"00000000-0000-0000-0000-000000000001":{"resources":{"MEMORY_MB":2048,"VCPU":4}},"00000000-0000-0000-0000-000000000002":{"resources":{"VGPU":1}}},"project_id":"p","user_id":"u","consumer_generation":2}"#);
        let back: AllocationsOfConsumer = decode(&bytes).unwrap();
        assert_eq!(back.into_allocations().unwrap(), Some(held()));
    }

    #[test]
    fn a_new_consumer_has_a_null_generation_and_a_type_only_where_asked() {
        let new = ConsumerAllocations {
            generation: None,
            resources: BTreeMap::new(),
            ..held()
        };
        assert_eq!(
            encode(&PutAllocations::new(&new)),
            br#"{"allocations":{},"project_id":"p","user_id":"u","consumer_generation":null}"#
        );
        let typed = String::from_utf8(encode(&PutAllocations::typed(&new, "MIGRATION"))).unwrap();
        assert!(
            typed.ends_with(r#""consumer_type":"MIGRATION"}"#),
            "{typed}"
        );
    }

    #[test]
    fn a_consumer_without_allocations_is_none() {
        let empty: AllocationsOfConsumer = decode(br#"{"allocations": {}}"#).unwrap();
        assert_eq!(empty.into_allocations().unwrap(), None);
    }

    #[test]
    fn missing_and_wrong_fields_are_named() {
        let one = "00000000-0000-0000-0000-000000000001";
        for (resources, rest, expected) in [
            (
                r#"{"VCPU": 0}"#,
                r#", "project_id": "p", "user_id": "u""#,
                "allocations.00000000-0000-0000-0000-000000000001.resources.VCPU: 0 is out of range",
            ),
            (
                r#"{"vcpu": 1}"#,
                r#", "project_id": "p", "user_id": "u""#,
                "allocations.00000000-0000-0000-0000-000000000001.resources: \"vcpu\"",
            ),
            (r#"{"VCPU": 1}"#, "", "project_id: is missing"),
        ] {
            let body = format!(
                r#"{{"allocations": {{"{one}": {{"generation": 1, "resources": {resources}}}}}{rest}}}"#
            );
            let body: AllocationsOfConsumer = decode(body.as_bytes()).unwrap();
            let error = body.into_allocations().unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
