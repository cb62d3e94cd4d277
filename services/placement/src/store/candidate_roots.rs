//! Selects the trees that could serve a request in SQL: what each part needs of one provider in the tree or shared with
//! it, and what several parts need of one class together.
//!
//! The selection never misses a tree: its conditions follow from `candidates::options` and `candidates::assignment`. It
//! may contain trees in which the search finds nothing. Pure except [`Roots::next`].

mod conditions;

use berth_store::{Dialect, SqlError, Statement, Transaction, Value};

use crate::candidates::options::SearchRequest;
use crate::candidates::snapshot::{RootId, TraitId};
use crate::candidates::{CandidateOrder, CandidateShuffle};
use conditions::conditions;

/// The roots of trees that could serve a request, read page by page in search order.
pub(crate) struct Roots {
    sql: String,
    values: Vec<Value>,
    rest: RemainingRoots,
    /// The size of the next page.
    page: usize,
}

enum RemainingRoots {
    /// Those after this one, by row id.
    Behind(RootId),
    /// Random order: the remaining roots, next one last; `None` before the first read.
    Shuffled(Option<Vec<RootId>>),
    Nothing,
}

/// Not more at a time, however many are wanted.
const MOST: usize = 16_000;

impl Roots {
    /// `sharing` is the trait of sharing providers, if any provider has it.
    pub(crate) fn new(
        dialect: Dialect,
        wanted: &SearchRequest,
        sharing: Option<TraitId>,
        order: CandidateOrder,
        limit: usize,
    ) -> Self {
        // OpenStack's migration of older tables leaves child providers that are their own root. Without the second
        // condition PostgreSQL misjudges the number of rows and sorts unnecessarily, because its statistics count NULLs
        // but not equal columns.
        let mut sql = "SELECT r.id FROM resource_providers r \
             WHERE (r.parent_provider_id IS NULL OR r.root_provider_id = r.id)"
            .to_owned();
        let mut values = Vec::new();
        for condition in conditions(dialect, wanted, sharing) {
            sql.push_str(" AND ");
            sql.push_str(&condition.sql);
            values.extend(condition.values);
        }
        Self {
            sql,
            values,
            rest: match order {
                CandidateOrder::Fixed => RemainingRoots::Behind(RootId::MIN),
                CandidateOrder::Random(_) => RemainingRoots::Shuffled(None),
            },
            // A few more, to make up for trees without candidates.
            page: limit.saturating_add(limit / 16 + 1).min(MOST),
        }
    }

    /// The next roots; an empty page is the last.
    pub(crate) async fn next(
        &mut self,
        tx: &mut Transaction,
        shuffle_order: &mut CandidateShuffle,
    ) -> Result<Vec<RootId>, SqlError> {
        let page = self.page;
        self.page = page.saturating_mul(2).min(MOST);
        match &mut self.rest {
            RemainingRoots::Nothing => Ok(Vec::new()),
            RemainingRoots::Behind(last) => {
                let statement =
                    Statement::new(format!("{} AND r.id > ? ORDER BY r.id LIMIT ?", self.sql))
                        .bind_all(self.values.iter().cloned())
                        .bind(*last)
                        .bind(i64::try_from(page).unwrap_or(i64::MAX));
                let found = ids(tx, statement).await?;
                self.rest = match found.last() {
                    Some(last) if found.len() == page => RemainingRoots::Behind(*last),
                    _ => RemainingRoots::Nothing,
                };
                Ok(found)
            }
            RemainingRoots::Shuffled(left) => {
                let mut found = match left.take() {
                    Some(left) => left,
                    None => {
                        let statement = Statement::new(format!("{} ORDER BY r.id", self.sql))
                            .bind_all(self.values.iter().cloned());
                        let mut found = ids(tx, statement).await?;
                        shuffle_order.shuffle(&mut found);
                        found.reverse();
                        found
                    }
                };
                let rest = found.len().saturating_sub(page);
                let mut next = found.split_off(rest);
                next.reverse();
                self.rest = match found.is_empty() {
                    true => RemainingRoots::Nothing,
                    false => RemainingRoots::Shuffled(Some(found)),
                };
                Ok(next)
            }
        }
    }

    /// Whether all roots have been returned.
    pub(crate) fn are_all_returned(&self) -> bool {
        matches!(self.rest, RemainingRoots::Nothing)
    }
}

async fn ids(tx: &mut Transaction, statement: Statement) -> Result<Vec<RootId>, SqlError> {
    let rows = tx.rows(statement).await?;
    rows.iter().map(|row| row.int(0)).collect()
}

/// The roots of trees with a provider that serves one of the trees with these roots.
pub(crate) async fn serving(
    tx: &mut Transaction,
    sharing: TraitId,
    roots: &[RootId],
) -> Result<Vec<RootId>, SqlError> {
    let select = Statement::new(
        "SELECT DISTINCT p.root_provider_id FROM resource_provider_traits st \
         JOIN resource_providers p ON p.id = st.resource_provider_id \
         JOIN resource_provider_aggregates sa ON sa.resource_provider_id = p.id \
         WHERE st.trait_id = ? AND p.root_provider_id IS NOT NULL AND sa.aggregate_id IN \
         (SELECT qa.aggregate_id FROM resource_providers q \
         JOIN resource_provider_aggregates qa ON qa.resource_provider_id = q.id \
         WHERE q.root_provider_id IN",
    )
    .bind(sharing);
    let rows = tx.rows_in(&select, roots, ")").await?;
    rows.iter().map(|row| row.int(0)).collect()
}
