//! Which trees could serve a request, asked of the database: what each part of it needs of one provider, in its own tree or
//! shared with it, and what several parts need of one class together.
//!
//! Never a tree too few: what is said here follows from what `candidates::options` and `candidates::assignment` ask. It may
//! be one too many, which the search then finds nothing in. Pure but for [`Roots::next`].

mod conditions;

use berth_store::{Dialect, SqlError, Statement, Transaction, Value};

use crate::candidates::options::Wanted;
use crate::candidates::snapshot::{RootId, TraitId};
use crate::candidates::{Dice, Order};
use conditions::conditions;

/// The roots of trees that could serve a request, some at a time, in the order in which they are searched.
pub(crate) struct Roots {
    sql: String,
    values: Vec<Value>,
    rest: Rest,
    /// How many come next.
    page: usize,
}

enum Rest {
    /// Those behind this one, by row id.
    Behind(RootId),
    /// These, the next last; not read yet where there are none.
    Shuffled(Option<Vec<RootId>>),
    Nothing,
}

/// Not more at a time, however many are wanted.
const MOST: usize = 16_000;

impl Roots {
    /// `sharing` is the trait of providers that serve other trees, where any provider has it.
    pub(crate) fn new(
        dialect: Dialect,
        wanted: &Wanted,
        sharing: Option<TraitId>,
        order: Order,
        limit: usize,
    ) -> Self {
        // OpenStack's migration of older tables leaves providers that have a parent and are roots of their own. By the roots
        // alone PostgreSQL would expect a few rows of thousands, and sort what it need not read: it counts NULLs, and knows
        // nothing of two columns that are equal.
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
                Order::Fixed => Rest::Behind(RootId::MIN),
                Order::Random(_) => Rest::Shuffled(None),
            },
            // A few more, for those that turn out to serve nothing.
            page: limit.saturating_add(limit / 16 + 1).min(MOST),
        }
    }

    /// The next roots; fewer than none are left when there are none.
    pub(crate) async fn next(
        &mut self,
        tx: &mut Transaction,
        dice: &mut Dice,
    ) -> Result<Vec<RootId>, SqlError> {
        let page = self.page;
        self.page = page.saturating_mul(2).min(MOST);
        match &mut self.rest {
            Rest::Nothing => Ok(Vec::new()),
            Rest::Behind(last) => {
                let statement =
                    Statement::new(format!("{} AND r.id > ? ORDER BY r.id LIMIT ?", self.sql))
                        .bind_all(self.values.iter().cloned())
                        .bind(*last)
                        .bind(i64::try_from(page).unwrap_or(i64::MAX));
                let found = ids(tx, statement).await?;
                self.rest = match found.last() {
                    Some(last) if found.len() == page => Rest::Behind(*last),
                    _ => Rest::Nothing,
                };
                Ok(found)
            }
            Rest::Shuffled(left) => {
                let mut found = match left.take() {
                    Some(left) => left,
                    None => {
                        let statement = Statement::new(format!("{} ORDER BY r.id", self.sql))
                            .bind_all(self.values.iter().cloned());
                        let mut found = ids(tx, statement).await?;
                        dice.shuffle(&mut found);
                        found.reverse();
                        found
                    }
                };
                let rest = found.len().saturating_sub(page);
                let mut next = found.split_off(rest);
                next.reverse();
                self.rest = match found.is_empty() {
                    true => Rest::Nothing,
                    false => Rest::Shuffled(Some(found)),
                };
                Ok(next)
            }
        }
    }

    /// Whether there are none any more.
    pub(crate) fn are_all_told(&self) -> bool {
        matches!(self.rest, Rest::Nothing)
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
