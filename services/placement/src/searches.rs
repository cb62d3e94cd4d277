//! Where a search for candidates reads: the snapshot in memory, or the tables, and of these no more trees than could serve the
//! request.
//!
//! The snapshot is true where this process alone writes; beside other writers nothing tells that it still is, for releases,
//! renames, new parents and aggregates before 1.19 raise no generation. Both go through the same pure search and find the same.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use berth_http::request_id::random_uuid;
use berth_http::{Fault, Microversion};
use berth_store::{SqlError, SqlStore, Transaction};
use bytes::Bytes;

use crate::candidates::options::Wanted;
use crate::candidates::snapshot::RootId;
use crate::candidates::{
    CandidatesQuery, Dice, Document, Found, NameError, Names, Order, Snapshot, search, search_in,
};
use crate::gathering::{Gathering, Turn};
use crate::snapshots::Snapshots;
use crate::store::meanings::FromTables;
use crate::store::roots::{self, Roots};
use crate::store::{fault, trees};

/// Where allocation candidates are searched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CandidatesFrom {
    /// In memory where this process alone writes to the database (SQLite), else in the tables.
    #[default]
    Auto,
    /// In memory: what SQLite is searched by. A database on a server is never searched in this way, whatever this says.
    Snapshot,
    /// In the tables, on SQLite too.
    Sql,
}

/// What is asked, and what the answer depends on beside the tables.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Question {
    pub(crate) query: CandidatesQuery,
    pub(crate) version: Microversion,
    /// At most so many candidates.
    pub(crate) limit: usize,
}

/// Readings of the tables at a time: half of the connections that a store has by default, so that claims find one.
const READINGS: usize = 4;

/// Trees that are read at least where fewer were not enough.
const MORE: usize = 64;

pub(crate) struct Searches {
    store: SqlStore,
    from: From,
    randomize: bool,
}

enum From {
    Snapshot(Snapshots),
    Tables(Gathering<Question, Result<Bytes, Fault>>),
}

impl Searches {
    pub(crate) fn new(
        snapshots: &Snapshots,
        store: SqlStore,
        from: CandidatesFrom,
        randomize: bool,
    ) -> Self {
        let in_memory = from != CandidatesFrom::Sql && !store.is_shared();
        Self {
            from: match in_memory {
                true => From::Snapshot(snapshots.clone()),
                false => From::Tables(Gathering::new(READINGS)),
            },
            store,
            randomize,
        }
    }

    /// The answer, as JSON.
    ///
    /// # Errors
    /// A 400 for a name that does not exist, a 5xx when the database fails.
    pub(crate) async fn answer(&self, question: Question) -> Result<Bytes, Fault> {
        let order = match self.randomize {
            true => Order::Random(random_uuid().as_u64_pair().0),
            false => Order::Fixed,
        };
        match (&self.from, order) {
            (From::Snapshot(snapshots), _) => {
                let snapshot = snapshots.current().await.map_err(|error| fault(&error))?;
                aside(move || in_snapshot(&snapshot, &question, order)).await
            }
            (From::Tables(gathering), Order::Fixed) => {
                let read = async |turn: Turn<'_>| {
                    self.in_tables(gathering, turn, question.clone(), order)
                        .await
                };
                gathering.ask(&question, read).await
            }
            // An order of one's own is no other's.
            (From::Tables(gathering), Order::Random(_)) => {
                let turn = gathering.turn().await;
                self.in_tables(gathering, turn, question, order).await
            }
        }
    }

    /// Neither a turn nor a transaction is held while the search goes through what was read. Where that turns out to be too
    /// little, more is read anew: all that one search sees is of one moment.
    async fn in_tables<'g>(
        &self,
        gathering: &'g Gathering<Question, Result<Bytes, Fault>>,
        mut turn: Turn<'g>,
        question: Question,
        order: Order,
    ) -> Result<Bytes, Fault> {
        let question = Arc::new(question);
        // Fewer trees than the limit cannot be enough.
        let mut least = question.limit;
        loop {
            let read = self.read(&question, order, least).await?;
            drop(turn);
            let (reading, wanted) = match read {
                Read::Trees(read) => *read,
                Read::Nothing(names) => return nothing(&names, &question),
            };
            let asked = Arc::clone(&question);
            if let Some(answer) = aside(move || reading.answer(&wanted, &asked)).await? {
                return Ok(answer);
            }
            least = least.saturating_mul(4).max(MORE);
            turn = gathering.turn().await;
        }
    }

    /// So many trees that could serve the request, or all, in one transaction.
    async fn read(&self, question: &Question, order: Order, least: usize) -> Result<Read, Fault> {
        let failed = |error: SqlError| fault(&error);
        let mut tx = self.store.read().await.map_err(failed)?;
        let meanings = FromTables::read(&mut tx, &question.query);
        let meanings = meanings.await.map_err(failed)?;
        let wanted = question.query.resolve(&meanings).map_err(unknown)?;
        let Some(wanted) = wanted else {
            return Ok(Read::Nothing(meanings.into_names()));
        };
        let mut reading = Reading::new(&tx, &wanted, meanings, order, least);
        loop {
            reading.go_on(&mut tx).await.map_err(failed)?;
            if reading.order.len() >= least || reading.roots.are_all_told() {
                return Ok(Read::Trees(Box::new((reading, wanted))));
            }
        }
    }
}

enum Read {
    Trees(Box<(Reading, Wanted)>),
    /// No tree can serve a request for what no provider has.
    Nothing(Names),
}

fn in_snapshot(snapshot: &Snapshot, question: &Question, order: Order) -> Result<Bytes, Fault> {
    let names = snapshot.names();
    let Some(wanted) = question.query.resolve(snapshot).map_err(unknown)? else {
        return nothing(names, question);
    };
    let found = search(snapshot, &wanted, question.limit, order);
    written(&Document::new(names, &wanted, &found, question.version))
}

fn nothing(names: &Names, question: &Question) -> Result<Bytes, Fault> {
    let (wanted, found) = (Wanted::default(), Found::default());
    written(&Document::new(names, &wanted, &found, question.version))
}

fn written(document: &Document<'_>) -> Result<Bytes, Fault> {
    let text = document.write().map_err(|error| {
        tracing::error!(%error, "candidates cannot be serialised");
        Fault::internal("the answer could not be written")
    })?;
    Ok(text.into())
}

/// What was read for one request so far.
struct Reading {
    /// The trees that could serve it, and those with providers that serve these.
    snapshot: Snapshot,
    /// The roots of the former, in the order of the search.
    order: Vec<RootId>,
    roots: Roots,
    sharing: Option<i64>,
    dice: Dice,
}

impl Reading {
    fn new(
        tx: &Transaction,
        wanted: &Wanted,
        meanings: FromTables,
        order: Order,
        limit: usize,
    ) -> Self {
        let sharing = meanings.sharing;
        Self {
            sharing,
            roots: Roots::new(tx.dialect(), wanted, sharing, order, limit),
            snapshot: Snapshot::new(meanings.into_names(), []),
            order: Vec::new(),
            dice: Dice::new(order),
        }
    }

    async fn go_on(&mut self, tx: &mut Transaction) -> Result<(), SqlError> {
        let next = self.roots.next(tx, &mut self.dice).await?;
        self.read(tx, &next).await?;
        if let Some(sharing) = self.sharing {
            let serving = roots::serving(tx, sharing, &next).await?;
            self.read(tx, &serving).await?;
        }
        self.order.extend(next);
        Ok(())
    }

    /// None where more trees would change the answer.
    fn answer(&self, wanted: &Wanted, question: &Question) -> Result<Option<Bytes>, Fault> {
        let trees = self.order.iter();
        let trees = trees.filter_map(|root| self.snapshot.tree(*root));
        let dice = self.dice.clone();
        let found = search_in(&self.snapshot, wanted, question.limit, trees, dice);
        if !(found.is_one_of_each() || self.roots.are_all_told()) {
            return Ok(None);
        }
        let names = self.snapshot.names();
        written(&Document::new(names, wanted, &found, question.version)).map(Some)
    }

    async fn read(&mut self, tx: &mut Transaction, roots: &[RootId]) -> Result<(), SqlError> {
        let unread = roots.iter().copied();
        let unread: Vec<RootId> = unread
            .filter(|root| self.snapshot.tree(*root).is_none())
            .collect();
        for tree in trees::of_roots(tx, &unread).await? {
            self.snapshot.insert(tree);
        }
        Ok(())
    }
}

/// A search may take a while, and so may its answer: other requests do not wait for it.
async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| Fault::internal("The search did not end."))?
}

fn unknown(error: NameError) -> Fault {
    Fault::bad_request(error.to_string())
}
