//! The audit: one pure checker over what is true in several places at once.
//!
//! A [`Worlds`] value says what Placement has, which guests and devices there are, what the state files say, what crossed
//! the seams, and what clients were answered. [`audit`] names every promise that is broken at any moment, mid-journey
//! included; [`audit_at_rest`] also judges what must hold once all faults are healed and every journey had its time. It owns
//! its types, so it judges everything alike: callers (the fault sweep and swarm, real kills, the lab, `berth doctor`,
//! and read-only the running reconciler) convert what they see. What a caller does not know it leaves empty; an invariant
//! without its facts says nothing.
//!
//! One file per family of invariants, each a function from worlds to violations that shares no code with what it judges.
//! An invariant counts only when a planted bug (a canary, in this crate's tests) is caught by it.

mod bindings;
mod capacity;
mod causes;
mod conduct;
mod conservation;
mod desired;
mod devices;
mod durability;
mod generations;
mod holders;
mod invariant;
mod journeys;
mod members;
mod owners;
mod pace;
mod quiet;
mod resets;
mod told;
mod trees;
mod worlds;

pub use conduct::EXIT_CODES;
pub use invariant::{InvariantId, Violation};
pub use worlds::{
    AcceleratorWorld, Allocated, Answer, ArqRow, ConsumerRow, Device, Exit, Fact, Guest, Histories,
    Journal, JourneyEnd, JourneyRow, Limits, Pass, PassEnd, PlacementWorld, ProviderRow, Refusal,
    Reported, Request, Reshape, ServerGroup, Step, StepEffect, StepSeam, Text, Worlds,
};

/// What must hold at any moment, mid-journey included. Empty is good.
#[must_use]
pub fn audit(worlds: &Worlds) -> Vec<Violation> {
    [
        capacity::s1,
        conservation::s2,
        devices::s3,
        bindings::s4,
        resets::s5,
        durability::s8,
        causes::s9,
        generations::s10,
        trees::s11,
        pace::s12,
        conduct::s13,
        owners::s14,
        members::s15,
    ]
    .into_iter()
    .flat_map(|invariant| invariant(worlds))
    .collect()
}

/// What must hold when every fault is healed and every journey had its time: all of [`audit`], and that the worlds agree.
#[must_use]
pub fn audit_at_rest(worlds: &Worlds) -> Vec<Violation> {
    let at_rest = [
        journeys::l1,
        holders::l2,
        bindings::l3,
        resets::l4,
        desired::l5,
        quiet::l7,
        told::l8,
        members::l9,
    ];
    let mut violations = audit(worlds);
    violations.extend(at_rest.into_iter().flat_map(|invariant| invariant(worlds)));
    violations
}
