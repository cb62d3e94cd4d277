//! The decorators that act faults out at the seams of a node in this process, and the traces they leave.
//!
//! A [`Stage`] holds what all of one node's decorators share: the gate they ask, the clock that may jump, the names that
//! stand for UUIDs in a trace, and the signal that the process was killed. [`GatedHttp`], [`GatedDriver`],
//! [`GatedAttributes`], [`GatedFiles`], [`GatedGuestJournal`], [`GatedBootJournal`] and [`GatedHosts`] stand in front of the real
//! thing, announce each effect to the gate and act out what the gate says; the table in the documentation of `berth_fault_injection` is what
//! they follow. Called by the sweep, the swarm and the scenarios with faults.
//!
//! Time is virtual: a run's runtime has its clock paused, and [`Stage`] keeps it still while an effect is under way, so a
//! time limit passes only where a fault makes something hang.

mod answers;
mod attributes;
mod clock;
mod driver;
mod files;
mod hosts;
mod http;
mod journals;
mod route;
mod stage;
mod still;
mod switched;

pub use attributes::GatedAttributes;
pub use clock::HarnessClock;
pub use driver::GatedDriver;
pub use files::GatedFiles;
pub use hosts::GatedHosts;
pub use http::GatedHttp;
pub use journals::{GatedBootJournal, GatedGuestJournal};
pub use stage::Stage;
pub use still::{busy, busy_but_at_gates, turn};
pub use switched::SwitchedGate;
