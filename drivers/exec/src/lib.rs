//! The exec virt driver (`compute_driver = "exec:PATH"`): an out-of-tree driver as a child process, in any language.
//!
//! The child is told what to do by JSON-RPC 2.0, a message a line, on its standard input, and answers on its standard output;
//! what it writes to its standard error goes to our log. [`protocol`] is the language, `docs/guide/reference/exec-driver.md`
//! is its page for authors, `docs/examples/exec-driver` a driver that speaks it.
//!
//! A driver tells facts. The provider tree and the homes of allocations are made of them here as for every other driver, by
//! the contract's own pure functions, so nobody's Placement depends on a script's arithmetic.
//!
//! Nothing the child does can hang or harm the agent: each call has a deadline, each line and each list a bound, and a child
//! that breaks the rules is killed with its process group and started again, later each time. The rooms: `connection` is one
//! child's conversation, `child` its process, `supervisor` starts it again, `driver` is the contract.
//!
//! Called by the composition root alone.

mod backoff;
mod budget;
mod call_error;
mod child;
mod connection;
mod driver;
mod ended;
mod last_words;
mod lines;
mod options;
pub mod protocol;
mod supervisor;

pub use backoff::Backoff;
pub use driver::ExecDriver;
pub use options::{Deadlines, ExecOptions};
