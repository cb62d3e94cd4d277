//! [`ProviderRoots`]: looks up in Placement to which tree a resource provider belongs.

use berth_client::PlacementClient;
use berth_http::{LookUpProviderRoot, ProviderLookup, ProviderRoot};
use berth_model::ProviderUuid;
use uuid::Uuid;

pub(crate) struct ProviderRoots(pub(crate) PlacementClient);

impl LookUpProviderRoot for ProviderRoots {
    fn provider_root(&self, provider: Uuid) -> ProviderLookup<'_> {
        Box::pin(async move {
            let tree = self
                .0
                .providers_in_tree(ProviderUuid::from(provider))
                .await?;
            let root = tree.into_iter().find(|it| it.parent().is_none());
            Ok(root.map(|root| ProviderRoot {
                uuid: *root.uuid().as_uuid(),
                name: root.name.to_string(),
            }))
        })
    }
}
