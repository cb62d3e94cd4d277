//! The flavors that were asked for last. Pure.

use std::collections::VecDeque;

use berth_model::ConsumerUuid;
use berth_wire::conductor::CreateGuest;
use berth_wire::guest::GuestPower;
use uuid::Uuid;

use crate::BootRequest;

/// So many flavors are remembered.
pub(super) const MOST_FLAVORS: usize = 32;

/// The name of a guest that nobody asked for.
const IMAGINED: &str = "headroom";

/// What the UUIDs of such guests are made of.
const NAMESPACE: Uuid = Uuid::from_u128(0x8b0e_6c2d_41f7_5a93_b6d4_0c1e_77a2_9f35);

/// So many digits tell flavors of one name apart.
const SPEC_DIGITS: usize = 8;

/// A flavor, as a guest that asks for it and for nothing else.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AskedFlavor(BootRequest);

impl AskedFlavor {
    /// The flavor of a request: with its device profile and for its project, without image, networks, hints, zone and node. None for
    /// one that was taken by an older release and would not be taken now.
    fn of(request: &BootRequest) -> Option<Self> {
        let body = request.body();
        let (flavor, profile) = (body.flavor.clone(), body.device_profile.clone());
        let uuid = Uuid::new_v5(&NAMESPACE, &berth_wire::encode(&(&flavor, &profile)));
        let imagined = CreateGuest {
            uuid: Some(uuid),
            name: IMAGINED.to_owned(),
            project_id: body.project_id.clone(),
            user_id: body.user_id.clone(),
            flavor,
            image: None,
            kernel: None,
            networks: Vec::new(),
            device_profile: profile,
            host: None,
            node: None,
            availability_zone: None,
            ignore_hosts: Vec::new(),
            scheduler_hints: Default::default(),
            config_drive: None,
            power: GuestPower::default(),
        };
        BootRequest::new(imagined, uuid).ok().map(Self)
    }

    /// Such a guest. Its UUID is the same for all that ask for the same, and no guest's.
    pub(crate) fn request(&self) -> &BootRequest {
        &self.0
    }

    /// By what all of it is told apart from others.
    pub(super) fn id(&self) -> ConsumerUuid {
        self.0.uuid()
    }

    pub(crate) fn name(&self) -> &str {
        &self.0.body().flavor.name
    }

    /// Its device profile; empty: it has none.
    pub(super) fn device_profile(&self) -> &str {
        self.0.body().device_profile.as_deref().unwrap_or_default()
    }

    /// What tells it apart from others of its name.
    pub(super) fn spec(&self) -> String {
        let mut digits = self.0.uuid().as_uuid().simple().to_string();
        digits.truncate(SPEC_DIGITS);
        digits
    }
}

/// The flavors, the one that was asked for last in front.
#[derive(Debug, Default)]
pub(super) struct AskedFlavors(VecDeque<AskedFlavor>);

impl AskedFlavors {
    /// A guest is asked for now.
    pub(super) fn asked(&mut self, request: &BootRequest) {
        if let Some(flavor) = AskedFlavor::of(request) {
            self.0.retain(|it| it.id() != flavor.id());
            self.0.push_front(flavor);
            self.0.truncate(MOST_FLAVORS);
        }
    }

    /// A guest was asked for before all that are remembered.
    pub(super) fn was_asked(&mut self, request: &BootRequest) {
        if self.0.len() >= MOST_FLAVORS {
            return;
        }
        if let Some(flavor) = AskedFlavor::of(request)
            && self.0.iter().all(|it| it.id() != flavor.id())
        {
            self.0.push_back(flavor);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &AskedFlavor> {
        self.0.iter()
    }
}
