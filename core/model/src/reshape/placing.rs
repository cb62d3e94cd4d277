//! Gives every allocation on moved inventory its home: first those that say exactly where, then those that take any of
//! several; consumers in the order of their UUIDs, so that the outcome does not depend on how they were read.

use std::collections::BTreeMap;

use super::{Home, HomelessReason, Homes, MovedUnits, PendingReshape, ReshapeRefused};
use crate::{
    Allocation, Allocations, ConsumerUuid, Inventory, Move, ProviderTree, ProviderUuid,
    ResourceClass, Usages,
};

/// The allocations afterwards, and the account of it.
pub(super) struct Placed {
    pub(super) after: Allocations,
    pub(super) moved: Vec<MovedUnits>,
    pub(super) homeless: Vec<(Allocation, HomelessReason)>,
}

/// Room left on the desired tree, by provider and class.
struct Room<'a> {
    tree: &'a ProviderTree,
    used: Usages,
}

impl Room<'_> {
    /// How many of `amount` units fit.
    fn fitting(&self, provider: ProviderUuid, class: &ResourceClass, amount: u64) -> u64 {
        let capacity = self
            .tree
            .inventory(provider, class)
            .map_or(0, Inventory::capacity);
        let used = self
            .used
            .get(&(provider, class.clone()))
            .copied()
            .unwrap_or(0);
        capacity.saturating_sub(used).min(amount)
    }

    fn take(&mut self, provider: ProviderUuid, class: &ResourceClass, amount: u64) {
        *self.used.entry((provider, class.clone())).or_insert(0) += amount;
    }

    /// Whether one allocation of this size is taken at all.
    fn takes_at_once(&self, provider: ProviderUuid, class: &ResourceClass, amount: u64) -> bool {
        self.tree
            .inventory(provider, class)
            .is_some_and(|inventory| {
                amount >= u64::from(inventory.min_unit)
                    && amount <= u64::from(inventory.max_unit)
                    && amount.is_multiple_of(u64::from(inventory.step_size.max(1)))
            })
    }
}

struct Placing<'a> {
    pending: &'a PendingReshape,
    room: Room<'a>,
    placed: Placed,
}

/// One consumer's allocations that go together to any of several providers.
type Together = Vec<(Allocation, ResourceClass, Vec<ProviderUuid>)>;

pub(super) fn place(
    pending: &PendingReshape,
    allocations: &Allocations,
    homes: impl Fn(&Allocation, &Allocations) -> Homes,
) -> Result<Placed, ReshapeRefused> {
    let moves: BTreeMap<(ProviderUuid, ResourceClass), &Move> = pending
        .desired()
        .moves
        .iter()
        .map(|m| ((m.provider, m.class.clone()), m))
        .collect();
    let mut used = allocations.usages();
    used.retain(|place, _| !moves.contains_key(place));
    let mut placing = Placing {
        pending,
        room: Room {
            tree: &pending.desired().tree,
            used,
        },
        placed: Placed {
            after: allocations.clone(),
            moved: Vec::new(),
            homeless: Vec::new(),
        },
    };
    let mut together: BTreeMap<ConsumerUuid, Together> = BTreeMap::new();
    let mut exact = Vec::new();
    for allocation in allocations.iter() {
        let Some(m) = moves.get(&(allocation.provider, allocation.class.clone())) else {
            continue;
        };
        match homes(&allocation, allocations) {
            Homes::At { homes, rest } => exact.push((allocation, *m, homes, rest)),
            Homes::AnyOf { class, providers } => {
                placing.check_class(&allocation, m, &class)?;
                let entry = (allocation.clone(), class, providers);
                together.entry(allocation.consumer).or_default().push(entry);
            }
            Homes::Nowhere(reason) => placing.stay(&allocation, allocation.amount, Some(reason)),
        }
    }
    for (allocation, m, homes, rest) in exact {
        placing.place_exactly(&allocation, m, homes, rest)?;
    }
    for group in together.into_values() {
        placing.place_together(group)?;
    }
    Ok(placing.placed)
}

impl Placing<'_> {
    /// Units of an allocation stay on their provider, in their class.
    fn stay(&mut self, allocation: &Allocation, amount: u64, reason: Option<HomelessReason>) {
        self.room
            .take(allocation.provider, &allocation.class, amount);
        if let Some(reason) = reason {
            self.placed.homeless.push((
                Allocation {
                    amount,
                    ..allocation.clone()
                },
                reason,
            ));
        }
    }

    fn relocate(&mut self, allocation: &Allocation, home: &Home) {
        self.room.take(home.provider, &home.class, home.amount);
        if home.provider == allocation.provider && home.class == allocation.class {
            return;
        }
        let Some(held) = self.placed.after.of(&allocation.consumer) else {
            return;
        };
        let mut held = held.clone();
        let from = (allocation.provider, allocation.class.clone());
        if let Some(left) = held.resources.get_mut(&from) {
            *left = left.saturating_sub(home.amount);
            if *left == 0 {
                held.resources.remove(&from);
            }
        }
        *held
            .resources
            .entry((home.provider, home.class.clone()))
            .or_insert(0) += home.amount;
        self.placed.after.insert(allocation.consumer, held);
        self.placed.moved.push(MovedUnits {
            consumer: allocation.consumer,
            from: allocation.provider,
            from_class: allocation.class.clone(),
            to: home.provider,
            to_class: home.class.clone(),
            amount: home.amount,
        });
    }

    fn name(&self, uuid: ProviderUuid) -> Option<crate::ProviderName> {
        self.pending
            .desired()
            .tree
            .get(uuid)
            .map(|provider| provider.name.clone())
    }

    fn place_exactly(
        &mut self,
        allocation: &Allocation,
        m: &Move,
        homes: Vec<Home>,
        rest: HomelessReason,
    ) -> Result<(), ReshapeRefused> {
        let given: u64 = homes.iter().map(|home| home.amount).sum();
        if given > allocation.amount {
            return Err(ReshapeRefused::MoreThanHeld {
                consumer: allocation.consumer,
                class: allocation.class.clone(),
                amount: allocation.amount,
                given,
            });
        }
        if given < allocation.amount {
            self.stay(allocation, allocation.amount - given, Some(rest));
        }
        for home in merged(homes) {
            let stays = home.provider == m.provider && home.class == m.class;
            if stays {
                self.stay(allocation, home.amount, None);
                continue;
            }
            self.check_home(allocation, m, &home)?;
            self.move_what_fits(allocation, home);
        }
        Ok(())
    }

    fn check_class(
        &self,
        allocation: &Allocation,
        m: &Move,
        class: &ResourceClass,
    ) -> Result<(), ReshapeRefused> {
        if m.to.contains(class) {
            return Ok(());
        }
        Err(ReshapeRefused::ForeignClass {
            consumer: allocation.consumer,
            from: allocation.class.clone(),
            to: class.clone(),
        })
    }

    fn check_home(
        &self,
        allocation: &Allocation,
        m: &Move,
        home: &Home,
    ) -> Result<(), ReshapeRefused> {
        self.check_class(allocation, m, &home.class)?;
        if self.name(home.provider).is_none() {
            return Err(ReshapeRefused::UnknownHome {
                consumer: allocation.consumer,
                class: home.class.clone(),
                provider: home.provider,
            });
        }
        Ok(())
    }

    fn move_what_fits(&mut self, allocation: &Allocation, home: Home) {
        let Some(name) = self.name(home.provider) else {
            return;
        };
        let fits = self.room.fitting(home.provider, &home.class, home.amount);
        // The consumer may hold some there already; Placement judges the sum.
        let already = self
            .placed
            .after
            .of(&allocation.consumer)
            .and_then(|held| held.resources.get(&(home.provider, home.class.clone())))
            .copied()
            .unwrap_or(0);
        let (moves, reason) = if fits < home.amount {
            (
                fits,
                HomelessReason::NoRoom {
                    provider: name.clone(),
                },
            )
        } else {
            (
                fits,
                HomelessReason::UnitSize {
                    provider: name.clone(),
                },
            )
        };
        let (moves, reason) = if moves > 0
            && !self
                .room
                .takes_at_once(home.provider, &home.class, moves + already)
        {
            (0, HomelessReason::UnitSize { provider: name })
        } else {
            (moves, reason)
        };
        if moves < home.amount {
            self.stay(allocation, home.amount - moves, Some(reason));
        }
        if moves > 0 {
            self.relocate(
                allocation,
                &Home {
                    amount: moves,
                    ..home
                },
            );
        }
    }

    /// The whole group goes to the first provider that all its members name and that has room for all, or stays.
    fn place_together(&mut self, group: Together) -> Result<(), ReshapeRefused> {
        let Some((first, _, choices)) = group.first() else {
            return Ok(());
        };
        for provider in choices {
            if self.name(*provider).is_none() {
                return Err(ReshapeRefused::UnknownHome {
                    consumer: first.consumer,
                    class: first.class.clone(),
                    provider: *provider,
                });
            }
        }
        let home = choices.iter().copied().find(|provider| {
            let mut wanted: Usages = Usages::new();
            for (allocation, class, _) in &group {
                *wanted.entry((*provider, class.clone())).or_insert(0) += allocation.amount;
            }
            group
                .iter()
                .all(|(_, _, choices)| choices.contains(provider))
                && wanted.iter().all(|((provider, class), amount)| {
                    self.room.fitting(*provider, class, *amount) == *amount
                        && self.room.takes_at_once(*provider, class, *amount)
                })
        });
        let last = choices.last().and_then(|provider| self.name(*provider));
        for (allocation, class, _) in group {
            match (home, &last) {
                (Some(provider), _) => {
                    let home = Home {
                        provider,
                        class,
                        amount: allocation.amount,
                    };
                    self.relocate(&allocation, &home);
                }
                (None, Some(name)) => {
                    let reason = HomelessReason::NoRoom {
                        provider: name.clone(),
                    };
                    self.stay(&allocation, allocation.amount, Some(reason));
                }
                (None, None) => {
                    self.stay(
                        &allocation,
                        allocation.amount,
                        Some(HomelessReason::Unknown),
                    );
                }
            }
        }
        Ok(())
    }
}

/// Homes named twice are one home with both amounts.
fn merged(homes: Vec<Home>) -> Vec<Home> {
    let mut by_place: BTreeMap<(ProviderUuid, ResourceClass), u64> = BTreeMap::new();
    for home in homes {
        *by_place.entry((home.provider, home.class)).or_insert(0) += home.amount;
    }
    by_place
        .into_iter()
        .filter(|(_, amount)| *amount > 0)
        .map(|((provider, class), amount)| Home {
            provider,
            class,
            amount,
        })
        .collect()
}
