//! Resource providers: the list, a single one, creation and update.

use berth_model::{Generation, Provider, ProviderName, ProviderUuid};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::BodyError;

/// `{"resource_providers": […]}`: GET /resource_providers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProviderList {
    /// The providers, in no order that means anything.
    pub resource_providers: Vec<ProviderBody>,
}

impl ProviderList {
    /// Converts them to the model, without inventory, traits and aggregates. Fails on an invalid provider name; the
    /// error names its index.
    pub fn into_providers(self) -> Result<Vec<Provider>, BodyError> {
        let providers = self.resource_providers.into_iter().enumerate();
        providers
            .map(|(i, body)| {
                Provider::try_from(body)
                    .map_err(|error| error.under(format_args!("resource_providers[{i}]")))
            })
            .collect()
    }
}

/// One provider: GET /resource_providers/{uuid}, and the response of POST (from 1.20) and PUT.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProviderBody {
    /// UUID of the resource provider.
    pub uuid: Uuid,
    /// Name of the resource provider, unique in the cloud.
    pub name: String,
    /// Generation of the provider, for the next write.
    pub generation: i64,
    /// Its parent, null for a root; from 1.14.
    #[serde(default)]
    pub parent_provider_uuid: Option<Uuid>,
    /// The root of its tree; from 1.14.
    #[serde(default)]
    pub root_provider_uuid: Option<Uuid>,
}

impl TryFrom<ProviderBody> for Provider {
    type Error = BodyError;

    fn try_from(body: ProviderBody) -> Result<Self, BodyError> {
        let name =
            ProviderName::new(&body.name).map_err(|error| BodyError::field("name", error))?;
        let uuid = ProviderUuid::from(body.uuid);
        let mut provider = match body.parent_provider_uuid {
            Some(parent) => Provider::child(uuid, name, parent.into()),
            None => Provider::root(uuid, name),
        };
        provider.generation = Some(Generation::answered(body.generation));
        Ok(provider)
    }
}

/// POST /resource_providers (1.14 and later).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateProvider {
    /// Name of the provider to be created or renamed.
    pub name: String,
    /// UUID of the provider to be created.
    pub uuid: Uuid,
    /// Its parent; left out for a root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_provider_uuid: Option<Uuid>,
}

impl From<&Provider> for CreateProvider {
    fn from(provider: &Provider) -> Self {
        Self {
            name: provider.name.as_str().to_owned(),
            uuid: *provider.uuid().as_uuid(),
            parent_provider_uuid: provider.parent().map(|parent| *parent.as_uuid()),
        }
    }
}

/// PUT /resource_providers/{uuid}: a new name, and (from 1.37) another parent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateProvider {
    /// The name from now on.
    pub name: String,
    /// The parent from now on; left out, the parent stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_provider_uuid: Option<Uuid>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{decode, encode};

    const LIST: &str = r#"{"resource_providers": [
        {"uuid": "6f2a4c2e-0f0e-4d0f-9d65-2b3c5f3a1c01", "name": "gpu-01", "generation": 7,
         "parent_provider_uuid": null, "root_provider_uuid": "6f2a4c2e-0f0e-4d0f-9d65-2b3c5f3a1c01",
         "links": [{"rel": "self", "href": "/resource_providers/6f2a4c2e-0f0e-4d0f-9d65-2b3c5f3a1c01"}]},
        {"uuid": "6f2a4c2e-0f0e-4d0f-9d65-2b3c5f3a1c02", "name": "gpu-01_pci", "generation": 0,
         "parent_provider_uuid": "6f2a4c2e-0f0e-4d0f-9d65-2b3c5f3a1c01",
         "root_provider_uuid": "6f2a4c2e-0f0e-4d0f-9d65-2b3c5f3a1c01", "links": []}]}"#;

    #[test]
    fn a_tree_is_read_with_parents_and_generations() {
        let providers = decode::<ProviderList>(LIST.as_bytes())
            .unwrap()
            .into_providers()
            .unwrap();
        assert_eq!(providers[0].parent(), None);
        assert_eq!(providers[0].generation, Some(Generation::answered(7)));
        assert_eq!(providers[1].parent(), Some(providers[0].uuid()));
        assert_eq!(providers[1].name.as_str(), "gpu-01_pci");
    }

    #[test]
    fn a_bad_name_is_named_by_its_place() {
        let list = LIST.replace("gpu-01_pci", "");
        let error = decode::<ProviderList>(list.as_bytes())
            .unwrap()
            .into_providers()
            .unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("resource_providers[1].name: "),
            "{error}"
        );
        let list = LIST.replace("\"generation\": 0", "\"generation\": \"0\"");
        let error = decode::<ProviderList>(list.as_bytes()).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("resource_providers[1].generation: "),
            "{error}"
        );
    }

    #[test]
    fn a_root_is_created_without_naming_a_parent() {
        let root = Provider::root(Uuid::from_u128(1).into(), ProviderName::new("a").unwrap());
        let body = String::from_utf8(encode(&CreateProvider::from(&root))).unwrap();
        assert_eq!(
            body,
            r#"{"name":"a","uuid":"00000000-0000-0000-0000-000000000001"}"#
        );
    }
}
