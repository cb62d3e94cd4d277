//! Inventories of one provider.

use std::collections::BTreeMap;

use berth_model::{AllocationRatio, Generation, Inventory, ResourceClass};
use schemars::JsonSchema;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use super::bounded;
use crate::BodyError;

/// One class's inventory. Placement fills in missing fields; a response has all fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InventoryBody {
    /// 1 to 2^31 - 1.
    pub total: i64,
    /// 0 to total (less than total before 1.26).
    #[serde(default)]
    pub reserved: i64,
    /// The smallest amount of one allocation, at least 1.
    #[serde(default = "one")]
    pub min_unit: i64,
    /// The largest amount of one allocation, at least 1.
    #[serde(default = "most")]
    pub max_unit: i64,
    /// The divisor of each allocated amount, at least 1.
    #[serde(default = "one")]
    pub step_size: i64,
    /// Above 0, single precision.
    #[serde(default = "once")]
    pub allocation_ratio: f64,
}

const fn one() -> i64 {
    1
}

const fn most() -> i64 {
    super::MAX_INTEGER
}

const fn once() -> f64 {
    1.0
}

impl From<&Inventory> for InventoryBody {
    fn from(inventory: &Inventory) -> Self {
        Self {
            total: i64::from(inventory.total),
            reserved: i64::from(inventory.reserved),
            min_unit: i64::from(inventory.min_unit),
            max_unit: i64::from(inventory.max_unit),
            step_size: i64::from(inventory.step_size),
            allocation_ratio: inventory.allocation_ratio.as_f64(),
        }
    }
}

impl TryFrom<&InventoryBody> for Inventory {
    type Error = BodyError;

    fn try_from(body: &InventoryBody) -> Result<Self, BodyError> {
        let allocation_ratio = AllocationRatio::new(body.allocation_ratio)
            .map_err(|error| BodyError::field("allocation_ratio", error))?;
        Ok(Self {
            total: bounded("total", body.total, 1)?,
            reserved: bounded("reserved", body.reserved, 0)?,
            min_unit: bounded("min_unit", body.min_unit, 1)?,
            max_unit: bounded("max_unit", body.max_unit, 1)?,
            step_size: bounded("step_size", body.step_size, 1)?,
            allocation_ratio,
        })
    }
}

/// `{"resource_provider_generation", "inventories"}`: GET, and the response of PUT.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProviderInventories {
    /// The provider's generation, for the next write.
    pub resource_provider_generation: i64,
    /// Inventories of the provider by resource class.
    pub inventories: BTreeMap<String, InventoryBody>,
}

impl ProviderInventories {
    /// The provider's generation, for the next write.
    #[must_use]
    pub fn generation(&self) -> Generation {
        Generation::answered(self.resource_provider_generation)
    }

    /// Converts it to the model. Fails on an invalid class name or number; the error names the field.
    pub fn inventories(&self) -> Result<BTreeMap<ResourceClass, Inventory>, BodyError> {
        self.inventories
            .iter()
            .map(|(class, body)| {
                let at = || format!("inventories.{class}");
                let inventory = Inventory::try_from(body).map_err(|error| error.under(at()))?;
                let class = ResourceClass::answered(class)
                    .map_err(|error| BodyError::field("inventories", error))?;
                Ok((class, inventory))
            })
            .collect()
    }
}

/// The body of PUT /resource_providers/{uuid}/inventories, and one provider of a reshape, written from the model's value.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct PutInventories<'a> {
    resource_provider_generation: i64,
    #[serde(serialize_with = "by_class")]
    inventories: &'a BTreeMap<ResourceClass, Inventory>,
}

impl<'a> PutInventories<'a> {
    /// Replaces all inventories of the provider if its generation is `generation`.
    #[must_use]
    pub fn new(
        generation: Generation,
        inventories: &'a BTreeMap<ResourceClass, Inventory>,
    ) -> Self {
        Self {
            resource_provider_generation: generation.as_i64(),
            inventories,
        }
    }
}

fn by_class<S: Serializer>(
    inventories: &BTreeMap<ResourceClass, Inventory>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(inventories.len()))?;
    for (class, inventory) in inventories {
        map.serialize_entry(class.as_str(), &InventoryBody::from(inventory))?;
    }
    map.end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{decode, encode};

    #[test]
    fn what_is_put_reads_back_as_the_same_value() {
        let ratio = AllocationRatio::new(1.1).unwrap();
        let vcpu = Inventory::of(64).unwrap().reserving(2).with_ratio(ratio);
        let inventories = BTreeMap::from([(ResourceClass::VCPU, vcpu)]);
        let bytes = encode(&PutInventories::new(Generation::answered(3), &inventories));
        insta::assert_snapshot!(String::from_utf8_lossy(&bytes), @r#"{"resource_provider_generation":3,"inventories":{"VCPU":{"total":64,"reserved":2,"min_unit":1,"max_unit":64,"step_size":1,"allocation_ratio":1.1}}}"#);
        let back: ProviderInventories = decode(&bytes).unwrap();
        assert_eq!(back.inventories().unwrap(), inventories);
        assert_eq!(back.generation(), Generation::answered(3));
    }

    #[test]
    fn every_number_out_of_range_is_named() {
        for (wrong, field) in [
            (r#"{"total": 0}"#, "inventories.VGPU.total"),
            (r#"{"total": 2147483648}"#, "inventories.VGPU.total"),
            (
                r#"{"total": 1, "reserved": -1}"#,
                "inventories.VGPU.reserved",
            ),
            (
                r#"{"total": 1, "min_unit": 0}"#,
                "inventories.VGPU.min_unit",
            ),
            (
                r#"{"total": 1, "max_unit": 4294967297}"#,
                "inventories.VGPU.max_unit",
            ),
            (
                r#"{"total": 1, "step_size": 0}"#,
                "inventories.VGPU.step_size",
            ),
            (
                r#"{"total": 1, "allocation_ratio": 0}"#,
                "inventories.VGPU.allocation_ratio",
            ),
            (
                r#"{"total": 1, "allocation_ratio": 1e300}"#,
                "inventories.VGPU.allocation_ratio",
            ),
        ] {
            let body = format!(
                r#"{{"resource_provider_generation": 1, "inventories": {{"VGPU": {wrong}}}}}"#
            );
            let body: ProviderInventories = decode(body.as_bytes()).unwrap();
            let error = body.inventories().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{field}: ")), "{wrong}: {error}");
        }
    }

    #[test]
    fn wrong_types_and_bad_class_names_are_named() {
        for (inventories, expected) in [
            (
                r#"{"VGPU": {"total": 1e3}}"#,
                "inventories.VGPU.total: invalid type: floating point",
            ),
            (
                r#"{"VGPU": {"total": true}}"#,
                "inventories.VGPU.total: invalid type: boolean",
            ),
            (r#"{"VGPU": {}}"#, "inventories.VGPU: missing field `total`"),
            (r#"{"VGPU": null}"#, "inventories.VGPU: invalid type: null"),
            (r#"[]"#, "inventories: invalid type: sequence"),
        ] {
            let body =
                format!(r#"{{"resource_provider_generation": 1, "inventories": {inventories}}}"#);
            let error = decode::<ProviderInventories>(body.as_bytes())
                .unwrap_err()
                .to_string();
            assert!(error.starts_with(expected), "{inventories}: {error}");
        }
        let body = br#"{"resource_provider_generation": 1, "inventories": {"vgpu": {"total": 1}}}"#;
        let error = decode::<ProviderInventories>(body)
            .unwrap()
            .inventories()
            .unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("inventories: \"vgpu\" is not a resource class"),
            "{error}"
        );
    }
}
