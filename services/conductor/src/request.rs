//! [`BootRequest`]: a validated request for a guest. Validation uses only the request itself, no service.

mod checks;
mod error;
mod image_properties;
mod target;

use std::collections::BTreeMap;

use berth_client::placement::Claimant;
use berth_model::{ConsumerUuid, DeviceProfileName, NodeName, RequestGroups};
use berth_wire::conductor::CreateGuest;
use berth_wire::encode;
use berth_wire::guest::{ConfigDriveBody, GuestBuild, LimitsBody};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use checks::{
    DEFAULT_ACCOUNT, check_names, check_networks, check_numbers, check_places, check_sizes,
    check_texts, normalize_guest_hints, read_groups, read_hints, read_profile,
};
pub use error::BootRequestError;
pub(crate) use target::{BootTarget, HostFiltering};

/// A validated request for a guest.
#[derive(Debug, Clone, PartialEq)]
pub struct BootRequest {
    uuid: ConsumerUuid,
    /// The body without the config drive.
    body: CreateGuest,
    config_drive: Option<ConfigDriveBody>,
    config_drive_digest: Option<Uuid>,
    profile: Option<DeviceProfileName>,
    target: BootTarget,
    server_group: Option<Uuid>,
    groups: RequestGroups,
}

/// Serialised form of a request in the journal. The config drive may contain secrets. It is stored separately, and
/// only as long as it is needed; its digest identifies equal requests.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct JournaledRequest {
    body: CreateGuest,
    config_drive_digest: Option<Uuid>,
}

impl BootRequest {
    /// Validates a body. A body without UUID gets `fresh`.
    pub fn new(mut body: CreateGuest, fresh: Uuid) -> Result<Self, BootRequestError> {
        check_names(&body)?;
        check_places(&body)?;
        check_sizes(&body)?;
        normalize_guest_hints(&mut body)?;
        target::check(&body)?;
        let uuid = *body.uuid.get_or_insert(fresh);
        let config_drive = body.config_drive.take();
        let digest = config_drive
            .as_ref()
            .map(|drive| Uuid::new_v5(&uuid, &encode(drive)));
        Self::checked(body, uuid, config_drive, digest)
    }

    fn checked(
        mut body: CreateGuest,
        uuid: Uuid,
        config_drive: Option<ConfigDriveBody>,
        config_drive_digest: Option<Uuid>,
    ) -> Result<Self, BootRequestError> {
        check_texts(&mut body)?;
        check_numbers(&body)?;
        check_networks(&body)?;
        let profile = read_profile(&mut body)?;
        let target = BootTarget::of(&body)?;
        let server_group = read_hints(&body)?;
        let groups = read_groups(&body)?;
        if profile.is_none() {
            groups.check()?;
        }
        Ok(Self {
            uuid: uuid.into(),
            body,
            config_drive,
            config_drive_digest,
            profile,
            target,
            server_group,
            groups,
        })
    }

    #[must_use]
    pub fn uuid(&self) -> ConsumerUuid {
        self.uuid
    }

    /// The request body, without the config drive.
    #[must_use]
    pub fn body(&self) -> &CreateGuest {
        &self.body
    }

    #[must_use]
    pub fn profile(&self) -> Option<&DeviceProfileName> {
        self.profile.as_ref()
    }

    /// The requested or forced node.
    #[must_use]
    pub fn node(&self) -> Option<&NodeName> {
        self.target.node.as_ref()
    }

    /// The requested or forced location.
    pub(crate) fn target(&self) -> &BootTarget {
        &self.target
    }

    /// The server group of the hint `group`.
    #[must_use]
    pub fn server_group(&self) -> Option<Uuid> {
        self.server_group
    }

    /// The request groups of the flavor, without those of the device profile.
    #[must_use]
    pub fn groups(&self) -> &RequestGroups {
        &self.groups
    }

    pub(crate) fn claimant(&self) -> Claimant {
        Claimant {
            consumer: self.uuid,
            project_id: self.project_id().to_owned(),
            user_id: self.user_id().to_owned(),
        }
    }

    pub(crate) fn project_id(&self) -> &str {
        self.body.project_id.as_deref().unwrap_or(DEFAULT_ACCOUNT)
    }

    pub(crate) fn user_id(&self) -> &str {
        self.body.user_id.as_deref().unwrap_or(DEFAULT_ACCOUNT)
    }

    /// The guest's hostname, if the request has one.
    pub(crate) fn hostname(&self) -> Option<&str> {
        self.config_drive.as_ref()?.hostname.as_deref()
    }

    /// The build request for the agent of a node, still without accelerator requests and allocations.
    pub(crate) fn build_on(&self, node: &NodeName, limits: &LimitsBody) -> GuestBuild {
        let mut body = self.body.clone();
        let image = body
            .image
            .map(|image| image_properties::for_agent(&mut body.flavor, image));
        GuestBuild {
            uuid: *self.uuid.as_uuid(),
            project_id: self.project_id().to_owned(),
            user_id: Some(self.user_id().to_owned()),
            name: body.name,
            node: node.to_string(),
            flavor: body.flavor,
            image,
            kernel: body.kernel,
            networks: body.networks,
            accelerator_requests: Vec::new(),
            allocations: BTreeMap::new(),
            limits: limits.clone(),
            config_drive: self.config_drive.clone(),
            power: body.power,
        }
    }

    /// Serialises the request and, separately, the config drive.
    pub(crate) fn to_journal(&self) -> (String, Option<String>) {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let record = JournaledRequest {
            body: self.body.clone(),
            config_drive_digest: self.config_drive_digest,
        };
        let drive = self.config_drive.as_ref().map(|drive| text(encode(drive)));
        (text(encode(&record)), drive)
    }

    pub(crate) fn from_journal(request: &str, config_drive: Option<&str>) -> Result<Self, String> {
        let in_request = |error: &dyn std::fmt::Display| format!("request: {error}");
        let record: JournaledRequest =
            berth_wire::decode(request.as_bytes()).map_err(|e| in_request(&e))?;
        let drive = config_drive.map(|text| berth_wire::decode(text.as_bytes()));
        let drive = drive.transpose().map_err(|e| in_request(&e))?;
        let uuid = record.body.uuid.ok_or("request: it has no UUID")?;
        Self::checked(record.body, uuid, drive, record.config_drive_digest)
            .map_err(|e| in_request(&e))
    }
}

#[cfg(test)]
mod tests;
