//! Reshapes of random trees: four moves at once (VGPU to its GPUs, VCPU split into VCPU and PCPU, a renamed class,
//! memory to NUMA cells), children that are too small, guests that are unknown or partly known, consumers with
//! allocations elsewhere, and an over-allocated class that does not move. The results are checked by Placement's rules,
//! not by the code of the reshape.

use std::collections::BTreeMap;

use berth_model::{
    Allocation, Allocations, DesiredTree, Home, HomelessReason, Homes, Inventory, Move, Plan,
    ProviderTree, ProviderUuid, ReshapeRequest, Usages, plan,
};
use proptest::prelude::*;

use super::build::*;

const GPUS: [&str; 3] = ["gpu0", "gpu1", "gpu2"];
const CELLS: [&str; 2] = ["numa0", "numa1"];
const CONSUMERS: usize = 6;

/// How a driver answers about one allocation.
#[derive(Debug, Clone)]
enum Answer {
    Nowhere,
    /// Shares of the amount for each possible home, by weight; what is left over has no home.
    Shares(Vec<u64>),
    /// Any, the first ones first.
    Any(usize),
}

#[derive(Debug, Clone)]
struct Guest {
    vgpu: (u64, Answer),
    vcpu: (u64, Answer),
    board: (u64, Answer),
    memory: (u64, Answer),
    disk: u64,
    /// Of a class that does not move.
    functions: u64,
    elsewhere: bool,
}

#[derive(Debug, Clone)]
struct World {
    gpus: Vec<u64>,
    cells: Vec<u64>,
    vcpu: u64,
    pcpu: u64,
    boards: u64,
    guests: Vec<Guest>,
}

fn answers() -> impl Strategy<Value = Answer> {
    prop_oneof![
        1 => Just(Answer::Nowhere),
        4 => prop::collection::vec(0..4_u64, 3).prop_map(Answer::Shares),
        2 => (0..3_usize).prop_map(Answer::Any),
    ]
}

fn guests() -> impl Strategy<Value = Guest> {
    let held = |most: u64| (0..=most, answers());
    (
        held(5),
        held(8),
        held(2),
        held(600),
        0..40_u64,
        0..6_u64,
        any::<bool>(),
    )
        .prop_map(
            |(vgpu, vcpu, board, memory, disk, functions, elsewhere)| Guest {
                vgpu,
                vcpu,
                board,
                memory,
                disk,
                functions,
                elsewhere,
            },
        )
}

fn worlds() -> impl Strategy<Value = World> {
    (
        prop::collection::vec(0..8_u64, GPUS.len()),
        prop::collection::vec(0..1500_u64, CELLS.len()),
        1..30_u64,
        1..20_u64,
        1..8_u64,
        prop::collection::vec(guests(), CONSUMERS),
    )
        .prop_map(|(gpus, cells, vcpu, pcpu, boards, guests)| World {
            gpus,
            cells,
            vcpu,
            pcpu,
            boards,
            guests,
        })
}

impl World {
    fn current(&self) -> ProviderTree {
        let sum = |of: fn(&Guest) -> u64| self.guests.iter().map(of).sum::<u64>() + 1;
        tree([
            root(&[
                ("VGPU", sum(|guest| guest.vgpu.0)),
                ("VCPU", sum(|guest| guest.vcpu.0)),
                ("CUSTOM_BOARD", sum(|guest| guest.board.0)),
                ("MEMORY_MB", sum(|guest| guest.memory.0)),
                ("SRIOV_NET_VF", 4),
            ]),
            shared_storage(1000),
        ])
    }

    fn desired(&self) -> ProviderTree {
        let children = |devices: &[&str], text: &str, totals: &[u64]| -> Vec<_> {
            let there = devices.iter().zip(totals).filter(|(_, total)| **total > 0);
            there
                .map(|(device, total)| child(device, &[(text, *total)]))
                .collect()
        };
        let root = root(&[
            ("VCPU", self.vcpu),
            ("PCPU", self.pcpu),
            ("FPGA", self.boards),
            ("SRIOV_NET_VF", 4),
        ]);
        tree(
            [root, shared_storage(1000)]
                .into_iter()
                .chain(children(&GPUS, "VGPU", &self.gpus))
                .chain(children(&CELLS, "MEMORY_MB", &self.cells)),
        )
    }

    /// As a driver names them, looking at the tree Placement has: no parting once there is PCPU.
    fn moves(&self, current: &ProviderTree) -> Vec<Move> {
        let mut moves = vec![
            leaves(root_uuid(), "VGPU", &["VGPU"]),
            leaves(root_uuid(), "CUSTOM_BOARD", &["FPGA"]),
            leaves(root_uuid(), "MEMORY_MB", &["MEMORY_MB"]),
        ];
        if current.inventory(root_uuid(), &class("PCPU")).is_none() {
            moves.push(leaves(root_uuid(), "VCPU", &["VCPU", "PCPU"]));
        }
        moves
    }

    fn allocations(&self) -> Allocations {
        let consumers = self.guests.iter().enumerate().map(|(n, guest)| {
            let elsewhere = if guest.elsewhere { 7 } else { 0 };
            let resources = [
                (root_uuid(), "VGPU", guest.vgpu.0),
                (root_uuid(), "VCPU", guest.vcpu.0),
                (root_uuid(), "CUSTOM_BOARD", guest.board.0),
                (root_uuid(), "MEMORY_MB", guest.memory.0),
                (root_uuid(), "SRIOV_NET_VF", guest.functions),
                (uuid(SHARED), "DISK_GB", guest.disk),
                (uuid(OTHER_HOST), "VGPU", elsewhere),
                (uuid(OTHER_HOST), "VCPU", elsewhere),
            ];
            let held: Vec<_> = resources
                .into_iter()
                .filter(|(_, _, amount)| *amount > 0)
                .collect();
            (consumer(0x10 + n as u128), holding(&held))
        });
        consumers.collect()
    }

    fn homes(&self, allocation: &Allocation) -> Homes {
        let n = (0..CONSUMERS).find(|n| consumer(0x10 + *n as u128) == allocation.consumer);
        let guest = &self.guests[n.unwrap()];
        let there = |devices: &[&'static str], totals: &[u64], text: &'static str| -> Vec<_> {
            let there = devices.iter().zip(totals).filter(|(_, total)| **total > 0);
            there
                .map(|(device, _)| (child_uuid(device), text))
                .collect()
        };
        let (answer, homes): (&Answer, Vec<(ProviderUuid, &str)>) = match allocation.class.as_str()
        {
            "VGPU" => (&guest.vgpu.1, there(&GPUS, &self.gpus, "VGPU")),
            "VCPU" => (
                &guest.vcpu.1,
                vec![(root_uuid(), "PCPU"), (root_uuid(), "VCPU")],
            ),
            "CUSTOM_BOARD" => (&guest.board.1, vec![(root_uuid(), "FPGA")]),
            _ => (&guest.memory.1, there(&CELLS, &self.cells, "MEMORY_MB")),
        };
        answer.about(allocation.amount, &homes)
    }

    fn resolve(&self, shuffled: bool) -> ReshapeRequest {
        let (mut moves, mut allocations) = (self.moves(&self.current()), self.allocations());
        if shuffled {
            moves.reverse();
            moves.extend(self.moves(&self.current()));
            let mut consumers: Vec<_> = allocations
                .consumers()
                .map(|(c, held)| (*c, held.clone()))
                .collect();
            consumers.reverse();
            allocations = consumers.into_iter().collect();
        }
        pending(&self.current(), &self.desired(), &moves)
            .resolve(&allocations, |allocation, _| self.homes(allocation))
            .unwrap()
    }
}

impl Answer {
    fn about(&self, amount: u64, homes: &[(ProviderUuid, &str)]) -> Homes {
        match self {
            Answer::Nowhere => Homes::Nowhere(HomelessReason::NoGuest),
            Answer::Any(first) => {
                let Some((_, text)) = homes.first() else {
                    return Homes::Nowhere(HomelessReason::Unknown);
                };
                let same: Vec<_> = homes.iter().filter(|home| home.1 == *text).collect();
                let mut providers: Vec<_> = same.iter().map(|home| home.0).collect();
                let middle = first % providers.len();
                providers.rotate_left(middle);
                Homes::AnyOf {
                    class: class(text),
                    providers,
                }
            }
            Answer::Shares(shares) => {
                let mut left = amount;
                let homes = homes.iter().zip(shares).map(|((provider, text), share)| {
                    let amount = (*share).min(left) * u64::from(amount < 100)
                        + (amount * share / 8).min(left) * u64::from(amount >= 100);
                    left -= amount;
                    Home {
                        provider: *provider,
                        class: class(text),
                        amount,
                    }
                });
                Homes::At {
                    homes: homes.collect(),
                    rest: HomelessReason::DeviceGone {
                        device: "gpu9".into(),
                    },
                }
            }
        }
    }
}

/// The name under which a class counts: the parts of a parting and the new name of a renamed one are the same.
fn counts_as(text: &str) -> &str {
    match text {
        "PCPU" => "VCPU",
        "FPGA" => "CUSTOM_BOARD",
        other => other,
    }
}

/// Moves of whatever there is or may be, whether it goes or stays.
fn named_moves() -> impl Strategy<Value = Vec<Move>> {
    let all = vec![
        leaves(root_uuid(), "VGPU", &["VGPU"]),
        leaves(root_uuid(), "VCPU", &["VCPU", "PCPU"]),
        leaves(root_uuid(), "CUSTOM_BOARD", &["FPGA"]),
        leaves(root_uuid(), "MEMORY_MB", &["MEMORY_MB"]),
        leaves(root_uuid(), "SRIOV_NET_VF", &["SRIOV_NET_VF"]),
        leaves(root_uuid(), "PCPU", &["PCPU"]),
        leaves(child_uuid("gpu0"), "VGPU", &["VGPU"]),
    ];
    let most = all.len();
    prop::sample::subsequence(all, 0..=most)
}

proptest! {
    #![proptest_config(unsaved())]

    #[test]
    fn nothing_is_lost_doubled_or_left_without_room(world in worlds()) {
        let (current, before) = (world.current(), world.allocations());
        let request = world.resolve(false);
        let after = request.afterwards(&before);

        for (consumer, held) in before.consumers() {
            let sums = |resources: &Usages, elsewhere: bool| {
                let mut sums: BTreeMap<(Option<ProviderUuid>, String), u64> = BTreeMap::new();
                for ((provider, class), amount) in resources {
                    let own = *provider != uuid(SHARED) && *provider != uuid(OTHER_HOST);
                    if own == elsewhere {
                        continue;
                    }
                    let place = elsewhere.then_some(*provider);
                    *sums.entry((place, counts_as(class.as_str()).to_owned())).or_default() += amount;
                }
                sums
            };
            let now = after.of(consumer).unwrap();
            prop_assert_eq!(sums(&held.resources, false), sums(&now.resources, false));
            prop_assert_eq!(sums(&held.resources, true), sums(&now.resources, true));
            prop_assert_eq!(held.generation, now.generation);
        }

        let (used_before, used_after) = (before.usages(), after.usages());
        for ((provider, class), used) in &used_after {
            if *provider == uuid(OTHER_HOST) {
                continue;
            }
            let inventory = request.tree().inventory(*provider, class);
            prop_assert!(inventory.is_some(), "{used} {class} without inventory");
            let inventory = inventory.unwrap();
            let was = used_before.get(&(*provider, class.clone())).copied().unwrap_or(0);
            let fits = *used <= inventory.capacity();
            let held = inventory.is_held() && u64::from(inventory.total) == *used && *used <= was;
            let total = |inventory: &Inventory| (inventory.total, inventory.reserved);
            let before = current.inventory(*provider, class).map(total);
            let over = before == Some(total(inventory)) && *used <= was;
            prop_assert!(fits || held || over, "{used} {class} in {inventory}\n{request}");
        }
    }

    #[test]
    fn every_unit_of_a_move_is_accounted_for(world in worlds()) {
        let (current, before) = (world.current(), world.allocations());
        let request = world.resolve(false);
        let after = request.afterwards(&before);
        for allocation in before.iter() {
            if !world.moves(&current).iter().any(|m| m.provider == allocation.provider && m.class == allocation.class) {
                continue;
            }
            let moved: u64 = request
                .moved()
                .iter()
                .filter(|m| m.consumer == allocation.consumer && m.from_class == allocation.class)
                .map(|m| m.amount)
                .sum();
            let left = amount(&after, allocation.consumer, allocation.provider, allocation.class.as_str());
            prop_assert_eq!(moved + left, allocation.amount);
            let homeless: u64 = request
                .homeless()
                .iter()
                .filter(|(stays, _)| stays.consumer == allocation.consumer && stays.class == allocation.class)
                .map(|(stays, _)| stays.amount)
                .sum();
            let stays_by_wish = allocation.class == class("VCPU");
            let least = if stays_by_wish { 0 } else { left };
            prop_assert!((least..=left).contains(&homeless));
        }
        for held in request.held() {
            let inventory = request.tree().inventory(held.provider, &held.class).unwrap();
            prop_assert_eq!(inventory, &Inventory::holding(held.used).unwrap());
            let used = after.usages()[&(held.provider, held.class.clone())];
            prop_assert_eq!(used, held.used);
        }
    }

    #[test]
    fn only_what_changes_is_sent(world in worlds()) {
        let (current, before) = (world.current(), world.allocations());
        let request = world.resolve(false);
        for (provider, sent) in request.inventories() {
            let had = current.get(*provider).map(|provider| &provider.inventories);
            prop_assert_ne!(had, Some(sent));
            prop_assert!(*provider != uuid(SHARED));
        }
        for (consumer, sent) in request.allocations() {
            prop_assert_ne!(before.of(consumer), Some(sent));
            prop_assert!(!sent.resources.is_empty());
        }
    }

    #[test]
    fn the_outcome_does_not_depend_on_any_order(world in worlds()) {
        prop_assert_eq!(world.resolve(false), world.resolve(true));
    }

    #[test]
    fn after_it_a_plain_update_at_most_is_left(world in worlds()) {
        let request = world.resolve(false);
        let after = request.afterwards(&world.allocations());
        let mut tree = request.tree().clone();
        for round in 0..3 {
            let desired = DesiredTree { tree: world.desired(), moves: world.moves(&tree), held_traits: std::collections::BTreeMap::new(), };
            match plan(&tree, desired, &usages(&tree, &after)) {
                Plan::InSync { held } => {
                    let units = |held: &[berth_model::HeldUnits]| held.iter().map(|h| h.used).sum::<u64>();
                    prop_assert!(units(&held) <= units(request.held()));
                    break;
                }
                Plan::Update { diff, .. } => {
                    prop_assert!(round < 2, "it never ends:\n{diff}");
                    tree = diff.apply(&tree).unwrap();
                }
                Plan::ReshapeNeeded(again) => prop_assert!(false, "asked for again:\n{again}"),
            }
        }
    }

    #[test]
    fn a_start_leaves_nothing_that_a_tick_would_end_for(world in worlds(), named in named_moves()) {
        // A driver that names the same moves whatever Placement has, sensible or not.
        let desired = || DesiredTree { tree: world.desired(), moves: named.clone(), held_traits: std::collections::BTreeMap::new(), };
        let (mut tree, mut held_by) = (world.current(), world.allocations());
        for round in 0.. {
            let request = match plan(&tree, desired(), &usages(&tree, &held_by)) {
                Plan::ReshapeNeeded(pending) => pending.resolve(&held_by, |allocation, _| world.homes(allocation)),
                Plan::Update { diff, .. } => {
                    tree = diff.apply(&tree).unwrap();
                    break;
                }
                Plan::InSync { .. } => break,
            };
            // A refusal ends the process for good, with an exit code that systemd does not restart after.
            let Ok(request) = request else { return Ok(()) };
            prop_assert!(!request.inventories().is_empty(), "nothing changes:\n{request}");
            held_by = request.afterwards(&held_by);
            tree = request.diff().apply(&tree).unwrap();
            prop_assert!(round < 6, "the start never ends:\n{request}");
        }
        let ticked = plan(&tree, desired(), &usages(&tree, &held_by));
        prop_assert!(!matches!(ticked, Plan::ReshapeNeeded(_)), "asked for again:\n{ticked}");
    }
}
