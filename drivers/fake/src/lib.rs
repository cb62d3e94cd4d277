//! The fake virt driver: a machine described by one TOML file.
//!
//! Tests, demos and soak runs use it in the place of a hypervisor; `berth up --machine FILE` starts on it. The file is read
//! again on each look, so editing it is changing the machine: a guest that stops, a GPU that is gone, or the one word in
//! `[model]` that makes an upgrade. [`Machine`] is the same as a value, for tests that build theirs.

mod driver;
mod initial;
mod machine;
mod observe;
mod problem;
mod read;
mod shipped;
mod watch;
mod write;

pub use driver::FakeDriver;
pub use initial::{PROJECT_ID, USER_ID, initial_allocations, initial_tree};
pub use machine::{Gpu, GpuHost, Guest, Machine, Migration, MigrationSight, Node};
pub use problem::{MachineError, Problem};
pub use shipped::machines;
