//! The in-memory snapshot that candidates are searched in, kept current by the writes.
//!
//! On SQLite this process is the only writer (`berth_store` ensures that). Every write goes through
//! [`Snapshots::write`], which records what it touched after the commit and before the response. A search first reads
//! what was touched since the last one, in one transaction. So it sees every write that was answered before it started.

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_store::{SqlError, SqlStore};

use crate::candidates::Snapshot;
use crate::store::invalidation::{TouchedTrees, Touches};
use crate::store::trees;

/// More touched providers than this are read no faster than all.
const MANY: usize = 1_000;

/// The current snapshot of one store.
#[derive(Clone)]
pub(crate) struct Snapshots {
    store: SqlStore,
    memory: Arc<SnapshotMemory>,
}

/// Shared by all routers over one store ([`SqlStore::extension`]), so that each sees the others' writes.
struct SnapshotMemory {
    touched: Mutex<TouchedTrees>,
    current: tokio::sync::Mutex<Arc<Snapshot>>,
}

impl Default for SnapshotMemory {
    fn default() -> Self {
        Self {
            touched: Mutex::new(TouchedTrees::everything()),
            current: tokio::sync::Mutex::default(),
        }
    }
}

impl Snapshots {
    pub(crate) fn new(store: SqlStore) -> Self {
        Self {
            memory: store.extension(),
            store,
        }
    }

    /// Runs a write and records what it touched.
    pub(crate) async fn write<W: Touches>(&self, work: &W) -> Result<W::Output, W::Error> {
        if self.store.is_shared() {
            return self.store.write(work).await;
        }
        let mut note = Note {
            memory: &self.memory,
            touched: TouchedTrees::everything(),
        };
        let outcome = self.store.write(work).await;
        note.touched = match &outcome {
            Ok(output) => work.touched(output),
            // A refusal wrote nothing. After a database failure the outcome is unknown.
            Err(error) if is_of_the_database(error) => TouchedTrees::everything(),
            Err(_) => TouchedTrees::default(),
        };
        outcome
    }

    /// The snapshot, including everything written before this call. Only valid for a single writer.
    pub(crate) async fn current(&self) -> Result<Arc<Snapshot>, SqlError> {
        let mut current = self.memory.current.lock().await;
        let mut note = Note {
            memory: &self.memory,
            touched: std::mem::take(&mut *self.memory.noted()),
        };
        if note.touched.is_nothing() {
            return Ok(Arc::clone(&current));
        }
        let mut tx = self.store.read().await?;
        if note.touched.all {
            *current = Arc::new(trees::all(&mut tx).await?);
        } else {
            let changes = trees::changes(&mut tx, &current, &note.touched).await?;
            changes.apply(Arc::make_mut(&mut current));
        }
        note.touched = TouchedTrees::default();
        Ok(Arc::clone(&current))
    }
}

impl SnapshotMemory {
    fn noted(&self) -> MutexGuard<'_, TouchedTrees> {
        // The set is consistent even after a panic.
        self.touched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Records what was touched when dropped, however the write ended.
struct Note<'a> {
    memory: &'a SnapshotMemory,
    touched: TouchedTrees,
}

impl Drop for Note<'_> {
    fn drop(&mut self) {
        let touched = std::mem::take(&mut self.touched);
        if !touched.is_nothing() {
            let mut noted = self.memory.noted();
            noted.add(touched);
            if noted.ids.len() + noted.uuids.len() > MANY {
                *noted = TouchedTrees::everything();
            }
        }
    }
}

fn is_of_the_database(error: &(dyn std::error::Error + 'static)) -> bool {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes
        .into_iter()
        .any(|error| error.downcast_ref::<SqlError>().is_some())
}
