//! The snapshot that candidates are searched in, kept true by the writes.
//!
//! On SQLite this process is the database's only writer (`berth_store` sees to that), and every write of this service goes through
//! [`Snapshots::write`], which notes what it touched once it is committed and before its caller is answered. A search first
//! reads what was touched since, in one transaction; so it sees every write that was answered before it was asked. What was
//! never answered (a caller who went away in the middle) counts as having touched everything.
//!
//! A database on a server has other writers, of whom nothing is heard: there searches read the tables (`searches`), and nothing is
//! noted.

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_store::{SqlError, SqlStore};

use crate::candidates::Snapshot;
use crate::store::touched::{Touched, Touches};
use crate::store::trees;

/// More touched providers than this are read no faster than all.
const MANY: usize = 1_000;

/// The current snapshot of one store.
#[derive(Clone)]
pub(crate) struct Snapshots {
    store: SqlStore,
    memory: Arc<Memory>,
}

/// One for all routers over a store ([`SqlStore::companion`]): each sees what the others wrote.
struct Memory {
    touched: Mutex<Touched>,
    current: tokio::sync::Mutex<Arc<Snapshot>>,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            touched: Mutex::new(Touched::everything()),
            current: tokio::sync::Mutex::default(),
        }
    }
}

impl Snapshots {
    pub(crate) fn new(store: SqlStore) -> Self {
        Self {
            memory: store.companion(),
            store,
        }
    }

    /// Runs a write and notes what it touched.
    pub(crate) async fn write<W: Touches>(&self, work: &W) -> Result<W::Output, W::Error> {
        if self.store.is_shared() {
            return self.store.write(work).await;
        }
        let mut note = Note {
            memory: &self.memory,
            touched: Touched::everything(),
        };
        let outcome = self.store.write(work).await;
        note.touched = match &outcome {
            Ok(output) => work.touched(output),
            // Refused: nothing was written. Where the database failed, nobody knows.
            Err(error) if is_of_the_database(error) => Touched::everything(),
            Err(_) => Touched::default(),
        };
        outcome
    }

    /// The snapshot, with all that was written before this call. Only where nobody else writes.
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
        note.touched = Touched::default();
        Ok(Arc::clone(&current))
    }
}

impl Memory {
    fn noted(&self) -> MutexGuard<'_, Touched> {
        // Whoever panicked while holding it left a set that is whole.
        self.touched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is noted as touched when this goes, however it goes.
struct Note<'a> {
    memory: &'a Memory,
    touched: Touched,
}

impl Drop for Note<'_> {
    fn drop(&mut self) {
        let touched = std::mem::take(&mut self.touched);
        if !touched.is_nothing() {
            let mut noted = self.memory.noted();
            noted.add(touched);
            if noted.ids.len() + noted.uuids.len() > MANY {
                *noted = Touched::everything();
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
