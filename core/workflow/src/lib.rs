//! The durable step journal: one SQLite file that records the goal of each guest, and the state of each step towards it, before
//! anything acts on them.
//!
//! ```text
//! accept ──> goal, steps (Begun ─> Done ─> Undoing ─> Undone) ──> delete
//! ```
//!
//! The tables `guest` and `step` have the same form in every journal. A [`JournalRecord`] says what a guest's row contains and
//! what identifies a step; [`Journal`] opens the file, reads the records and writes them. [`JournalFile`] is the file itself, for
//! other tables in the same transactions. [`JournalHealth`] says whether the last uses of a journal failed.
//!
//! Callers: the agent's journal of guests and devices (`guests.db`), the conductor's journal of boots (`conductor.db`).

mod error;
mod file;
mod health;
mod journal;
mod record;
mod schema;

pub use error::{JournalError, UnreadableRecord};
pub use file::JournalFile;
pub use health::JournalHealth;
pub use journal::{AcceptOutcome, Journal, JournalRecords};
pub use record::{JournalRecord, RecordRow, StepDetail, StepRecord, StepState};
pub use schema::JournalSchema;

/// Future returned by the methods of a journal's trait.
pub type JournalFuture<'a, T> =
    std::pin::Pin<Box<dyn Future<Output = Result<T, JournalError>> + Send + 'a>>;
