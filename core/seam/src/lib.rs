//! The contract of a crossing: what every effect announces before it happens and after it happened, and the gate that
//! may hold or fail it.
//!
//! Berth touches the world at five seams and nowhere else: [`Seam::Http`], [`Seam::Driver`], [`Seam::Sysfs`],
//! [`Seam::Store`] and [`Seam::Database`]. A decorator sits on each (it lives with the tests, as ADR 0007 decides; a
//! package has none). For every single effect it does four things:
//!
//! 1. builds a [`Crossing`]: which seam, which operation, on what, and whether it reads or writes;
//! 2. awaits [`Gate::before`] and acts out the [`Release`]: goes on, or plays the [`Fault`];
//! 3. performs the effect and sums its result up as an [`EffectEnd`];
//! 4. awaits [`Gate::after`] and again acts out the release: hands the result on, or loses it.
//!
//! `after` is called exactly once for each `before` whose effect was performed ([`Release::effect_follows`]), whether it
//! succeeded or not; it is not called where the fault kept the effect from happening. A future that is dropped between
//! the two counts as "outcome unknown".
//!
//! # Subjects are stable
//!
//! A trace is compared with another run's, so an operation is a template (`PUT /resource_providers/{uuid}/inventories`,
//! `observe`, `append`), a subject names its object in words that are the same in each run (a provider's name, a file's
//! path below its root), and neither holds a time, a port or a counter. Random UUIDs that cannot be avoided are made
//! alike by [`Trace::aliased`].
//!
//! # How a fault is acted out
//!
//! | fault | at `before` | at `after` |
//! |---|---|---|
//! | `InternalError`, `ServiceUnavailable`, `Unauthorized`, `Forbidden`, `BadRequest`, `Conflict` | answer so (with the peer's body); do nothing | - |
//! | `ConnectionRefused` | a transport error (a driver: its "hypervisor is away", a database: its server cannot be reached); do nothing | - |
//! | `AnswerLost` | - | drop the result, answer a transport error |
//! | `Twice` | perform the effect twice, answer the second result | - |
//! | `Late` | answer a timeout now; perform the effect just before the next crossing of this seam, or, where the other side has a queue, when its time there is over | - |
//! | `Kill`, `PowerCut` | in process: never return, the harness drops the journey; a real process: SIGKILL itself. A power cut also undoes writes not yet synced | the same |
//! | `Hang` | never return; where time goes on, until whoever waits gives up (a client, a driver), or until a disk or a database goes on | the same, the effect done |
//! | `Stale` | - | answer what the same crossing answered the time before |
//! | `Truncated`, `WrongBody`, `EndlessBody` | - | spoil the body (a file's content) on its way |
//! | `DiskFull`, `InputOutput` | fail so; do nothing | fail so, the effect done in part |
//! | `ClockForward`, `ClockBackward` | move the harness's clock by an hour, go on | - |
//! | `TokenExpired` | answer 401 until the next token is issued | - |
//!
//! [`Fault::applies`] says which of them make sense where; a decorator is never handed another one by the gates here.
//!
//! # The gates
//!
//! [`OpenGate`] lets all pass. [`RecordingGate`] writes each crossing into a [`Trace`]. [`PointGate`] fails the n-th
//! crossing (the sweep: one run per [`Point`], the points come from a clean run's trace by [`Trace::points`]).
//! [`TurnGate`] runs several journeys at once and lets one crossing pass at a time by a seeded choice, so the same seed
//! gives the same trace. None needs a runtime.

mod crossing;
mod fault;
mod gate;
mod point;
mod recording;
mod seeded;
mod trace;
mod turns;

/// What a loop does about an error: the model's word, for `core/store`, which imports nothing else of ours.
pub use berth_model::Disposition;
pub use crossing::{Crossing, Effect, EffectEnd, Moment, Seam};
pub use fault::{Fault, FaultError, FaultRow};
pub use gate::{Gate, OpenGate, Release, Released};
pub use point::{Point, PointError, PointGate, Repetition};
pub use recording::{Clock, RecordingGate};
pub use seeded::Seeded;
pub use trace::{Trace, TraceEvent, TraceLine};
pub use turns::{Course, JourneyGate, Standing, TurnGate};

#[cfg(test)]
mod executor;
