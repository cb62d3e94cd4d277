//! Resource providers: read, create, rename, delete.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{AggregateUuid, Provider, ProviderName, ProviderUuid, Trait, percent_encoded};
use berth_wire::encode;
use berth_wire::placement::{CreateProvider, ProviderBody, ProviderList, UpdateProvider};
use http::Method;

use super::{DeleteOutcome, PlacementClient, PlacementError, pins, read, responses, write};
use crate::adapter::AdapterCall;
use crate::call::Repeat;

const ALL: &str = "/resource_providers";
const ONE: &str = "/resource_providers/{uuid}";
const LIST: &str = "a list of resource providers";
const PROVIDER: &str = "a resource provider";

impl PlacementClient {
    /// All providers of this provider's tree; empty if it does not exist. They come without
    /// inventory, traits and aggregates.
    pub async fn providers_in_tree(
        &self,
        uuid: ProviderUuid,
    ) -> Result<Vec<Provider>, PlacementError> {
        self.list(format!("{ALL}?in_tree={uuid}"), pins::PROVIDERS)
            .await
    }

    /// The provider of this name, bare.
    pub async fn provider_by_name(
        &self,
        name: &ProviderName,
    ) -> Result<Option<Provider>, PlacementError> {
        let path = format!("{ALL}?name={}", percent_encoded(name.as_str()));
        Ok(self.list(path, pins::PROVIDERS).await?.into_iter().next())
    }

    /// The provider of this UUID without details; `None` if it does not exist.
    pub async fn provider(&self, uuid: ProviderUuid) -> Result<Option<Provider>, PlacementError> {
        let answer = self
            .ask(read(ONE, format!("{ALL}/{uuid}"), pins::PROVIDERS))
            .await?;
        match responses::unless_not_found(answer).map_err(|error| self.with_account(error))? {
            Some(answer) => self.provider_of(answer).map(Some),
            None => Ok(None),
        }
    }

    /// The sharing providers in any of these aggregates, without details and duplicates. Sends one request
    /// per 200 aggregates ([`PlacementClient::with_uuids_per_request`]).
    pub async fn sharing_providers(
        &self,
        aggregates: &BTreeSet<AggregateUuid>,
    ) -> Result<Vec<Provider>, PlacementError> {
        let aggregates: Vec<_> = aggregates.iter().map(ToString::to_string).collect();
        let sharing = Trait::MISC_SHARES_VIA_AGGREGATE;
        let mut found = BTreeMap::new();
        for some in aggregates.chunks(self.uuids_per_request) {
            let path = format!("{ALL}?member_of=in:{}&required={sharing}", some.join(","));
            for provider in self.list(path, pins::SHARING).await? {
                found.insert(provider.uuid(), provider);
            }
        }
        Ok(found.into_values().collect())
    }

    /// The providers that are in this aggregate themselves, not by their root.
    pub async fn providers_in_aggregate(
        &self,
        aggregate: AggregateUuid,
    ) -> Result<BTreeSet<ProviderUuid>, PlacementError> {
        let path = format!("{ALL}?member_of={aggregate}");
        let members = self.list(path, pins::PROVIDERS).await?;
        Ok(members.iter().map(Provider::uuid).collect())
    }

    /// Creates a provider with its UUID, name and parent; returns it with its generation. It is sent once: if the
    /// answer is lost ([`crate::ServiceCallError::AnswerLost`]), look up the UUID.
    ///
    /// Errors: No answer, a refusal (duplicate name or UUID), or an invalid answer.
    pub async fn create_provider(&self, provider: &Provider) -> Result<Provider, PlacementError> {
        let body = encode(&CreateProvider::from(provider));
        let call = write(
            Method::POST,
            ALL,
            ALL.to_owned(),
            pins::PROVIDER_WRITES,
            Some(body),
        );
        let answer = self
            .ask(AdapterCall {
                repeat: Repeat::Once,
                ..call
            })
            .await?;
        self.provider_of(answer)
    }

    /// Renames a provider.
    ///
    /// Errors: No answer, a refusal (duplicate name), or an invalid answer.
    pub async fn rename_provider(
        &self,
        uuid: ProviderUuid,
        name: &ProviderName,
    ) -> Result<Provider, PlacementError> {
        let body = UpdateProvider {
            name: name.as_str().to_owned(),
            parent_provider_uuid: None,
        };
        self.update(uuid, &body, pins::PROVIDER_WRITES).await
    }

    /// Moves a provider below another parent; its name must be given again. Needs microversion 1.37.
    ///
    /// Errors: No answer, a refusal (unknown parent, cycle), or an invalid answer.
    pub async fn place_provider_under(
        &self,
        uuid: ProviderUuid,
        name: &ProviderName,
        parent: ProviderUuid,
    ) -> Result<Provider, PlacementError> {
        let parent_provider_uuid = Some(*parent.as_uuid());
        let body = UpdateProvider {
            name: name.as_str().to_owned(),
            parent_provider_uuid,
        };
        self.update(uuid, &body, pins::REPARENT).await
    }

    /// Deletes a provider with its inventories.
    pub async fn delete_provider(
        &self,
        uuid: ProviderUuid,
    ) -> Result<DeleteOutcome, PlacementError> {
        let call = write(
            Method::DELETE,
            ONE,
            format!("{ALL}/{uuid}"),
            pins::PROVIDER_WRITES,
            None,
        );
        self.delete(call).await
    }

    pub(super) async fn delete(&self, call: AdapterCall) -> Result<DeleteOutcome, PlacementError> {
        let answer = self.ask(call).await?;
        match responses::unless_not_found(answer).map_err(|error| self.with_account(error))? {
            Some(_) => Ok(DeleteOutcome::Deleted),
            None => Ok(DeleteOutcome::AlreadyGone),
        }
    }

    async fn list(&self, path: String, minor: u16) -> Result<Vec<Provider>, PlacementError> {
        let answer = self.ask(read(ALL, path, minor)).await?;
        responses::parsed(answer, LIST, ProviderList::into_providers)
            .map_err(|error| self.with_account(error))
    }

    async fn update(
        &self,
        uuid: ProviderUuid,
        body: &UpdateProvider,
        minor: u16,
    ) -> Result<Provider, PlacementError> {
        let call = write(
            Method::PUT,
            ONE,
            format!("{ALL}/{uuid}"),
            minor,
            Some(encode(body)),
        );
        let answer = self.ask(call).await?;
        self.provider_of(answer)
    }

    fn provider_of(
        &self,
        answer: crate::answer::AdapterAnswer,
    ) -> Result<Provider, PlacementError> {
        responses::parsed(answer, PROVIDER, |body: ProviderBody| {
            Provider::try_from(body)
        })
        .map_err(|error| self.with_account(error))
    }
}
