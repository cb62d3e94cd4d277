//! What is asked for: a guest, checked as far as that can be without asking anybody.

mod checks;
mod of_image;
mod target;

use std::collections::BTreeMap;

use berth_client::placement::Claimant;
use berth_model::{
    ConsumerUuid, DeviceProfileName, FlavorError, NodeName, RequestGroups, RequestGroupsError,
};
use berth_wire::conductor::CreateGuest;
use berth_wire::encode;
use berth_wire::guest::{ConfigDriveBody, GuestBuild, LimitsBody};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use checks::{groups, guests_of_hints, hints, names, numbers, profile, sizes, texts};
pub(crate) use target::{Filters, Target};

/// Whose guests are, where nobody says it.
const DEFAULT_ACCOUNT: &str = "berth";

/// A request that cannot be one; each names the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BootRequestError {
    /// A text is empty, too long, or has characters that it may not have.
    #[error("{field}: {expected}")]
    Text {
        field: &'static str,
        /// What would be right.
        expected: &'static str,
    },
    /// A number is out of range.
    #[error("{field}: {value} is out of range, {expected} is allowed")]
    Number {
        field: &'static str,
        value: u64,
        expected: &'static str,
    },
    /// The device profile's name is none.
    #[error("device_profile: letters, digits, - and _ are allowed, 1 to 255 of them")]
    Profile,
    /// Two device profiles are named.
    #[error("device_profile: {named} is not {spec}, which the flavor's accel:device_profile names")]
    TwoProfiles {
        /// The one of the field.
        named: String,
        /// The one of the flavor.
        spec: String,
    },
    /// The node's name is none.
    #[error("node: {0}")]
    Node(String),
    /// An extra spec says nothing that can be asked for: the guest would be another one than was meant.
    #[error("flavor.extra_specs.{0}")]
    Spec(String),
    /// The flavor contradicts itself.
    #[error("flavor.extra_specs.{0}")]
    Flavor(#[from] FlavorError),
    /// Placement could not be asked for it.
    #[error("flavor: {0}")]
    Groups(#[from] RequestGroupsError),
}

/// A guest as it is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct BootRequest {
    uuid: ConsumerUuid,
    /// Whole, but for the config drive.
    body: CreateGuest,
    config_drive: Option<ConfigDriveBody>,
    config_drive_digest: Option<Uuid>,
    profile: Option<DeviceProfileName>,
    target: Target,
    server_group: Option<Uuid>,
    groups: RequestGroups,
}

/// A request in the journal. The config drive may hold secrets and stands apart, only for as long as it is needed; its digest
/// says whether another request is the same.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    body: CreateGuest,
    config_drive_digest: Option<Uuid>,
}

impl BootRequest {
    /// Checks a body. Where it has no UUID, the guest gets this one.
    pub fn new(mut body: CreateGuest, fresh: Uuid) -> Result<Self, BootRequestError> {
        names(&body)?;
        sizes(&body)?;
        guests_of_hints(&mut body)?;
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
        texts(&mut body)?;
        numbers(&body)?;
        let profile = profile(&mut body)?;
        let target = Target::of(&body)?;
        let server_group = hints(&body)?;
        let groups = groups(&body)?;
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

    /// What was asked for, without the config drive.
    #[must_use]
    pub fn body(&self) -> &CreateGuest {
        &self.body
    }

    #[must_use]
    pub fn profile(&self) -> Option<&DeviceProfileName> {
        self.profile.as_ref()
    }

    /// The node it must be on, requested or forced.
    #[must_use]
    pub fn node(&self) -> Option<&NodeName> {
        self.target.node.as_ref()
    }

    /// Where it may be.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// The server group it is in.
    #[must_use]
    pub fn server_group(&self) -> Option<Uuid> {
        self.server_group
    }

    /// What Placement is asked, but for the device profile's groups.
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

    /// What the agent of a node is asked for; accelerator requests and allocations are the caller's to add.
    pub(crate) fn build_on(&self, node: &NodeName, limits: &LimitsBody) -> GuestBuild {
        let mut body = self.body.clone();
        let image = body
            .image
            .map(|image| of_image::for_agent(&mut body.flavor, image));
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

    /// The request as the journal keeps it, and apart from it the config drive.
    pub(crate) fn to_journal(&self) -> (String, Option<String>) {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let record = Record {
            body: self.body.clone(),
            config_drive_digest: self.config_drive_digest,
        };
        let drive = self.config_drive.as_ref().map(|drive| text(encode(drive)));
        (text(encode(&record)), drive)
    }

    pub(crate) fn of_journal(request: &str, config_drive: Option<&str>) -> Result<Self, String> {
        let told = |error: &dyn std::fmt::Display| format!("request: {error}");
        let record: Record = berth_wire::decode(request.as_bytes()).map_err(|e| told(&e))?;
        let drive = config_drive.map(|text| berth_wire::decode(text.as_bytes()));
        let drive = drive.transpose().map_err(|e| told(&e))?;
        let uuid = record.body.uuid.ok_or("request: it has no UUID")?;
        Self::checked(record.body, uuid, drive, record.config_drive_digest).map_err(|e| told(&e))
    }
}

#[cfg(test)]
mod tests;
