//! Allocation candidates: ready-made claims for a request.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use berth_model::{ProviderUuid, ResourceClass, Trait};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};
use uuid::Uuid;

use super::AllocationOnProvider;
use super::allocations::amounts;
use super::names;
use crate::BodyError;

/// GET /allocation_candidates from 1.12. The order of the requests is the service's: the first is not better than the last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AllocationCandidates {
    /// The possible claims, in Placement's order.
    pub allocation_requests: Vec<AllocationRequest>,
    /// Every provider of every tree that a claim touches.
    pub provider_summaries: BTreeMap<Uuid, ProviderSummary>,
}

/// One possible claim: with project, user and generation added, the body of PUT /allocations/{consumer}.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AllocationRequest {
    /// The amounts by provider.
    pub allocations: BTreeMap<Uuid, AllocationOnProvider>,
    /// The providers that serve each request group, by the group's suffix; the group without one has the empty suffix, and
    /// more than one provider perhaps. From 1.34.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mappings: Option<BTreeMap<String, Vec<Uuid>>>,
}

impl AllocationRequest {
    /// The amounts by provider and class. Fails on an invalid class name or amount; the error names the field.
    pub fn resources(&self) -> Result<BTreeMap<(ProviderUuid, ResourceClass), u64>, BodyError> {
        let mut resources = BTreeMap::new();
        for (provider, taken) in &self.allocations {
            for entry in amounts(&taken.resources) {
                let (class, amount) =
                    entry.map_err(|error| error.under(format_args!("allocations.{provider}")))?;
                resources.insert((ProviderUuid::from(*provider), class), amount);
            }
        }
        Ok(resources)
    }

    /// The providers of the group with this suffix; empty before 1.34 or without such a group.
    pub fn serving(&self, suffix: &str) -> impl Iterator<Item = ProviderUuid> {
        let group = self.mappings.as_ref().and_then(|groups| groups.get(suffix));
        group.into_iter().flatten().copied().map(ProviderUuid::from)
    }
}

/// A provider's state, for choosing a candidate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProviderSummary {
    /// Capacity and usage by class: all its classes from 1.27, the requested ones before.
    pub resources: BTreeMap<String, ResourceSummary>,
    /// Its traits; from 1.17.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traits: Option<Vec<String>>,
    /// Its parent, null for a root; from 1.29.
    #[serde(default)]
    pub parent_provider_uuid: Option<Uuid>,
    /// The root of its tree; from 1.29.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_provider_uuid: Option<Uuid>,
}

impl ProviderSummary {
    /// Its traits; empty before 1.17. Fails on an invalid trait name; the error names it.
    pub fn traits(&self) -> Result<BTreeSet<Trait>, BodyError> {
        names::traits(self.traits.as_deref().unwrap_or_default())
    }
}

/// Capacity and usage of one class. The capacity is (total - reserved) × allocation ratio, rounded down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceSummary {
    /// The capacity. Values too large for this type become its maximum, because ratios have no upper limit.
    #[serde(deserialize_with = "units")]
    pub capacity: u64,
    /// The usage, which exceeds the capacity if the inventory was reduced.
    #[serde(deserialize_with = "units")]
    pub used: u64,
}

/// A whole number of any size. JSON numbers of more than 64 bits arrive as floating-point numbers.
fn units<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    struct Units;

    impl de::Visitor<'_> for Units {
        type Value = u64;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a whole number of units, 0 or more")
        }

        fn visit_u64<E: de::Error>(self, value: u64) -> Result<u64, E> {
            Ok(value)
        }

        fn visit_i64<E: de::Error>(self, value: i64) -> Result<u64, E> {
            u64::try_from(value).map_err(|_| E::invalid_value(de::Unexpected::Signed(value), &self))
        }

        #[allow(
            clippy::cast_precision_loss,
            reason = "2^64 is exact as a float, so only larger numbers are affected"
        )]
        fn visit_f64<E: de::Error>(self, value: f64) -> Result<u64, E> {
            if value >= u64::MAX as f64 {
                return Ok(u64::MAX);
            }
            Err(E::invalid_value(de::Unexpected::Float(value), &self))
        }
    }

    deserializer.deserialize_any(Units)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{decode, encode};

    const HOST: Uuid = Uuid::from_u128(1);
    const GPU: Uuid = Uuid::from_u128(2);

    /// A response of OpenStack's service at 1.36.
    const BODY: &str = r#"{"allocation_requests": [{"allocations": {
        "00000000-0000-0000-0000-000000000001": {"resources": {"VCPU": 4, "MEMORY_MB": 2048}},
        "00000000-0000-0000-0000-000000000002": {"resources": {"VGPU": 1}}},
        "mappings": {"": ["00000000-0000-0000-0000-000000000001"], "_gpu": ["00000000-0000-0000-0000-000000000002"]}}],
        "provider_summaries": {
        "00000000-0000-0000-0000-000000000001": {"resources": {"VCPU": {"capacity": 64, "used": 8}},
            "traits": ["HW_CPU_X86_AVX2"], "parent_provider_uuid": null,
            "root_provider_uuid": "00000000-0000-0000-0000-000000000001"},
        "00000000-0000-0000-0000-000000000002": {"resources": {"VGPU": {"capacity": 340282346638528859811704183484516925440000000, "used": 0}},
            "traits": [], "parent_provider_uuid": "00000000-0000-0000-0000-000000000001",
            "root_provider_uuid": "00000000-0000-0000-0000-000000000001"}}}"#;

    #[test]
    fn a_real_answer_is_read_and_written_unchanged() {
        let body: AllocationCandidates = decode(BODY.as_bytes()).unwrap();
        let request = &body.allocation_requests[0];
        let expected = BTreeMap::from([
            ((HOST.into(), ResourceClass::VCPU), 4),
            ((HOST.into(), ResourceClass::MEMORY_MB), 2048),
            ((GPU.into(), ResourceClass::VGPU), 1),
        ]);
        assert_eq!(request.resources().unwrap(), expected);
        assert_eq!(
            request.serving("_gpu").collect::<Vec<_>>(),
            [ProviderUuid::from(GPU)]
        );
        assert_eq!(request.serving("_fpga").next(), None);
        let host = &body.provider_summaries[&HOST];
        assert_eq!(host.traits().unwrap().len(), 1);
        assert_eq!(
            host.resources["VCPU"],
            ResourceSummary {
                capacity: 64,
                used: 8
            }
        );
        let gpu = &body.provider_summaries[&GPU];
        assert_eq!(gpu.resources["VGPU"].capacity, u64::MAX);
        assert_eq!(gpu.parent_provider_uuid, Some(HOST));
        let again: AllocationCandidates = decode(&encode(&body)).unwrap();
        assert_eq!(again, body);
    }

    #[test]
    fn an_answer_of_an_older_microversion_has_fewer_fields() {
        let body: AllocationCandidates = decode(
            br#"{"allocation_requests": [{"allocations": {}}], "provider_summaries":
                {"00000000-0000-0000-0000-000000000001": {"resources": {}}}}"#,
        )
        .unwrap();
        assert_eq!(body.allocation_requests[0].mappings, None);
        assert_eq!(body.provider_summaries[&HOST], ProviderSummary::default());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let one = "00000000-0000-0000-0000-000000000001";
        for (used, expected) in [
            ("-1", "invalid value: integer `-1`"),
            ("1.5", "invalid value: floating point `1.5`"),
            ("\"1\"", "invalid type: string \"1\""),
        ] {
            let body = format!(
                r#"{{"allocation_requests": [], "provider_summaries":
                    {{"{one}": {{"resources": {{"VCPU": {{"capacity": 1, "used": {used}}}}}}}}}}}"#
            );
            let error = decode::<AllocationCandidates>(body.as_bytes()).unwrap_err();
            let text = error.to_string();
            let place = format!("provider_summaries.{one}.resources.VCPU.used: {expected}");
            assert!(text.starts_with(&place), "{text}");
        }
        let request: AllocationRequest = decode(
            format!(r#"{{"allocations": {{"{one}": {{"resources": {{"VCPU": 0}}}}}}}}"#).as_bytes(),
        )
        .unwrap();
        let text = request.resources().unwrap_err().to_string();
        assert!(
            text.starts_with(&format!(
                "allocations.{one}.resources.VCPU: 0 is out of range"
            )),
            "{text}"
        );
    }
}
