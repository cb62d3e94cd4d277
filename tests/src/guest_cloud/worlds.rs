//! What is true in the five places, each read beneath its API where there is a beneath, as the audit's worlds.

use std::collections::{BTreeMap, BTreeSet};

use berth_agent::guest::{Course as AgentCourse, GuestJournal as _};
use berth_conductor::journal::{BootJournal as _, Course};
use berth_model::audit::{
    AcceleratorWorld, ArqRow, Guest, Journal, PlacementWorld, Reported, Worlds,
};
use berth_model::{ArqState, ConsumerUuid, Provider, ProviderName, ProviderTree};
use berth_virt::VirtDriver as _;
use serde_json::Value;

use super::{GuestCloud, NODE, card, name_of};
use crate::fault::busy;

impl GuestCloud {
    /// All worlds. `expected` is what Placement is to have of the node at rest; none: as it is.
    ///
    /// # Panics
    /// One of them cannot be read.
    pub async fn worlds(&self, expected: Option<&ProviderTree>) -> Worlds {
        let placement = PlacementWorld::from(&self.cloud.rows().await);
        let found = self.hardware.guests().await.expect("in memory");
        let records = busy(self.guests_db.guests()).await.expect("a journal");
        let boots = busy(self.conductor_db.guests()).await.expect("a journal");
        let guests = found.iter().map(|(uuid, guest)| {
            let devices = guest.devices.iter().map(|held| name_of(held.device));
            let guest = Guest {
                node: NODE.to_owned(),
                devices: devices.collect(),
                ..Guest::default()
            };
            (*uuid, guest)
        });
        let of_agent: BTreeSet<ConsumerUuid> = records
            .iter()
            .filter(|record| record.course == AgentCourse::Spawn)
            .map(|record| record.request.uuid())
            .collect();
        let of_conductor: BTreeSet<ConsumerUuid> = boots
            .iter()
            .filter(|record| record.course == Course::Active)
            .map(|record| record.request.uuid())
            .collect();
        let tree = expected.cloned().or_else(|| tree_of(&placement));
        Worlds {
            guests: guests.collect(),
            accelerators: Some(self.accelerator_world().await),
            told: BTreeMap::from([
                ("the agent".to_owned(), of_agent),
                ("the conductor".to_owned(), of_conductor),
            ]),
            used: self.hardware.used(),
            journals: vec![
                Journal {
                    name: "guests.db".to_owned(),
                    open: records.iter().filter_map(|record| record.open()).collect(),
                },
                Journal {
                    name: "conductor.db".to_owned(),
                    open: boots
                        .iter()
                        .filter(|record| record.is_open())
                        .map(|record| format!("{:?}", record.course))
                        .collect(),
                },
            ],
            desired: tree
                .map(|tree| (NODE.to_owned(), tree))
                .into_iter()
                .collect(),
            reported: Reported::default(),
            placement,
            ..Worlds::default()
        }
    }

    async fn accelerator_world(&self) -> AcceleratorWorld {
        let mut world = AcceleratorWorld::default();
        let told = self.accelerators_through(|http| http).arqs().await;
        for told in told.expect("requests") {
            let arq = told.arq.expect("a request");
            let phase = arq.state.phase();
            let (instance, device) = match &arq.state {
                ArqState::Bound(binding, handle) => (
                    Some(binding.instance),
                    Some(handle.info.address().to_string()),
                ),
                _ => (None, None),
            };
            let row = ArqRow {
                phase,
                instance,
                device,
            };
            world.requests.insert(arq.uuid, row);
        }
        for (device, handle) in self.handles().await {
            let is_free = handle["arq_uuid"].is_null()
                && handle["unclean"] != Value::Bool(true)
                && handle["vanished"] != Value::Bool(true);
            if is_free {
                world.free.insert(device);
            }
        }
        world
    }

    /// The handles that the accelerator service has of the node, by the device's name.
    async fn handles(&self) -> Vec<(String, Value)> {
        let path = format!("/internal/v1/hosts/{NODE}/devices");
        let known = self.ask("GET", &path, Value::Null).await;
        let mut handles = Vec::new();
        for device in known["devices"].as_array().into_iter().flatten() {
            let name = device["name"].as_str().unwrap_or_default();
            for deployable in device["deployables"].as_array().into_iter().flatten() {
                for handle in deployable["attach_handles"]
                    .as_array()
                    .into_iter()
                    .flatten()
                {
                    handles.push((name.to_owned(), handle.clone()));
                }
            }
        }
        handles
    }

    /// What is not as it will be although no promise is broken: devices of the host that are not offered yet, or still offered.
    pub(super) fn unfinished(&self, worlds: &Worlds) -> Vec<String> {
        let mut wrong = Vec::new();
        let world = worlds.accelerators.clone().unwrap_or_default();
        let held: BTreeSet<String> = worlds
            .guests
            .values()
            .flat_map(|guest| guest.devices.iter().cloned())
            .collect();
        let cards: BTreeSet<String> = self
            .hardware
            .cards()
            .iter()
            .map(|n| card(*n).to_string())
            .collect();
        let free: BTreeSet<String> = cards.difference(&held).cloned().collect();
        if world.free != free {
            let found = &world.free;
            wrong.push(format!("{found:?} are free, {free:?} should be"));
        }
        // A card that is gone keeps its provider for as long as a guest has it.
        let known: BTreeSet<String> = worlds
            .placement
            .providers
            .values()
            .filter(|row| row.parent.is_some())
            .filter_map(|row| {
                row.name
                    .strip_prefix(&format!("{NODE}_"))
                    .map(str::to_owned)
            })
            .collect();
        let should: BTreeSet<String> = cards.union(&held).cloned().collect();
        if known != should {
            wrong.push(format!("Placement has {known:?}, {should:?} are there"));
        }
        wrong
    }

    /// The node's tree in Placement as it is now.
    pub async fn tree(&self) -> Option<ProviderTree> {
        tree_of(&PlacementWorld::from(&self.cloud.rows().await))
    }
}

/// The node's rows as a tree.
fn tree_of(world: &PlacementWorld) -> Option<ProviderTree> {
    let root = world.root_named(NODE)?;
    let ours = world
        .providers
        .iter()
        .filter(|(uuid, _)| world.top(**uuid) == Some(root));
    let providers = ours.map(|(uuid, row)| {
        let name = ProviderName::new(&row.name).ok()?;
        let mut provider = match row.parent {
            None => Provider::root(*uuid, name),
            Some(parent) => Provider::child(*uuid, name, parent),
        };
        provider.inventories.clone_from(&row.inventories);
        provider.traits.clone_from(&row.traits);
        provider.aggregates.clone_from(&row.aggregates);
        Some(provider)
    });
    ProviderTree::from_providers(root, providers.collect::<Option<Vec<_>>>()?).ok()
}

/// Single questions, asked beneath everything.
impl GuestCloud {
    /// Where the conductor's journal says that a guest is meant to go; none where it does not know it.
    ///
    /// # Panics
    /// The journal cannot be read.
    pub async fn course(&self, guest: ConsumerUuid) -> Option<Course> {
        let record = busy(self.conductor_db.guest(guest)).await;
        record.expect("a journal").map(|record| record.course)
    }

    /// Whether it runs.
    ///
    /// # Panics
    /// Never: the guests are in memory.
    pub async fn is_running(&self, guest: ConsumerUuid) -> bool {
        let guests = self.hardware.guests().await.expect("in memory");
        let found = guests.get(&guest);
        found.is_some_and(|found| found.state == berth_virt::GuestState::Running)
    }

    /// The numbers of the cards that a guest has.
    ///
    /// # Panics
    /// Never: the guests are in memory.
    pub async fn held_by(&self, guest: ConsumerUuid) -> Vec<u8> {
        let guests = self.hardware.guests().await.expect("in memory");
        let devices = guests.get(&guest).map(|found| found.devices.clone());
        let names: BTreeSet<String> = devices
            .iter()
            .flatten()
            .map(|held| name_of(held.device))
            .collect();
        (0..=u8::MAX / 2)
            .filter(|n| names.contains(&card(*n).to_string()))
            .collect()
    }

    /// Whether the next guest may be given a card.
    pub async fn is_offered(&self, n: u8) -> bool {
        let world = self.accelerator_world().await;
        world.free.contains(&card(n).to_string())
    }
}
