//! Traits and resource classes: lists of names.

use std::collections::BTreeSet;

use berth_model::{Generation, ResourceClass, Trait};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::BodyError;

/// `{"traits": […]}`: GET /traits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraitList {
    /// Names of traits, standard and custom.
    pub traits: Vec<String>,
}

impl TraitList {
    /// The traits as the model has them. Fails if a name has another form than Placement promises.
    pub fn into_traits(self) -> Result<BTreeSet<Trait>, BodyError> {
        traits(&self.traits)
    }
}

/// `{"traits", "resource_provider_generation"}`: a provider's traits, GET and PUT.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProviderTraits {
    /// Names of traits, standard and custom.
    pub traits: Vec<String>,
    /// The provider's generation, for the next write.
    pub resource_provider_generation: i64,
}

impl ProviderTraits {
    /// Replaces all traits of the provider if its generation is `generation`.
    #[must_use]
    pub fn new(generation: Generation, traits: &BTreeSet<Trait>) -> Self {
        Self {
            traits: traits.iter().map(|name| name.as_str().to_owned()).collect(),
            resource_provider_generation: generation.as_i64(),
        }
    }

    /// The provider's generation, for the next write.
    #[must_use]
    pub fn generation(&self) -> Generation {
        Generation::answered(self.resource_provider_generation)
    }

    /// The traits as the model has them. Fails if a name has another form than Placement promises.
    pub fn traits(&self) -> Result<BTreeSet<Trait>, BodyError> {
        traits(&self.traits)
    }
}

pub(super) fn traits(names: &[String]) -> Result<BTreeSet<Trait>, BodyError> {
    let each = names.iter().enumerate();
    each.map(|(i, name)| {
        Trait::new(name).map_err(|error| BodyError::field(format!("traits[{i}]"), error))
    })
    .collect()
}

/// `{"resource_classes": […]}`: GET /resource_classes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceClassList {
    /// The resource classes, standard and custom.
    pub resource_classes: Vec<ResourceClassBody>,
}

impl ResourceClassList {
    /// The classes as the model has them. Fails if a name has another form than Placement promises.
    pub fn into_classes(self) -> Result<BTreeSet<ResourceClass>, BodyError> {
        let each = self.resource_classes.into_iter().enumerate();
        each.map(|(i, class)| {
            ResourceClass::answered(&class.name)
                .map_err(|error| BodyError::field(format!("resource_classes[{i}].name"), error))
        })
        .collect()
    }
}

/// One class, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceClassBody {
    /// The name, standard or beginning with `CUSTOM_`.
    pub name: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{decode, encode};

    #[test]
    fn a_bad_name_is_named_by_its_place() {
        let traits: TraitList = decode(br#"{"traits": ["HW_CPU_X86_AVX2", "avx"]}"#).unwrap();
        let error = traits.into_traits().unwrap_err().to_string();
        assert!(
            error.starts_with("traits[1]: \"avx\" is not a trait"),
            "{error}"
        );
        let classes: ResourceClassList =
            decode(br#"{"resource_classes": [{"name": "VCPU", "links": []}, {"name": ""}]}"#)
                .unwrap();
        let error = classes.into_classes().unwrap_err().to_string();
        assert!(error.starts_with("resource_classes[1].name: "), "{error}");
    }

    #[test]
    fn traits_are_put_with_the_generation() {
        let traits = BTreeSet::from([Trait::COMPUTE_NODE]);
        let body = ProviderTraits::new(Generation::answered(4), &traits);
        assert_eq!(
            encode(&body),
            br#"{"traits":["COMPUTE_NODE"],"resource_provider_generation":4}"#
        );
        assert_eq!(body.traits().unwrap(), traits);
    }
}
