//! The cloud that query strings and bodies are about: two hosts with two GPUs below each, a pool of disks that both share, and
//! two consumers.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use uuid::Uuid;

use crate::candidates::snapshot::SHARES;
use crate::candidates::{Member, Room, Snapshot, SnapshotNames, SnapshotTree};
use crate::inventory::InventoryRecord;
use crate::ledger::{ProviderClass, ProviderId};

const CLASSES: [&str; 5] = ["VCPU", "MEMORY_MB", "DISK_GB", "VGPU", "CUSTOM_A"];
const TRAITS: [&str; 4] = [SHARES, "HW_CPU_X86_AVX2", "CUSTOM_FAST", "CUSTOM_B"];
const VCPU: i64 = 0;
const MEMORY: i64 = 1;
const DISK: i64 = 2;
const VGPU: i64 = 3;
const CUSTOM: i64 = 4;
/// The aggregate of the hosts and the pool.
const TOGETHER: u128 = 0xa000_0000_0000_0000_0000_0000_0000_0001;

pub(super) struct FuzzCloud {
    pub(super) snapshot: Snapshot,
    pub(super) inventories: BTreeMap<ProviderClass, InventoryRecord>,
    pub(super) usage: BTreeMap<ProviderClass, i64>,
    pub(super) holdings: BTreeMap<&'static str, Vec<(ProviderClass, i64)>>,
}

impl FuzzCloud {
    /// The one there is.
    pub(super) fn known() -> &'static Self {
        static CLOUD: OnceLock<FuzzCloud> = OnceLock::new();
        CLOUD.get_or_init(Self::new)
    }

    /// The provider with this uuid: its id is the uuid's last number.
    pub(super) fn provider(&self, uuid: &str) -> Option<ProviderId> {
        let id = Uuid::parse_str(uuid).ok()?.as_u128();
        let id = ProviderId::try_from(id).ok()?;
        self.snapshot.root_of(id).map(|_| id)
    }

    fn new() -> Self {
        let holdings = BTreeMap::from([
            (
                "c0000000-0000-0000-0000-000000000001",
                vec![((1, VCPU), 8), ((1, MEMORY), 1024), ((2, VGPU), 1)],
            ),
            (
                "c0000000-0000-0000-0000-000000000002",
                vec![((11, VCPU), 64), ((20, DISK), 100)],
            ),
        ]);
        let mut usage: BTreeMap<ProviderClass, i64> = BTreeMap::new();
        for (slot, amount) in holdings.values().flatten() {
            *usage.entry(*slot).or_default() += amount;
        }
        let trees = [host(1), host(11), pool()];
        let used = |tree: Vec<Member>| tree.into_iter().map(|member| with(member, &usage));
        let trees: Vec<Vec<Member>> = trees.map(|tree| used(tree).collect()).into();
        let members = || trees.iter().flatten();
        let inventories = members().flat_map(|member| {
            let rooms = member.rooms.iter();
            rooms.map(|room| ((member.id, room.class), room.inventory))
        });
        Self {
            inventories: inventories.collect(),
            snapshot: Snapshot::new(
                SnapshotNames::new(numbered(&CLASSES), numbered(&TRAITS)),
                trees
                    .iter()
                    .filter_map(|tree| SnapshotTree::new(tree.first()?.id, tree.clone())),
            ),
            usage,
            holdings,
        }
    }
}

fn numbered(names: &[&str]) -> Vec<(i64, String)> {
    (0..)
        .zip(names.iter().map(|name| (*name).to_owned()))
        .collect()
}

fn with(mut member: Member, usage: &BTreeMap<ProviderClass, i64>) -> Member {
    for room in &mut member.rooms {
        let slot = (member.id, room.class);
        room.used = usage.get(&slot).copied().unwrap_or_default();
    }
    member
}

fn room(class: i64, total: i64, ratio: f64) -> Room {
    Room {
        class,
        inventory: InventoryRecord {
            total,
            reserved: 0,
            min_unit: 1,
            max_unit: total,
            step_size: 1,
            allocation_ratio: ratio,
        },
        used: 0,
    }
}

fn member(id: ProviderId, parent: Option<usize>, rooms: Vec<Room>, traits: Vec<i64>) -> Member {
    Member {
        id,
        uuid: Uuid::from_u128(u128::from(id.unsigned_abs())).to_string(),
        parent,
        rooms,
        traits,
        aggregates: match parent {
            None => vec![TOGETHER],
            Some(_) => Vec::new(),
        },
    }
}

fn host(id: ProviderId) -> Vec<Member> {
    let rooms = vec![room(VCPU, 16, 4.0), room(MEMORY, 65_536, 1.0)];
    let gpus = vec![room(VGPU, 4, 1.0), room(CUSTOM, 2, f64::from(f32::MAX))];
    vec![
        member(id, None, rooms, vec![1]),
        member(id + 1, Some(0), gpus.clone(), vec![2]),
        member(id + 2, Some(0), gpus, vec![2, 3]),
    ]
}

fn pool() -> Vec<Member> {
    let disks = vec![room(DISK, 1_000, 1.0)];
    vec![member(20, None, disks, vec![0])]
}
