//! Invariants: what must hold across Placement, hypervisor, devices, journals and APIs, checked on one snapshot of all of them.
//!
//! A [`SystemSnapshot`] contains the state of each part, the trace of effects, and the histories of requests, reshapes, tasks and exits.
//! [`audit`] returns each violation of an invariant that holds at any time, also during a task. [`audit_at_rest`] adds the invariants
//! that hold once all faults are healed and every task had time to finish.
//!
//! The types belong to this crate, so that all callers (the fault sweep and swarm, the runs with real kills, the lab) are judged alike:
//! each converts what it observes. What a caller does not know, it leaves empty; an invariant without its facts reports nothing.
//!
//! There is one module for each family of invariants: functions from a snapshot to violations that share no code with the product. An
//! invariant counts only if a planted bug is caught by it (`tests/invariants/canaries.rs`).

mod allocations;
mod api_listings;
mod bindings;
mod capacity;
mod completion;
mod conservation;
mod desired_state;
mod devices;
mod durability;
mod generations;
mod invariant;
mod process_health;
mod provenance;
mod rate_limits;
mod resets;
mod server_groups;
mod single_writer;
mod snapshot;
mod steady_state;
mod trees;

pub use invariant::{InvariantId, Violation};
pub use process_health::EXIT_CODES;
pub use snapshot::{
    AcceleratorSnapshot, AgentReport, AllocatedAmounts, Answer, ArqRow, ConsumerRow, Device, Exit,
    Fact, Guest, Histories, Journal, LoopLimits, OutputText, Pass, PassOutcome, PlacementSnapshot,
    PlacementWrite, ProviderRow, RefusedReshape, Reshape, ServerGroup, Step, StepBoundary,
    StepKind, SystemSnapshot, TaskOutcome, TaskRecord,
};

/// The violations of all invariants that hold at any time, also during a task.
#[must_use]
pub fn audit(snapshot: &SystemSnapshot) -> Vec<Violation> {
    [
        capacity::s1,
        conservation::s2,
        devices::s3,
        bindings::s4,
        resets::s5,
        durability::s8,
        provenance::s9,
        generations::s10,
        trees::s11,
        rate_limits::s12,
        process_health::s13,
        single_writer::s14,
        server_groups::s15,
    ]
    .into_iter()
    .flat_map(|invariant| invariant(snapshot))
    .collect()
}

/// The violations of all invariants: those of [`audit`], and those that hold once every fault is healed and every task had time to finish.
#[must_use]
pub fn audit_at_rest(snapshot: &SystemSnapshot) -> Vec<Violation> {
    let at_rest = [
        completion::l1,
        allocations::l2,
        bindings::l3,
        resets::l4,
        desired_state::l5,
        steady_state::l7,
        api_listings::l8,
        server_groups::l9,
    ];
    let mut violations = audit(snapshot);
    violations.extend(
        at_rest
            .into_iter()
            .flat_map(|invariant| invariant(snapshot)),
    );
    violations
}
