//! Inventories and usages of a provider.

use std::collections::BTreeMap;

use berth_model::{Generation, Inventory, ProviderUuid, ResourceClass};
use berth_wire::encode;
use berth_wire::placement::{ProviderInventories, ProviderUsages, PutInventories};
use http::Method;

use super::{PlacementClient, PlacementError, WithGeneration, pins, read, write};

const INVENTORIES: &str = "/resource_providers/{uuid}/inventories";
const USAGES: &str = "/resource_providers/{uuid}/usages";

impl PlacementClient {
    /// The inventories of a provider.
    ///
    /// Errors: No answer, a refusal (unknown provider), or an invalid answer.
    pub async fn inventories(
        &self,
        uuid: ProviderUuid,
    ) -> Result<WithGeneration<BTreeMap<ResourceClass, Inventory>>, PlacementError> {
        let call = read(
            INVENTORIES,
            format!("/resource_providers/{uuid}/inventories"),
            pins::INVENTORIES,
        );
        self.parse(
            call,
            "a provider's inventories",
            |body: ProviderInventories| {
                Ok(WithGeneration {
                    generation: body.generation(),
                    value: body.inventories()?,
                })
            },
        )
        .await
    }

    /// Replaces a provider's inventories, if its generation still is `generation`; gives the new generation.
    pub async fn put_inventories(
        &self,
        uuid: ProviderUuid,
        generation: Generation,
        inventories: &BTreeMap<ResourceClass, Inventory>,
    ) -> Result<Generation, PlacementError> {
        let body = encode(&PutInventories::new(generation, inventories));
        let path = format!("/resource_providers/{uuid}/inventories");
        let call = write(
            Method::PUT,
            INVENTORIES,
            path,
            pins::INVENTORIES,
            Some(body),
        );
        self.parse(
            call,
            "a provider's inventories",
            |body: ProviderInventories| Ok(body.generation()),
        )
        .await
    }

    /// Removes all of a provider's inventories, whatever its generation.
    pub async fn delete_inventories(&self, uuid: ProviderUuid) -> Result<(), PlacementError> {
        let path = format!("/resource_providers/{uuid}/inventories");
        self.send_expecting_success(write(
            Method::DELETE,
            INVENTORIES,
            path,
            pins::INVENTORIES,
            None,
        ))
        .await
    }

    /// The usage of a provider by class.
    ///
    /// Errors: No answer, a refusal (unknown provider), or an invalid answer.
    pub async fn usages(
        &self,
        uuid: ProviderUuid,
    ) -> Result<WithGeneration<BTreeMap<ResourceClass, u64>>, PlacementError> {
        let call = read(
            USAGES,
            format!("/resource_providers/{uuid}/usages"),
            pins::USAGES,
        );
        self.parse(call, "a provider's usages", |body: ProviderUsages| {
            Ok(WithGeneration {
                generation: body.generation(),
                value: body.usages()?,
            })
        })
        .await
    }
}
