//! Decorators that inject faults at the boundaries of a node in this process, and record traces.
//!
//! A [`FaultStage`] holds what all decorators of one node share: the gate, the clock, which may jump, the names that
//! replace UUIDs in a trace, and the signal that the process was killed. [`GatedHttp`], [`GatedDriver`],
//! [`GatedAttributes`], [`GatedFiles`], [`GatedGuestJournal`], [`GatedBootJournal`] and [`GatedHosts`] wrap the real
//! objects. They announce each effect to the gate and act out the gate's decision, as the table in the documentation of
//! `berth_fault_injection` defines. Used by the sweep, the swarm and the scenarios with faults.
//!
//! Time is virtual: a run's runtime has a paused clock, and [`FaultStage`] keeps it paused during an effect, so that a
//! time limit expires only where a fault makes a call hang.

mod answers;
mod attributes;
mod clock;
mod driver;
mod files;
mod hosts;
mod http;
mod journals;
mod paused_clock;
mod route;
mod stage;
mod switched;

pub use attributes::GatedAttributes;
pub use clock::HarnessClock;
pub use driver::GatedDriver;
pub use files::GatedFiles;
pub use hosts::GatedHosts;
pub use http::GatedHttp;
pub use journals::{GatedBootJournal, GatedGuestJournal};
pub use paused_clock::{busy, busy_but_at_gates, turn};
pub use stage::FaultStage;
pub use switched::SwitchedGate;
