//! Placement's calls for traits, resource classes and aggregates.
//!
//! Each call has a route template with placeholders (`/traits/{name}`), which metrics and traces use, and the actual path.
//! [`pins`] has the microversion of each call.

use std::collections::BTreeSet;

use berth_model::{AggregateUuid, Generation, ProviderUuid, ResourceClass, Trait};
use berth_wire::encode;
use berth_wire::placement::{ProviderAggregates, ProviderTraits, ResourceClassList, TraitList};
use http::Method;

use super::{PlacementClient, PlacementError, WithGeneration, pins, read, write};

const TRAITS_OF: &str = "/resource_providers/{uuid}/traits";
const AGGREGATES_OF: &str = "/resource_providers/{uuid}/aggregates";
/// The maximum size in bytes of the names in one `GET /traits`. Common proxies limit the request line to 8 kB.
const NAMES_PER_REQUEST: usize = 4096;

impl PlacementClient {
    /// The traits of a provider.
    ///
    /// Errors: No answer, a refusal (unknown provider), or an invalid answer.
    pub async fn traits(
        &self,
        uuid: ProviderUuid,
    ) -> Result<WithGeneration<BTreeSet<Trait>>, PlacementError> {
        let call = read(
            TRAITS_OF,
            format!("/resource_providers/{uuid}/traits"),
            pins::TRAITS,
        );
        self.parse(call, "a provider's traits", |body: ProviderTraits| {
            Ok(WithGeneration {
                generation: body.generation(),
                value: body.traits()?,
            })
        })
        .await
    }

    /// Replaces a provider's traits, if its generation still is `generation`; gives the new generation.
    pub async fn put_traits(
        &self,
        uuid: ProviderUuid,
        generation: Generation,
        traits: &BTreeSet<Trait>,
    ) -> Result<Generation, PlacementError> {
        let body = encode(&ProviderTraits::new(generation, traits));
        let path = format!("/resource_providers/{uuid}/traits");
        let call = write(Method::PUT, TRAITS_OF, path, pins::TRAIT_WRITES, Some(body));
        self.parse(call, "a provider's traits", |body: ProviderTraits| {
            Ok(body.generation())
        })
        .await
    }

    /// The aggregates of a provider.
    ///
    /// Errors: No answer, a refusal (unknown provider), or an invalid answer.
    pub async fn aggregates(
        &self,
        uuid: ProviderUuid,
    ) -> Result<WithGeneration<BTreeSet<AggregateUuid>>, PlacementError> {
        let call = read(
            AGGREGATES_OF,
            format!("/resource_providers/{uuid}/aggregates"),
            pins::AGGREGATES,
        );
        self.parse(
            call,
            "a provider's aggregates",
            |body: ProviderAggregates| {
                Ok(WithGeneration {
                    generation: body.generation(),
                    value: body.aggregates(),
                })
            },
        )
        .await
    }

    /// Replaces a provider's aggregates, if its generation still is `generation`; gives the new generation.
    pub async fn put_aggregates(
        &self,
        uuid: ProviderUuid,
        generation: Generation,
        aggregates: &BTreeSet<AggregateUuid>,
    ) -> Result<Generation, PlacementError> {
        let body = encode(&ProviderAggregates::new(generation, aggregates));
        let path = format!("/resource_providers/{uuid}/aggregates");
        let call = write(
            Method::PUT,
            AGGREGATES_OF,
            path,
            pins::AGGREGATE_WRITES,
            Some(body),
        );
        self.parse(
            call,
            "a provider's aggregates",
            |body: ProviderAggregates| Ok(body.generation()),
        )
        .await
    }

    /// The traits of this list that exist in Placement. Sends no request for an empty list, and several for a very long one.
    pub async fn known_traits(
        &self,
        wanted: &BTreeSet<Trait>,
    ) -> Result<BTreeSet<Trait>, PlacementError> {
        let mut known = BTreeSet::new();
        for names in batches(wanted) {
            let call = read("/traits", format!("/traits?name=in:{names}"), pins::TRAITS);
            known.append(
                &mut self
                    .parse(call, "a list of traits", TraitList::into_traits)
                    .await?,
            );
        }
        Ok(known)
    }

    /// Creates a `CUSTOM_` trait if it does not exist.
    pub async fn ensure_trait(&self, name: &Trait) -> Result<(), PlacementError> {
        self.send_expecting_success(write(
            Method::PUT,
            "/traits/{name}",
            format!("/traits/{name}"),
            pins::TRAIT_WRITES,
            None,
        ))
        .await
    }

    /// Creates a `CUSTOM_` class if it does not exist.
    pub async fn ensure_resource_class(&self, class: &ResourceClass) -> Result<(), PlacementError> {
        let path = format!("/resource_classes/{class}");
        self.send_expecting_success(write(
            Method::PUT,
            "/resource_classes/{name}",
            path,
            pins::CLASS_WRITES,
            None,
        ))
        .await
    }

    /// All resource classes that exist in Placement.
    pub async fn resource_classes(&self) -> Result<BTreeSet<ResourceClass>, PlacementError> {
        let call = read(
            "/resource_classes",
            "/resource_classes".to_owned(),
            pins::CLASSES,
        );
        self.parse(
            call,
            "a list of resource classes",
            ResourceClassList::into_classes,
        )
        .await
    }
}

/// Joins the names by commas, in texts of at most [`NAMES_PER_REQUEST`] bytes.
fn batches(traits: &BTreeSet<Trait>) -> Vec<String> {
    let mut batches: Vec<String> = Vec::new();
    for name in traits {
        match batches.last_mut() {
            Some(batch) if batch.len() + name.as_str().len() < NAMES_PER_REQUEST => {
                batch.push(',');
                batch.push_str(name.as_str());
            }
            _ => batches.push(name.as_str().to_owned()),
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_of_names_are_split_into_batches_of_limited_size() {
        let traits: BTreeSet<_> = (0..100)
            .map(|n| Trait::new(&format!("CUSTOM_{n:0>200}")).unwrap())
            .collect();
        let batches = batches(&traits);
        assert!(batches.len() > 1 && batches.iter().all(|batch| batch.len() <= NAMES_PER_REQUEST));
        let asked: BTreeSet<_> = batches
            .iter()
            .flat_map(|batch| batch.split(','))
            .map(|name| Trait::new(name).unwrap())
            .collect();
        assert_eq!(asked, traits);
        assert_eq!(super::batches(&BTreeSet::new()), Vec::<String>::new());
    }
}
