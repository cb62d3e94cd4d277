//! The exec virt driver (`compute_driver = "exec:PATH"`): runs an out-of-tree driver, written in any language, as a
//! child process.
//!
//! Berth sends JSON-RPC 2.0 calls to the child's standard input, one message per line, and reads the answers from its
//! standard output. The child's standard error goes to the log. [`protocol`] defines the messages,
//! `docs/guide/reference/exec-driver.md` documents them for driver authors, and `docs/examples/exec-driver` is a sample
//! driver.
//!
//! A driver only reports facts. The provider tree and the places of allocations are computed from them by the same pure
//! functions as for every other driver, so Placement never depends on a script's arithmetic.
//!
//! The child cannot block or harm the agent: each call has a deadline, and each line and list is bounded. A child that
//! violates the protocol is killed with its process group and restarted with backoff.
//!
//! ```text
//! driver (the contract) -> supervisor (restarts) -> connection (calls) -> child (the process)
//! ```
//!
//! Only the composition root uses this crate.

mod backoff;
mod budget;
mod call_error;
mod child;
mod child_end;
mod connection;
mod driver;
mod last_words;
mod lines;
mod options;
pub mod protocol;
mod supervisor;

pub use backoff::Backoff;
pub use driver::ExecDriver;
pub use options::{Deadlines, ExecOptions};
