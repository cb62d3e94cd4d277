//! The reshape: inventory and its allocations moved in one call (spec reshape-provider-tree, POST /reshaper since 1.30).
//!
//! A [`PendingReshape`] knows that inventory moved, not yet who holds it. [`PendingReshape::resolve`] is given all
//! allocations of the tree and asks the driver for each one's new home; it alone makes a [`ReshapeRequest`], and only one
//! it has proved lawful: per consumer and class (after renames) the amount is conserved; per provider and class all users
//! together stay within capacity, or the class is held; nothing outside the moves changes.
//!
//! The way: [`placing`] gives allocations their homes, [`lawful_tree`] holds what stays, [`proof`] judges the outcome;
//! [`unreserved`] tells an operator what does not move along.

mod home;
mod lawful_tree;
mod placing;
mod proof;
mod refused;
mod request;
mod unreserved;

use std::fmt;

use crate::plan::moves_where;
use crate::{Allocation, Allocations, Desired, ProviderTree, ProviderUuid, ResourceClass, diff};

pub use home::{Home, HomelessReason, Homes};
pub use refused::ReshapeRefused;
pub use request::{MovedUnits, ReshapeRequest};

/// A reshape that still lacks the allocations. It cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingReshape {
    current: ProviderTree,
    desired: Desired,
}

impl PendingReshape {
    /// Every named move is pending.
    pub(crate) fn new(current: ProviderTree, desired: Desired) -> Self {
        Self { current, desired }
    }

    /// The moves whose inventory is only held by now: at a start their units may have found a home (a device that came
    /// back, a guest that is known again). None where nothing is held.
    #[must_use]
    pub fn rehoming(current: &ProviderTree, desired: &Desired) -> Option<Self> {
        let moves = moves_where(current, desired, |_| true);
        if moves.is_empty() {
            return None;
        }
        let desired = Desired {
            moves,
            ..desired.clone()
        };
        Some(Self::new(current.clone(), desired))
    }

    /// The tree Placement has.
    #[must_use]
    pub fn current(&self) -> &ProviderTree {
        &self.current
    }

    /// What the driver wants, with the moves that are pending.
    #[must_use]
    pub fn desired(&self) -> &Desired {
        &self.desired
    }

    /// Gives every allocation on moved inventory its new home and proves the outcome lawful. `allocations` are those of
    /// every consumer of every provider of the own tree; `homes` is the driver's answer for one allocation, asked with
    /// all of them in hand. Units without a home are held, not lost. Pure, and independent of the order of its input.
    ///
    /// # Errors
    /// No lawful inventory could hold the outcome, or the driver contradicts itself.
    pub fn resolve(
        self,
        allocations: &Allocations,
        homes: impl Fn(&Allocation, &Allocations) -> Homes,
    ) -> Result<ReshapeRequest, ReshapeRefused> {
        let placed = placing::place(&self, allocations, homes)?;
        let (tree, held) = lawful_tree::lawful_tree(&self, allocations, &placed.after)?;
        let request = ReshapeRequest::new(&self, tree, allocations, placed, held);
        proof::prove(&self, allocations, &request)?;
        Ok(request)
    }

    /// Whether a move names this inventory as the one that units leave.
    fn is_source(&self, provider: ProviderUuid, class: &ResourceClass) -> bool {
        self.desired
            .moves
            .iter()
            .any(|m| m.provider == provider && m.class == *class)
    }
}

impl fmt::Display for PendingReshape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "reshape needed")?;
        for m in &self.desired.moves {
            let name = self.current.get(m.provider).map_or_else(
                || m.provider.to_string(),
                |provider| provider.name.to_string(),
            );
            let to: Vec<_> = m.to.iter().map(ResourceClass::as_str).collect();
            if to == [m.class.as_str()] {
                writeln!(f, "  {} leaves {name}: {}", m.class, m.reason)?;
            } else {
                let to = to.join(" and ");
                writeln!(f, "  {} on {name} becomes {to}: {}", m.class, m.reason)?;
            }
        }
        write!(f, "{}", diff(&self.current, &self.desired.tree))
    }
}
