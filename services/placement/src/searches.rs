//! Chooses where a search for allocation candidates reads: in the in-memory snapshot, or in the tables, restricted to
//! trees that could serve the request.
//!
//! The snapshot is current only if this process is the only writer. With other writers nothing reveals changes:
//! releases, renames, new parents and aggregates before 1.19 raise no generation. Both ways use the same pure search
//! and have the same result.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use berth_http::request_id::random_uuid;
use berth_http::{Fault, Microversion};
use berth_options::choices;
use berth_store::{SqlError, SqlStore, Transaction};
use bytes::Bytes;

use crate::candidates::options::SearchRequest;
use crate::candidates::snapshot::RootId;
use crate::candidates::{
    CandidateOrder, CandidateShuffle, CandidatesDocument, NameError, ParsedCandidatesQuery,
    SearchResult, Snapshot, SnapshotNames, search, search_in,
};
use crate::single_flight::{ReadPermit, SingleFlight};
use crate::snapshots::Snapshots;
use crate::store::candidate_roots::{self, Roots};
use crate::store::name_resolution::ResolvedNames;
use crate::store::{fault, trees};

choices! {
    /// Where allocation candidates are searched.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum CandidatesFrom {
        /// In memory if this process is the only writer (SQLite); else in the tables.
        #[default]
        Auto = "auto",
        /// In memory. Ignored for database servers, which are always searched in the tables.
        Snapshot = "snapshot",
        /// In the tables, on SQLite too.
        Sql = "sql",
    }
}

/// A query, with everything besides the tables that the response depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SearchQuery {
    pub(crate) query: ParsedCandidatesQuery,
    pub(crate) version: Microversion,
    /// The maximum number of candidates.
    pub(crate) limit: usize,
}

/// Readings of the tables at a time: half of the connections that a store has by default, so that claims find one.
const READINGS: usize = 4;

/// The minimum number of additional trees to read if the first ones do not suffice.
const MORE: usize = 64;

pub(crate) struct Searches {
    store: SqlStore,
    from: From,
    randomize: bool,
}

enum From {
    Snapshot(Snapshots),
    Tables(SingleFlight<SearchQuery, Result<Bytes, Fault>>),
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
                false => From::Tables(SingleFlight::new(READINGS)),
            },
            store,
            randomize,
        }
    }

    /// The response as JSON.
    ///
    /// Errors: 400 for an unknown name; 5xx if the database fails.
    pub(crate) async fn answer(&self, question: SearchQuery) -> Result<Bytes, Fault> {
        let order = match self.randomize {
            true => CandidateOrder::Random(random_uuid().as_u64_pair().0),
            false => CandidateOrder::Fixed,
        };
        match (&self.from, order) {
            (From::Snapshot(snapshots), _) => {
                let snapshot = snapshots.current().await.map_err(|error| fault(&error))?;
                aside(move || in_snapshot(&snapshot, &question, order)).await
            }
            (From::Tables(gathering), CandidateOrder::Fixed) => {
                let read = async |turn: ReadPermit<'_>| {
                    self.in_tables(gathering, turn, question.clone(), order)
                        .await
                };
                gathering.ask(&question, read).await
            }
            // A random order is not shared with other callers.
            (From::Tables(gathering), CandidateOrder::Random(_)) => {
                let turn = gathering.turn().await;
                self.in_tables(gathering, turn, question, order).await
            }
        }
    }

    /// Searches in the tables. Neither a read permit nor a transaction is held during the search. If the trees do not
    /// suffice, more are read in a new transaction, so that one search sees one point in time.
    async fn in_tables<'g>(
        &self,
        gathering: &'g SingleFlight<SearchQuery, Result<Bytes, Fault>>,
        mut turn: ReadPermit<'g>,
        question: SearchQuery,
        order: CandidateOrder,
    ) -> Result<Bytes, Fault> {
        let question = Arc::new(question);
        // Fewer trees than the limit cannot be enough.
        let mut least = question.limit;
        loop {
            let read = self.read(&question, order, least).await?;
            drop(turn);
            let (reading, wanted) = match read {
                SearchRead::Trees(read) => *read,
                SearchRead::Nothing(names) => return nothing(&names, &question),
            };
            let asked = Arc::clone(&question);
            if let Some(answer) = aside(move || reading.answer(&wanted, &asked)).await? {
                return Ok(answer);
            }
            least = least.saturating_mul(4).max(MORE);
            turn = gathering.turn().await;
        }
    }

    /// Reads this number of trees that could serve the request, or all, in one transaction.
    async fn read(
        &self,
        question: &SearchQuery,
        order: CandidateOrder,
        least: usize,
    ) -> Result<SearchRead, Fault> {
        let failed = |error: SqlError| fault(&error);
        let mut tx = self.store.read().await.map_err(failed)?;
        let meanings = ResolvedNames::read(&mut tx, &question.query);
        let meanings = meanings.await.map_err(failed)?;
        let wanted = question.query.resolve(&meanings).map_err(unknown)?;
        let Some(wanted) = wanted else {
            return Ok(SearchRead::Nothing(meanings.into_names()));
        };
        let mut reading = SearchReading::new(&tx, &wanted, meanings, order, least);
        loop {
            reading.go_on(&mut tx).await.map_err(failed)?;
            if reading.order.len() >= least || reading.roots.are_all_returned() {
                return Ok(SearchRead::Trees(Box::new((reading, wanted))));
            }
        }
    }
}

enum SearchRead {
    Trees(Box<(SearchReading, SearchRequest)>),
    /// No tree can serve a request for something that no provider has.
    Nothing(SnapshotNames),
}

fn in_snapshot(
    snapshot: &Snapshot,
    question: &SearchQuery,
    order: CandidateOrder,
) -> Result<Bytes, Fault> {
    let names = snapshot.names();
    let Some(wanted) = question.query.resolve(snapshot).map_err(unknown)? else {
        return nothing(names, question);
    };
    let found = search(snapshot, &wanted, question.limit, order);
    written(&CandidatesDocument::new(
        names,
        &wanted,
        &found,
        question.version,
    ))
}

fn nothing(names: &SnapshotNames, question: &SearchQuery) -> Result<Bytes, Fault> {
    let (wanted, found) = (SearchRequest::default(), SearchResult::default());
    written(&CandidatesDocument::new(
        names,
        &wanted,
        &found,
        question.version,
    ))
}

fn written(document: &CandidatesDocument<'_>) -> Result<Bytes, Fault> {
    let text = document.write().map_err(|error| {
        tracing::error!(%error, "candidates cannot be serialised");
        Fault::internal("the answer could not be written")
    })?;
    Ok(text.into())
}

/// What was read for one request so far.
struct SearchReading {
    /// The trees that could serve it, and those with their sharing providers.
    snapshot: Snapshot,
    /// The roots of the former, in the order of the search.
    order: Vec<RootId>,
    roots: Roots,
    sharing: Option<i64>,
    shuffle_order: CandidateShuffle,
}

impl SearchReading {
    fn new(
        tx: &Transaction,
        wanted: &SearchRequest,
        meanings: ResolvedNames,
        order: CandidateOrder,
        limit: usize,
    ) -> Self {
        let sharing = meanings.sharing;
        Self {
            sharing,
            roots: Roots::new(tx.dialect(), wanted, sharing, order, limit),
            snapshot: Snapshot::new(meanings.into_names(), []),
            order: Vec::new(),
            shuffle_order: CandidateShuffle::new(order),
        }
    }

    async fn go_on(&mut self, tx: &mut Transaction) -> Result<(), SqlError> {
        let next = self.roots.next(tx, &mut self.shuffle_order).await?;
        self.read(tx, &next).await?;
        if let Some(sharing) = self.sharing {
            let serving = candidate_roots::serving(tx, sharing, &next).await?;
            self.read(tx, &serving).await?;
        }
        self.order.extend(next);
        Ok(())
    }

    /// `None` if more trees would change the result.
    fn answer(
        &self,
        wanted: &SearchRequest,
        question: &SearchQuery,
    ) -> Result<Option<Bytes>, Fault> {
        let trees = self.order.iter();
        let trees = trees.filter_map(|root| self.snapshot.tree(*root));
        let shuffle_order = self.shuffle_order.clone();
        let found = search_in(&self.snapshot, wanted, question.limit, trees, shuffle_order);
        if !(found.is_one_of_each() || self.roots.are_all_returned()) {
            return Ok(None);
        }
        let names = self.snapshot.names();
        written(&CandidatesDocument::new(
            names,
            wanted,
            &found,
            question.version,
        ))
        .map(Some)
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

/// Runs the search on a blocking thread, because it may take long.
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
