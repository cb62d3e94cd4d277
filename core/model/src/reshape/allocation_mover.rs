//! Gives every allocation on moved inventory its home.
//!
//! The outcome does not depend on the order of the input. Consumers are ordered by UUID; exact homes come before a
//! choice of several, and allocations that fit whole before those that fit in part.
//!
//! Units occupy capacity where they are until they have moved, so the same capacity is never counted twice. An
//! allocation that waits for others to leave is retried as long as anything moves.

use std::collections::{BTreeMap, BTreeSet};

use super::{Home, HomelessReason, Homes, MovedUnits, PendingReshape, ReshapeRefused};
use crate::{
    Allocation, Allocations, ConsumerUuid, Inventory, Move, ProviderUuid, ResourceClass, Usages,
};

/// The allocations after the moves, and what was moved.
pub(super) struct MovedAllocations {
    pub(super) after: Allocations,
    pub(super) moved: Vec<MovedUnits>,
    pub(super) homeless: Vec<(Allocation, HomelessReason)>,
}

struct AllocationMover<'a> {
    pending: &'a PendingReshape,
    /// Units by provider and class, in the present state of the moves.
    used: Usages,
    placed: MovedAllocations,
}

/// Units of one allocation with the same home.
struct ExactMove {
    allocation: Allocation,
    home: Home,
}

/// Allocations of one consumer that go together to one of several providers.
#[derive(Default)]
struct ConsumerGroup {
    members: Vec<(Allocation, ResourceClass)>,
    /// The providers that all members list, in the order of the first member.
    choices: Vec<ProviderUuid>,
}

pub(super) fn place(
    pending: &PendingReshape,
    allocations: &Allocations,
    homes: impl Fn(&Allocation, &Allocations) -> Homes,
) -> Result<MovedAllocations, ReshapeRefused> {
    let moves: BTreeMap<(ProviderUuid, &ResourceClass), &Move> = pending
        .desired
        .moves
        .iter()
        .map(|m| ((m.provider, &m.class), m))
        .collect();
    let mut mover = AllocationMover::new(pending, allocations);
    let mut exact = Vec::new();
    let mut together: BTreeMap<ConsumerUuid, ConsumerGroup> = BTreeMap::new();
    for allocation in allocations.iter() {
        let Some(m) = moves.get(&(allocation.provider, &allocation.class)) else {
            continue;
        };
        match homes(&allocation, allocations) {
            Homes::At { homes, rest } => {
                exact.extend(mover.exact_moves(&allocation, m, homes, rest)?);
            }
            Homes::AnyOf { class, providers } => {
                for provider in &providers {
                    mover.check_home(&allocation, m, *provider, &class)?;
                }
                let group = together.entry(allocation.consumer).or_default();
                group.join(allocation, class, providers);
            }
            Homes::Nowhere(reason) => mover.hold(&allocation, allocation.amount, reason),
        }
    }
    let left = until_nothing_moves(exact, |exact_move| mover.move_all(exact_move));
    for exact_move in left {
        mover.move_part(exact_move);
    }
    let left = until_nothing_moves(together.into_values().collect(), |group| {
        mover.move_group(group)
    });
    for group in left {
        mover.hold_group(group);
    }
    Ok(mover.finish())
}

/// Tries all entries until a whole round moves none; returns the entries that never moved.
fn until_nothing_moves<T>(mut waiting: Vec<T>, mut moves: impl FnMut(&T) -> bool) -> Vec<T> {
    loop {
        let before = waiting.len();
        waiting.retain(|one| !moves(one));
        if waiting.len() == before {
            return waiting;
        }
    }
}

impl ConsumerGroup {
    fn join(&mut self, allocation: Allocation, class: ResourceClass, providers: Vec<ProviderUuid>) {
        if self.members.is_empty() {
            self.choices = providers;
        } else {
            self.choices.retain(|choice| providers.contains(choice));
        }
        self.members.push((allocation, class));
    }
}

impl<'a> AllocationMover<'a> {
    fn new(pending: &'a PendingReshape, allocations: &Allocations) -> Self {
        Self {
            pending,
            used: allocations.usages(),
            placed: MovedAllocations {
                after: allocations.clone(),
                moved: Vec::new(),
                homeless: Vec::new(),
            },
        }
    }

    fn finish(mut self) -> MovedAllocations {
        self.placed.moved.sort();
        self.placed.homeless.sort_by(|a, b| a.0.cmp(&b.0));
        self.placed
    }

    /// The moves that an exact answer requires. Units that it does not cover stay, and so do units that
    /// are already at home.
    fn exact_moves(
        &mut self,
        allocation: &Allocation,
        m: &Move,
        homes: Vec<Home>,
        rest: HomelessReason,
    ) -> Result<Vec<ExactMove>, ReshapeRefused> {
        let given = homes
            .iter()
            .fold(0_u64, |sum, home| sum.saturating_add(home.amount));
        if given > allocation.amount {
            return Err(ReshapeRefused::MoreThanHeld {
                consumer: allocation.consumer,
                class: allocation.class.clone(),
                amount: allocation.amount,
                given,
            });
        }
        if given < allocation.amount {
            self.hold(allocation, allocation.amount - given, rest);
        }
        let mut moves = Vec::new();
        for home in merged(homes) {
            if home.provider == m.provider && home.class == m.class {
                continue;
            }
            self.check_home(allocation, m, home.provider, &home.class)?;
            moves.push(ExactMove {
                allocation: allocation.clone(),
                home,
            });
        }
        Ok(moves)
    }

    fn check_home(
        &self,
        allocation: &Allocation,
        m: &Move,
        provider: ProviderUuid,
        class: &ResourceClass,
    ) -> Result<(), ReshapeRefused> {
        if !m.to.contains(class) {
            return Err(ReshapeRefused::ForeignClass {
                consumer: allocation.consumer,
                from: allocation.class.clone(),
                to: class.clone(),
            });
        }
        if self.pending.desired.tree.get(provider).is_none() {
            return Err(ReshapeRefused::UnknownHome {
                consumer: allocation.consumer,
                class: class.clone(),
                provider,
            });
        }
        Ok(())
    }

    /// Units of an allocation stay on their provider, in their class, without a home.
    fn hold(&mut self, allocation: &Allocation, amount: u64, reason: HomelessReason) {
        let allocation = Allocation {
            amount,
            ..allocation.clone()
        };
        self.placed.homeless.push((allocation, reason));
    }

    /// The free capacity.
    fn free_capacity(&self, provider: ProviderUuid, class: &ResourceClass) -> u64 {
        let capacity = self
            .inventory(provider, class)
            .map_or(0, Inventory::capacity);
        let used = self.used.get(&(provider, class.clone())).copied();
        capacity.saturating_sub(used.unwrap_or(0))
    }

    /// Whether one consumer may have this many more units there: Placement checks the sum.
    fn accepts_sum(
        &self,
        consumer: &ConsumerUuid,
        provider: ProviderUuid,
        class: &ResourceClass,
        more: u64,
    ) -> bool {
        let place = (provider, class.clone());
        let held = self.placed.after.of(consumer);
        let already = held.and_then(|held| held.resources.get(&place)).copied();
        let sum = already.unwrap_or(0).saturating_add(more);
        self.inventory(provider, class)
            .is_some_and(|inventory| inventory.accepts_amount(sum))
    }

    fn inventory(&self, provider: ProviderUuid, class: &ResourceClass) -> Option<&'a Inventory> {
        self.pending.desired.tree.inventory(provider, class)
    }

    fn move_all(&mut self, exact_move: &ExactMove) -> bool {
        let (home, consumer) = (&exact_move.home, &exact_move.allocation.consumer);
        let fits = self.free_capacity(home.provider, &home.class) >= home.amount
            && self.accepts_sum(consumer, home.provider, &home.class, home.amount);
        if fits {
            self.relocate(&exact_move.allocation, home);
        }
        fits
    }

    /// Moves as much as fits if the home has no room for all units, or does not accept so many at once.
    fn move_part(&mut self, exact_move: ExactMove) {
        let ExactMove { allocation, home } = exact_move;
        let room = self.free_capacity(home.provider, &home.class);
        let consumer = &allocation.consumer;
        let takes = |amount| self.accepts_sum(consumer, home.provider, &home.class, amount);
        let fits = Some(room)
            .filter(|room| (1..home.amount).contains(room) && takes(*room))
            .unwrap_or(0);
        let provider = self.name(home.provider);
        let reason = if room < home.amount && (room == 0 || fits > 0) {
            HomelessReason::NoRoom { provider }
        } else {
            HomelessReason::UnitSize { provider }
        };
        self.hold(&allocation, home.amount - fits, reason);
        if fits > 0 {
            let home = Home {
                amount: fits,
                ..home
            };
            self.relocate(&allocation, &home);
        }
    }

    /// Moves the whole group to the first provider that all its members list and that has room for all.
    fn move_group(&mut self, group: &ConsumerGroup) -> bool {
        let fits = |provider: &ProviderUuid| {
            let mut wanted: BTreeMap<(&ConsumerUuid, &ResourceClass), u64> = BTreeMap::new();
            for (allocation, class) in &group.members {
                if allocation.provider != *provider || allocation.class != *class {
                    let sum = wanted.entry((&allocation.consumer, class)).or_insert(0);
                    *sum = sum.saturating_add(allocation.amount);
                }
            }
            wanted.into_iter().all(|((consumer, class), amount)| {
                self.free_capacity(*provider, class) >= amount
                    && self.accepts_sum(consumer, *provider, class, amount)
            })
        };
        let Some(provider) = group.choices.iter().copied().find(fits) else {
            return false;
        };
        for (allocation, class) in &group.members {
            let home = Home {
                provider,
                class: class.clone(),
                amount: allocation.amount,
            };
            self.relocate(allocation, &home);
        }
        true
    }

    fn hold_group(&mut self, group: ConsumerGroup) {
        let reason = match group.choices.last() {
            Some(provider) => HomelessReason::NoRoom {
                provider: self.name(*provider),
            },
            None => HomelessReason::Unknown,
        };
        for (allocation, _) in group.members {
            self.hold(&allocation, allocation.amount, reason.clone());
        }
    }

    fn relocate(&mut self, allocation: &Allocation, home: &Home) {
        let from = (allocation.provider, allocation.class.clone());
        let to = (home.provider, home.class.clone());
        if from == to {
            return;
        }
        subtract_usage(&mut self.used, &from, home.amount);
        arrive(&mut self.used, to.clone(), home.amount);
        if let Some(held) = self.placed.after.of_mut(&allocation.consumer) {
            subtract_usage(&mut held.resources, &from, home.amount);
            arrive(&mut held.resources, to, home.amount);
        }
        self.placed.moved.push(MovedUnits {
            consumer: allocation.consumer,
            from: allocation.provider,
            from_class: allocation.class.clone(),
            to: home.provider,
            to_class: home.class.clone(),
            amount: home.amount,
        });
    }

    fn name(&self, uuid: ProviderUuid) -> crate::ProviderName {
        let tree = &self.pending.desired.tree;
        tree.get(uuid).unwrap_or(tree.root()).name.clone()
    }
}

fn subtract_usage(amounts: &mut Usages, place: &(ProviderUuid, ResourceClass), amount: u64) {
    if let Some(left) = amounts.get_mut(place) {
        *left = left.saturating_sub(amount);
        if *left == 0 {
            amounts.remove(place);
        }
    }
}

fn arrive(amounts: &mut Usages, place: (ProviderUuid, ResourceClass), amount: u64) {
    let sum = amounts.entry(place).or_insert(0);
    *sum = sum.saturating_add(amount);
}

/// Merges equal homes and removes homes of 0 units.
fn merged(homes: Vec<Home>) -> Vec<Home> {
    let places: BTreeSet<_> = homes
        .iter()
        .map(|home| (home.provider, home.class.clone()))
        .collect();
    let amount_at = |provider, class: &ResourceClass| {
        let here = homes
            .iter()
            .filter(|home| home.provider == provider && home.class == *class);
        here.map(|home| home.amount).sum()
    };
    places
        .into_iter()
        .map(|(provider, class)| Home {
            amount: amount_at(provider, &class),
            provider,
            class,
        })
        .filter(|home| home.amount > 0)
        .collect()
}
