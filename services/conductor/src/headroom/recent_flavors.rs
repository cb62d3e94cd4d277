//! The most recently requested flavors. Pure.

use std::collections::VecDeque;

use berth_model::{ConsumerUuid, DesiredPower};
use berth_wire::conductor::CreateGuest;
use uuid::Uuid;

use crate::BootRequest;

/// Maximum number of flavors.
pub(super) const MAX_FLAVORS: usize = 32;

/// Name of the hypothetical guest.
const HYPOTHETICAL_NAME: &str = "headroom";

/// Namespace of the UUIDs of hypothetical guests.
const NAMESPACE: Uuid = Uuid::from_u128(0x8b0e_6c2d_41f7_5a93_b6d4_0c1e_77a2_9f35);

/// Length of the `spec` label, which distinguishes flavors of the same name.
const SPEC_LABEL_LENGTH: usize = 8;

/// A flavor with its device profile and project, represented by a request that consists of these only, because the
/// search for hosts takes requests.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RequestedFlavor(BootRequest);

impl RequestedFlavor {
    /// The flavor of a request with its device profile and project, without image, networks, hints, zone and
    /// node. `None` if an older release accepted the request and it is now invalid.
    fn of(request: &BootRequest) -> Option<Self> {
        let body = request.body();
        let (flavor, profile) = (body.flavor.clone(), body.device_profile.clone());
        let uuid = Uuid::new_v5(&NAMESPACE, &berth_wire::encode(&(&flavor, &profile)));
        let hypothetical = CreateGuest {
            uuid: Some(uuid),
            name: HYPOTHETICAL_NAME.to_owned(),
            project_id: body.project_id.clone(),
            user_id: body.user_id.clone(),
            flavor,
            image: None,
            kernel: None,
            networks: Vec::new(),
            requested_networks: Vec::new(),
            security_groups: Vec::new(),
            device_profile: profile,
            host: None,
            node: None,
            availability_zone: None,
            ignore_hosts: Vec::new(),
            scheduler_hints: Default::default(),
            config_drive: None,
            power: DesiredPower::default(),
        };
        BootRequest::new(hypothetical, uuid).ok().map(Self)
    }

    /// The hypothetical request. Equal flavors have the same UUID, which no real guest has.
    pub(crate) fn request(&self) -> &BootRequest {
        &self.0
    }

    /// Identifies the flavor with all its parts.
    pub(super) fn id(&self) -> ConsumerUuid {
        self.0.uuid()
    }

    pub(crate) fn name(&self) -> &str {
        &self.0.body().flavor.name
    }

    /// The device profile; empty if there is none.
    pub(super) fn device_profile(&self) -> &str {
        self.0.body().device_profile.as_deref().unwrap_or_default()
    }

    /// Distinguishes flavors of the same name.
    pub(super) fn spec(&self) -> String {
        let mut digits = self.0.uuid().as_uuid().simple().to_string();
        digits.truncate(SPEC_LABEL_LENGTH);
        digits
    }
}

/// The flavors, the most recent first.
#[derive(Debug, Default)]
pub(super) struct RecentFlavors(VecDeque<RequestedFlavor>);

impl RecentFlavors {
    /// Adds a flavor as the most recent one.
    pub(super) fn push_front(&mut self, request: &BootRequest) {
        if let Some(flavor) = RequestedFlavor::of(request) {
            self.0.retain(|it| it.id() != flavor.id());
            self.0.push_front(flavor);
            self.0.truncate(MAX_FLAVORS);
        }
    }

    /// Adds a flavor as the least recent one, if there is space.
    pub(super) fn push_back(&mut self, request: &BootRequest) {
        if self.0.len() >= MAX_FLAVORS {
            return;
        }
        if let Some(flavor) = RequestedFlavor::of(request)
            && self.0.iter().all(|it| it.id() != flavor.id())
        {
            self.0.push_back(flavor);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &RequestedFlavor> {
        self.0.iter()
    }
}
