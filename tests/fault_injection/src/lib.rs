//! Fault injection: the test code that makes each effect of Berth fail in each way, at each point, repeatably.
//!
//! An *effect* is one action across a [`Boundary`] of the process: a request, a driver call, a sysfs or file access, a database
//! transaction. There are five boundaries and no other way out. The harness (`tests/src/fault`) puts a decorator on each; product code
//! and packages contain none (ADR 0007). For each effect, the decorator asks a [`Gate`] twice:
//!
//! ```text
//! decorator                          gate
//!    |-- before(Effect) ------------>|
//!    |<-- Proceed or Fault ----------|     play the fault, or
//!    |   perform the effect          |
//!    |-- after(Effect, outcome) ---->|
//!    |<-- Proceed or Fault ----------|     spoil the result, or return it
//! ```
//!
//! `after` is called exactly once for each `before` whose effect was performed ([`GateDecision::effect_follows`]), whether the effect
//! succeeded or failed. It is not called if the fault prevented the effect. If the future is dropped between the two calls, the outcome
//! of the effect is unknown.
//!
//! # Gates
//!
//! - [`OpenGate`] lets every effect proceed.
//! - [`RecordingGate`] writes each effect into a [`Trace`].
//! - [`PointGate`] injects a fault at an [`InjectionPoint`]: one side of the n-th effect. A sweep makes one run for each point; the
//!   points come from the trace of a run without faults ([`Trace::points`]).
//! - [`DeterministicScheduler`] runs several tasks and lets one effect at a time proceed, chosen by a seed. The same seed gives the same
//!   trace.
//!
//! None of them needs a runtime.
//!
//! # Names are the same in each run
//!
//! Traces of different runs are compared. An operation is therefore a template (`PUT /resource_providers/{uuid}/inventories`, `observe`,
//! `append`). A subject names its object by something stable, such as a provider's name or a path below the root. Neither contains a
//! time, a port or a counter. [`Trace::aliased`] replaces random UUIDs that cannot be avoided.
//!
//! # How a decorator plays a fault
//!
//! | fault | at `before` | at `after` |
//! |---|---|---|
//! | `InternalError`, `ServiceUnavailable`, `Unauthorized`, `Forbidden`, `BadRequest`, `Conflict` | return this answer, with the body that the service would send; do nothing | - |
//! | `ConnectionRefused` | return a transport error (a driver: hypervisor unavailable; a database: server unreachable); do nothing | - |
//! | `AnswerLost` | - | drop the result, return a transport error |
//! | `Twice` | perform the effect twice, return the second result | - |
//! | `Late` | return a timeout; perform the effect just before the next effect at this boundary, or when the other side's queue reaches it | - |
//! | `Kill`, `PowerCut` | in process: never return, and the harness drops the task; a real process: SIGKILL itself. A power cut also undoes writes that were not synced | the same |
//! | `Hang` | never return; where time passes, until the caller gives up (a client, a driver) or the disk or database continues | the same, with the effect done |
//! | `Stale` | - | return what the same effect returned the previous time |
//! | `Truncated`, `WrongBody`, `EndlessBody` | - | spoil the body, or the content of the file |
//! | `DiskFull`, `InputOutput` | fail; do nothing | fail, with the effect done in part |
//! | `ClockForward`, `ClockBackward` | move the harness's clock by an hour, proceed | - |
//! | `TokenExpired` | answer 401 until the next token is issued | - |
//!
//! [`Fault::applies`] says which faults make sense where. The gates of this crate never return another one.

mod effect;
mod fault;
mod gate;
mod point;
mod recording;
mod scheduler;
mod trace;

pub use effect::{Boundary, Effect, EffectKind, EffectOutcome, EffectPhase};
pub use fault::{Fault, FaultError, FaultRow};
pub use gate::{Gate, GateDecision, GateFuture, OpenGate};
pub use point::{FaultRepetition, InjectionPoint, InjectionPointError, PointGate};
pub use recording::{RecordingGate, TraceClock};
pub use scheduler::{DeterministicScheduler, ScheduledTask, SchedulerState, TaskGate};
pub use trace::{Trace, TraceEvent, TraceLine};

#[cfg(test)]
mod executor;
