//! Reads the true state of the seven stores beneath their APIs where possible, in the audit's format.

use std::collections::{BTreeMap, BTreeSet};

use berth_agent_journal::{Goal as AgentGoal, GuestJournal as _};
use berth_conductor::journal::{BootGoal, BootJournal as _, BootRecord};
use berth_hosts::{ComputeHost, ServerGroupPolicy};
use berth_invariants::{
    AcceleratorSnapshot, AgentReport, ArqRow, Guest, Journal, PlacementSnapshot, ServerGroup,
    SystemSnapshot,
};
use berth_model::{ArqPhase, AttachHandleType, ConsumerUuid, ProviderTree};
use berth_store::{SqlError, Statement};
use berth_virt::guest_spec::DesiredPower;
use berth_virt::{GuestOnHost, PowerState, VirtDriver as _};
use berth_wire::accelerator::AttachHandleInfoBody;

use super::{ComputeNode, GuestCloud, NODE, card, name_of, server_rows};
use crate::fault::busy;
use crate::worlds::tree_of;

/// The requests: UUID, state, guest, and where the device is that each holds.
const REQUESTS: &str = "SELECT a.uuid, a.state, coalesce(a.instance_uuid, ''), coalesce(h.attach_info, '') \
    FROM accelerator_requests a LEFT JOIN attach_handles h ON h.arq_id = a.id";
/// The devices of a host that the next guest may be given.
const FREE: &str = "SELECT v.name FROM attach_handles h JOIN deployables d ON d.id = h.deployable_id \
    JOIN devices v ON v.id = d.device_id WHERE v.hostname = ? AND h.arq_id IS NULL AND h.unavailable IS NULL \
    AND h.cleaned = h.releases AND h.vanished = 0";

/// As if it were heard of at once: no run is as long, and a jump of the clock is longer, in seconds.
const JUMP: f64 = 1800.0;

/// The name of a PCI handle's device, from where the service's row says that it is.
fn device_of(info: &str) -> Option<String> {
    let info: AttachHandleInfoBody = serde_json::from_str(info).ok()?;
    let info = info.into_info(AttachHandleType::Pci).ok()?;
    Some(info.address().to_string())
}

impl GuestCloud {
    /// All worlds. `expected` is what Placement is to have of the first node at rest; none: as it is.
    ///
    /// # Panics
    /// One of them cannot be read.
    pub async fn worlds(&self, expected: Option<&ProviderTree>) -> SystemSnapshot {
        let placement = PlacementSnapshot::from(&self.cloud.rows().await);
        let boots = busy(self.conductor_db.guests()).await;
        let boots = boots.expect("a journal").readable;
        let mut guests = BTreeMap::new();
        let mut of_agents = BTreeSet::new();
        let mut users_since_reset = BTreeMap::new();
        let mut quarantined = BTreeSet::new();
        let mut journals = Vec::new();
        for node in self.nodes.iter() {
            for (uuid, found) in node.hardware.guests().await.expect("in memory") {
                let devices = found.devices.iter().map(|held| name_of(held.device));
                let guest = Guest {
                    node: node.name.to_owned(),
                    devices: devices.collect(),
                    ..Guest::default()
                };
                guests.insert(uuid, guest);
            }
            let records = busy(node.guests_db.guests()).await.expect("a journal");
            let spawned = records.iter().filter(|it| it.goal == AgentGoal::Spawn);
            of_agents.extend(spawned.map(|record| record.request.uuid()));
            users_since_reset.extend(node.hardware.used());
            quarantined.extend(node.quarantined().await);
            journals.push(Journal {
                name: format!("guests.db of {}", node.name),
                open: records.iter().filter_map(|record| record.open()).collect(),
            });
        }
        journals.push(Journal {
            name: "conductor.db".to_owned(),
            open: boots
                .iter()
                .filter(|record| record.is_open())
                .map(|record| format!("{:?}", record.goal))
                .collect(),
        });
        let of_conductor: BTreeSet<ConsumerUuid> = boots
            .iter()
            .filter(|record| record.goal == BootGoal::Active)
            .map(|record| record.request.uuid())
            .collect();
        let mut listed_by_api = BTreeMap::from([
            ("the agents".to_owned(), of_agents),
            ("the conductor".to_owned(), of_conductor),
        ]);
        if let Some(rows) = self.server_rows().await {
            let servers = server_rows::known_servers(&rows, &boots, guests.keys().copied());
            listed_by_api.insert("the compute API".to_owned(), servers);
            journals.push(server_rows::journal(&rows));
        }
        let desired = self.nodes.iter().filter_map(|node| {
            let expected = expected.filter(|_| node.name == NODE).cloned();
            let tree = expected.or_else(|| tree_of(&placement, node.name))?;
            Some((node.name.to_owned(), tree))
        });
        let desired = desired.collect();
        SystemSnapshot {
            guests,
            accelerators: Some(self.accelerator_world().await),
            listed_by_api,
            groups: self.groups(&boots).await,
            users_since_reset,
            journals,
            desired,
            reported: AgentReport {
                quarantined,
                ..AgentReport::default()
            },
            placement,
            ..SystemSnapshot::default()
        }
    }

    /// The server groups as their tables have them, with the guests that the conductor was asked for with them.
    async fn groups(&self, boots: &[BootRecord]) -> BTreeMap<String, ServerGroup> {
        let groups = busy(self.hosts.groups(None)).await;
        let groups = groups.expect("a database").into_iter().map(|group| {
            let requested = boots
                .iter()
                .filter(|record| record.request.server_group() == Some(group.uuid))
                .map(|record| record.request.uuid());
            let most = group.max_server_per_host.map_or(1, |most| most as usize);
            let members = group.members.into_iter();
            let group_of = ServerGroup {
                most_on_a_node: (group.policy == ServerGroupPolicy::AntiAffinity).then_some(most),
                // A host has one node here, of its own name.
                members: members
                    .map(|(member, host)| (member.into(), host))
                    .collect(),
                requested: requested.collect(),
            };
            (group.name, group_of)
        });
        groups.collect()
    }

    async fn accelerator_world(&self) -> AcceleratorSnapshot {
        let mut world = AcceleratorSnapshot::default();
        let (requests, free) = busy(async {
            let mut reading = self.accelerator_db.read().await?;
            let requests = reading.rows(Statement::new(REQUESTS)).await?;
            let mut free = Vec::new();
            for node in self.nodes.iter() {
                free.extend(reading.rows(Statement::new(FREE).bind(node.name)).await?);
            }
            Ok::<_, SqlError>((requests, free))
        })
        .await
        .expect("the accelerator service's database");
        for row in requests {
            let text = |at| row.text(at).expect("text");
            let phase = ArqPhase::from_name(&text(1)).expect("a state");
            let instance = text(2).parse().ok();
            let bound = phase == ArqPhase::Bound;
            let row = ArqRow {
                phase,
                instance: instance.filter(|_| bound),
                device: bound.then(|| device_of(&text(3))).flatten(),
            };
            world.requests.insert(text(0).parse().expect("a UUID"), row);
        }
        let names = free.iter().map(|row| row.text(0).expect("text"));
        world.free.extend(names);
        world
    }

    /// What is not as it will be although no promise is broken: devices of the host that are not offered yet, or still offered.
    pub(super) async fn unfinished(&self, worlds: &SystemSnapshot) -> Vec<String> {
        let mut wrong = Vec::new();
        for node in self.nodes.iter() {
            wrong.extend(node.unfinished().await);
        }
        wrong.extend(self.doubled().await);
        wrong.extend(self.unheard_hosts().await);
        wrong.extend(self.expected_late().await);
        let world = worlds.accelerators.clone().unwrap_or_default();
        let held: BTreeSet<String> = worlds
            .guests
            .values()
            .flat_map(|guest| guest.devices.iter().cloned())
            .collect();
        let cards = self.nodes.iter().flat_map(|node| node.hardware.cards());
        let cards: BTreeSet<String> = cards.map(|n| card(n).to_string()).collect();
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
                let name = self.nodes.iter().find_map(|node| {
                    let of_node = row.name.strip_prefix(node.name)?;
                    of_node.strip_prefix('_')
                });
                name.map(str::to_owned)
            })
            .collect();
        let should: BTreeSet<String> = cards.union(&held).cloned().collect();
        if known != should {
            wrong.push(format!("Placement has {known:?}, {should:?} are there"));
        }
        wrong.extend(self.wrongly_owned(worlds).await);
        if let Some(rows) = self.server_rows().await {
            let boots = busy(self.conductor_db.guests()).await;
            let boots = boots.expect("a journal").readable;
            wrong.extend(server_rows::unknown(&rows, &boots));
        }
        wrong
    }

    /// What the conductor looks for that may come late.
    async fn expected_late(&self) -> Vec<String> {
        let journal = &self.conductor_db;
        let claims = busy(journal.late_claims()).await.expect("a journal");
        let requests = busy(journal.lost_arq_profiles()).await.expect("a journal");
        let claims = claims
            .iter()
            .map(|guest| format!("a claim of guest {guest} may come"));
        let requests = requests
            .iter()
            .map(|profile| format!("requests of {profile} may come"));
        claims.chain(requests).collect()
    }

    /// Hosts that were heard of when the clock was another.
    async fn unheard_hosts(&self) -> Vec<String> {
        let hosts = busy(self.hosts.hosts()).await.expect("a database");
        let is_live = |age: f64| age.abs() < JUMP;
        let unheard = hosts
            .into_iter()
            .filter(|host| !host.last_seen_age_s.is_some_and(is_live));
        let describe = |host: ComputeHost| {
            let (name, age) = (host.host, host.last_seen_age_s);
            format!("{name} was heard of {age:?} s ago")
        };
        unheard.map(describe).collect()
    }

    /// The remains of any guest in any of the stores: none after all were deleted.
    ///
    /// # Panics
    /// A store cannot be read.
    pub async fn left_over(&self) -> Vec<String> {
        let worlds = self.worlds(None).await;
        let mut left = Vec::new();
        let mut is_left = |what: &str, of: &mut dyn Iterator<Item = String>| {
            left.extend(of.map(|name| format!("{what} {name} is left")));
        };
        let names = |uuids: BTreeSet<ConsumerUuid>| uuids.into_iter().map(|it| it.to_string());
        is_left("guest", &mut worlds.guests.keys().map(ToString::to_string));
        let consumers = worlds.placement.consumers.keys();
        is_left("allocation of", &mut consumers.map(ToString::to_string));
        let requests = worlds.accelerators.iter().flat_map(|it| it.requests.keys());
        is_left("request", &mut requests.map(ToString::to_string));
        let members = worlds.groups.values().flat_map(|it| it.members.keys());
        is_left("member", &mut members.map(ToString::to_string));
        for node in self.nodes.iter() {
            let what = format!("{}'s record of", node.name);
            is_left(&what, &mut names(node.remembered().await));
        }
        let boots = busy(self.conductor_db.guests()).await;
        let boots = boots.expect("a journal").readable;
        let boots = boots.iter().map(|record| record.request.uuid());
        is_left("the conductor's record of", &mut names(boots.collect()));
        let rows = self.server_rows().await.unwrap_or_default();
        let rows = rows.iter().map(|row| row.uuid);
        is_left("the compute API's row of", &mut names(rows.collect()));
        left
    }

    /// Guests that are a conductor's and are not there, or the other way round.
    async fn wrongly_owned(&self, worlds: &SystemSnapshot) -> Option<String> {
        let owned = busy(self.hosts.owned_guests()).await.expect("a database");
        let owned: BTreeSet<ConsumerUuid> = owned.iter().map(|it| it.instance.into()).collect();
        let there: BTreeSet<_> = worlds.guests.keys().copied().collect();
        (owned != there).then(|| format!("{owned:?} are a conductor's, {there:?} are there"))
    }

    /// Guests that are on more than one host.
    ///
    /// # Panics
    /// Never: the guests are in memory.
    pub async fn doubled(&self) -> Vec<String> {
        let mut seen = BTreeMap::new();
        let mut wrong = Vec::new();
        for node in self.nodes.iter() {
            for uuid in node.hardware.guests().await.expect("in memory").into_keys() {
                if let Some(other) = seen.insert(uuid, node.name) {
                    wrong.push(format!("guest {uuid} is on {other} and on {}", node.name));
                }
            }
        }
        wrong
    }

    /// The first node's tree in Placement as it is now.
    pub async fn tree(&self) -> Option<ProviderTree> {
        tree_of(&PlacementSnapshot::from(&self.cloud.rows().await), NODE)
    }
}

/// Single questions, asked beneath everything.
impl GuestCloud {
    /// Where the conductor's journal says that a guest is meant to go; none where it does not know it.
    ///
    /// # Panics
    /// The journal cannot be read.
    pub async fn boot_goal(&self, guest: ConsumerUuid) -> Option<BootGoal> {
        let record = busy(self.conductor_db.guest(guest)).await;
        record.expect("a journal").map(|record| record.goal)
    }

    /// Whether it runs.
    ///
    /// # Panics
    /// Never: the guests are in memory.
    pub async fn is_running(&self, guest: ConsumerUuid) -> bool {
        let found = self.found(guest).await;
        found.is_some_and(|found| found.state == PowerState::Running)
    }

    /// How the agent's journal says that a guest should be.
    ///
    /// # Panics
    /// The journal cannot be read, or does not know it.
    pub async fn wanted(&self, guest: ConsumerUuid) -> DesiredPower {
        for node in self.nodes.iter() {
            let record = busy(node.guests_db.guest(guest)).await;
            if let Some(record) = record.expect("a journal") {
                return record.power;
            }
        }
        panic!("no agent knows guest {guest}")
    }

    /// The numbers of the cards that a guest has.
    ///
    /// # Panics
    /// Never: the guests are in memory.
    pub async fn held_by(&self, guest: ConsumerUuid) -> Vec<u8> {
        let devices = self.found(guest).await.map(|found| found.devices);
        let names: BTreeSet<String> = devices
            .iter()
            .flatten()
            .map(|held| name_of(held.device))
            .collect();
        (0..=u8::MAX / 2)
            .filter(|n| names.contains(&card(*n).to_string()))
            .collect()
    }

    /// Whether a guest has a card.
    ///
    /// # Panics
    /// Never: the guests are in memory.
    pub async fn has_a_guest(&self, n: u8) -> bool {
        for node in self.nodes.iter() {
            let guests = node.hardware.guests().await.expect("in memory");
            let mut held = guests.values().flat_map(|guest| &guest.devices);
            if held.any(|held| name_of(held.device) == card(n).to_string()) {
                return true;
            }
        }
        false
    }

    /// A guest as its host has it.
    async fn found(&self, guest: ConsumerUuid) -> Option<GuestOnHost> {
        for node in self.nodes.iter() {
            let mut guests = node.hardware.guests().await.expect("in memory");
            if let Some(found) = guests.remove(&guest) {
                return Some(found);
            }
        }
        None
    }

    /// Whether the next guest may be given a card.
    pub async fn is_offered(&self, n: u8) -> bool {
        let world = self.accelerator_world().await;
        world.free.contains(&card(n).to_string())
    }
}

impl ComputeNode {
    /// The devices that the agent has set aside.
    async fn quarantined(&self) -> BTreeSet<String> {
        let register = busy(self.guests_db.devices().read()).await;
        let quarantines = register.expect("a journal").quarantines.into_iter();
        let recorded = quarantines.filter(|(_, why)| !why.reason.is_empty());
        recorded.map(|(name, _)| name).collect()
    }

    /// Guests that should run and do not, and what the agent's journal has of guests that are not there.
    async fn unfinished(&self) -> Vec<String> {
        let found = self.hardware.guests().await.expect("in memory");
        let records = busy(self.guests_db.guests()).await.expect("a journal");
        let mut wrong = Vec::new();
        for record in records {
            let uuid = record.request.uuid();
            let state = found.get(&uuid).map(|found| found.state);
            let should_run =
                record.goal == AgentGoal::Spawn && record.power == DesiredPower::Running;
            if should_run && state != Some(PowerState::Running) {
                wrong.push(format!("guest {uuid} should run on {}", self.name));
            }
            if state.is_none() {
                let goal = &record.goal;
                wrong.push(format!("{} remembers guest {uuid}: {goal:?}", self.name));
            }
        }
        wrong
    }
}
