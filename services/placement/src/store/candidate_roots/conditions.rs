//! The conditions on a tree that could serve a request, as SQL on its root `r`.
//!
//! A statement has limits: MariaDB allows 61 tables in a join, SQLite 64, and the number of values is a 16-bit integer.
//! Excess conditions are left out; the search decides them on the trees that are read.

use std::collections::BTreeMap;

use berth_store::sql::placeholders;
use berth_store::{Dialect, Value};

use crate::candidates::options::{SearchGroup, SearchRequest};
use crate::candidates::snapshot::{AggregateKey, TraitId};
use crate::ledger::ClassId;

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct SqlCondition {
    pub(super) sql: String,
    pub(super) values: Vec<Value>,
}

/// Conditions on a tree.
const MOST: usize = 20;

/// The maximum number of conditions that become joins. MariaDB tries all orders of a join, which takes
/// forever with forty tables.
const MOST_OF_ROOT: usize = 4;
const MOST_SCATTERED: usize = 6;

/// The maximum number of conditions and classes of one provider, each of which is a table in the join.
const MOST_OF_PROVIDER: usize = 12;
const MOST_CLASSES: usize = 6;

/// The maximum number of aggregate conditions of one provider. PostgreSQL needs ten seconds to plan a statement with twelve.
const MOST_AGGREGATES: usize = 4;

/// Values of all conditions together.
const MOST_VALUES: usize = 8_000;

/// Conditions on a tree, each once: as many of them as a statement can bear, the first first.
pub(super) fn conditions(
    dialect: Dialect,
    wanted: &SearchRequest,
    sharing: Option<TraitId>,
) -> Vec<SqlCondition> {
    few(all(dialect, wanted, sharing), MOST, MOST_VALUES)
}

/// The first conditions, up to these numbers of conditions and values.
fn few(mut all: Vec<SqlCondition>, most: usize, mut values: usize) -> Vec<SqlCondition> {
    all.retain(|condition| {
        let left = values.checked_sub(condition.values.len());
        values = left.unwrap_or(values);
        left.is_some()
    });
    all.truncate(most);
    all
}

fn all(dialect: Dialect, wanted: &SearchRequest, sharing: Option<TraitId>) -> Vec<SqlCondition> {
    let scribe = Scribe { dialect, sharing };
    let mut all: Vec<SqlCondition> = Vec::new();
    let mut add = |condition: SqlCondition| {
        if !all.contains(&condition) {
            all.push(condition);
        }
    };
    for group in &wanted.groups {
        if let Some(root) = group.in_tree.filter(|_| !scribe.may_be_served(group)) {
            add(SqlCondition::of("r.id = ?").bind([root]));
        }
    }
    for id in wanted.root_required.iter().take(MOST_OF_ROOT) {
        add(has_trait("r.id", &[*id]));
    }
    if !wanted.root_forbidden.is_empty() {
        add(has_trait("r.id", &wanted.root_forbidden).not());
    }
    for part in &wanted.parts {
        let group = &wanted.groups[part.group];
        add(scribe.provider(group, &part.resources, None));
    }
    if sharing.is_some() {
        for group in wanted.groups.iter().filter(|group| group.is_spread()) {
            for any_of in &group.required {
                add(scribe.provider(group, &[], Some(any_of)));
            }
        }
        return all;
    }
    // Implied by the conditions on parts, but in a form that lets a server start from the few matching rows.
    let groups = 0..wanted.groups.len();
    let scattered: Vec<SqlCondition> = groups.flat_map(|index| scattered(wanted, index)).collect();
    for condition in few(scattered, MOST_SCATTERED, MOST_VALUES) {
        add(condition);
    }
    for (class, amount) in sums(wanted) {
        add(scribe.sum(class, amount));
    }
    all
}

/// What some provider of the tree must have, whichever provider serves the parts of the group.
fn scattered(wanted: &SearchRequest, index: usize) -> Vec<SqlCondition> {
    let group = &wanted.groups[index];
    if !wanted.parts.iter().any(|part| part.group == index) {
        return Vec::new();
    }
    let traits = group.required.iter().map(|any_of| {
        let ids = any_of.clone();
        somewhere("resource_provider_traits", "trait_id", ids)
    });
    let aggregates = group.member_of.iter().map(|any_of| {
        let ids = row_ids(any_of);
        somewhere("resource_provider_aggregates", "aggregate_id", ids)
    });
    traits.chain(aggregates).collect()
}

fn somewhere(table: &str, column: &str, any_of: Vec<i64>) -> SqlCondition {
    if any_of.is_empty() {
        return never();
    }
    SqlCondition::of(format!(
        "EXISTS (SELECT 1 FROM resource_providers p CROSS JOIN {table} x \
         WHERE p.root_provider_id = r.id AND x.resource_provider_id = p.id AND x.{column} IN ({}))",
        placeholders(any_of.len())
    ))
    .bind(any_of)
}

/// The sum that several parts request of one class.
fn sums(wanted: &SearchRequest) -> BTreeMap<ClassId, i64> {
    let mut sums: BTreeMap<ClassId, (usize, i64)> = BTreeMap::new();
    for (class, amount) in wanted.parts.iter().flat_map(|part| &part.resources) {
        let (parts, sum) = sums.entry(*class).or_default();
        *parts += 1;
        *sum = sum.saturating_add(*amount);
    }
    sums.into_iter()
        .filter(|(_, (parts, _))| *parts > 1)
        .map(|(class, (_, sum))| (class, sum))
        .collect()
}

impl SqlCondition {
    fn of(sql: impl Into<String>) -> Self {
        Self {
            sql: sql.into(),
            values: Vec::new(),
        }
    }

    fn bind<V: Into<Value>>(mut self, values: impl IntoIterator<Item = V>) -> Self {
        self.values.extend(values.into_iter().map(Into::into));
        self
    }

    /// The conjunction of these conditions; at least one.
    fn all(conditions: Vec<Self>) -> Self {
        Self::joined(conditions, " AND ")
    }

    fn either(one: Self, other: Self) -> Self {
        Self::joined(vec![one, other], ") OR (").within("((", "))")
    }

    fn joined(conditions: Vec<Self>, by: &str) -> Self {
        let sql: Vec<&str> = conditions.iter().map(|it| it.sql.as_str()).collect();
        let sql = sql.join(by);
        let values = conditions.into_iter().flat_map(|it| it.values);
        Self {
            sql,
            values: values.collect(),
        }
    }

    fn within(mut self, before: &str, behind: &str) -> Self {
        self.sql = format!("{before}{}{behind}", self.sql);
        self
    }

    fn not(self) -> Self {
        self.within("NOT ", "")
    }
}

fn has_trait(provider: &str, any_of: &[TraitId]) -> SqlCondition {
    if any_of.is_empty() {
        return never();
    }
    SqlCondition::of(format!(
        "EXISTS (SELECT 1 FROM resource_provider_traits t \
         WHERE t.resource_provider_id = {provider} AND t.trait_id IN ({}))",
        placeholders(any_of.len())
    ))
    .bind(any_of.iter().copied())
}

/// `provider` is a comparison.
fn is_in(provider: &str, any_of: &[AggregateKey]) -> SqlCondition {
    let ids = row_ids(any_of);
    if ids.is_empty() {
        return never();
    }
    SqlCondition::of(format!(
        "EXISTS (SELECT 1 FROM resource_provider_aggregates g \
         WHERE g.resource_provider_id {provider} AND g.aggregate_id IN ({}))",
        placeholders(ids.len())
    ))
    .bind(ids)
}

/// The row ids of the aggregates.
fn row_ids(aggregates: &[AggregateKey]) -> Vec<i64> {
    let ids = aggregates.iter();
    ids.filter_map(|id| i64::try_from(*id).ok()).collect()
}

fn never() -> SqlCondition {
    SqlCondition::of("(1 = 0)")
}

/// Ends an EXISTS that is evaluated tree by tree until there are enough results. Servers have no statistics about free
/// capacity, and would otherwise scan all hosts.
const ONE_BY_ONE: &str = " LIMIT 1 OFFSET 0)";

/// More than any provider has of a class, and little enough to be added to.
const BEYOND_ALL: i64 = 1 << 40;

struct Scribe {
    dialect: Dialect,
    sharing: Option<TraitId>,
}

impl Scribe {
    /// Whether providers of other trees may serve the group.
    fn may_be_served(&self, group: &SearchGroup) -> bool {
        self.sharing.is_some() && !(group.is_spread() && group.in_tree.is_some())
    }

    /// Some provider of the tree, or a sharing provider, has room for these resources and matches the group and one
    /// of the given traits.
    fn provider(
        &self,
        group: &SearchGroup,
        resources: &[(ClassId, i64)],
        any_of: Option<&[TraitId]>,
    ) -> SqlCondition {
        let resources = &resources[..resources.len().min(MOST_CLASSES)];
        let mut good = self.rooms(resources);
        good.extend(any_of.map(|any_of| has_trait("p.id", any_of)));
        good.extend(traits(group));
        let own = self.own(group, resources, good.clone());
        match self.sharing {
            Some(sharing) if self.may_be_served(group) => {
                let mut own = vec![own];
                own.extend(
                    group
                        .in_tree
                        .map(|root| SqlCondition::of("r.id = ?").bind([root])),
                );
                let other = Self::other(group, resources, sharing, good);
                SqlCondition::either(SqlCondition::all(own), other)
            }
            _ => own,
        }
    }

    /// A provider `p` of the tree.
    fn own(
        &self,
        group: &SearchGroup,
        resources: &[(ClassId, i64)],
        good: Vec<SqlCondition>,
    ) -> SqlCondition {
        let mut all = vec![SqlCondition::of("p.root_provider_id = r.id")];
        // For the unsuffixed group, an aggregate of the root applies to the whole tree.
        let aggregates = match group.is_spread() {
            true => aggregates(group, "IN (p.id, r.id)"),
            false => aggregates(group, "= p.id"),
        };
        all.extend(few_of_provider(good, aggregates));
        // CROSS JOIN fixes SQLite's join order: starting with the class, it would scan all hosts for each host.
        let before = format!(
            "EXISTS (SELECT 1 FROM resource_providers p{} WHERE ",
            inventories(resources)
        );
        SqlCondition::all(all).within(&before, ONE_BY_ONE)
    }

    /// A sharing provider `p` that has an aggregate in common with a provider `q` of the tree.
    fn other(
        group: &SearchGroup,
        resources: &[(ClassId, i64)],
        sharing: TraitId,
        good: Vec<SqlCondition>,
    ) -> SqlCondition {
        let mut all = vec![
            SqlCondition::of(
                "p.id = st.resource_provider_id AND sa.resource_provider_id = p.id \
                 AND st.trait_id = ?",
            )
            .bind([sharing]),
        ];
        if let Some(root) = group.in_tree {
            all.push(SqlCondition::of("p.root_provider_id = ?").bind([root]));
        }
        all.extend(few_of_provider(good, aggregates(group, "= p.id")));
        // The inner list does not depend on the tree, so it is computed once.
        let before = format!(
            "EXISTS (SELECT 1 FROM resource_providers q CROSS JOIN resource_provider_aggregates qa \
             WHERE q.root_provider_id = r.id AND qa.resource_provider_id = q.id \
             AND qa.aggregate_id IN (SELECT sa.aggregate_id FROM resource_provider_traits st \
             CROSS JOIN resource_providers p CROSS JOIN resource_provider_aggregates sa{} WHERE ",
            inventories(resources)
        );
        let served = SqlCondition::all(all).within(&before, &format!("){ONE_BY_ONE}"));
        if group.is_spread() && !group.forbidden_aggregates.is_empty() {
            let root = is_in("= r.id", &group.forbidden_aggregates).not();
            return SqlCondition::all(vec![served, root]);
        }
        served
    }

    /// That `p` has room for each class.
    fn rooms(&self, resources: &[(ClassId, i64)]) -> Vec<SqlCondition> {
        let rooms = resources.iter().enumerate();
        let rooms = rooms.map(|(index, (class, amount))| {
            let i = format!("i{index}");
            SqlCondition::of(format!(
                "{i}.resource_provider_id = p.id AND {i}.resource_class_id = ? \
                 AND {i}.min_unit <= ? AND {i}.max_unit >= ? \
                 AND ? % CASE WHEN {i}.step_size < 1 THEN 1 ELSE {i}.step_size END = 0 \
                 AND {} >= {} + ?",
                self.capacity(&i),
                used(&i)
            ))
            .bind([*class])
            .bind([(*amount).min(BEYOND_ALL); 4])
        });
        rooms.collect()
    }

    fn capacity(&self, i: &str) -> String {
        let ratio = self.dialect.double(&format!("{i}.allocation_ratio"));
        format!("({i}.total - {i}.reserved) * {ratio}")
    }

    /// That the providers of the tree have so much of a class together.
    fn sum(&self, class: ClassId, amount: i64) -> SqlCondition {
        let (capacity, used) = (self.capacity("i"), used("i"));
        // Half a unit for rounding errors of sums.
        #[expect(
            clippy::cast_precision_loss,
            reason = "rounding errors are far beyond any capacity"
        )]
        let least = amount as f64 - 0.5;
        SqlCondition::of(format!(
            "(SELECT SUM(CASE WHEN {capacity} > {used} THEN {capacity} - {used} ELSE 0 END) \
             FROM resource_providers p CROSS JOIN inventories i WHERE p.root_provider_id = r.id \
             AND i.resource_provider_id = p.id AND i.resource_class_id = ?) >= ?"
        ))
        .bind([class])
        .bind([least])
    }
}

/// The conditions on one provider besides its position. Capacity conditions come first and are never left out.
fn few_of_provider(
    mut good: Vec<SqlCondition>,
    aggregates: Vec<SqlCondition>,
) -> Vec<SqlCondition> {
    good.extend(aggregates.into_iter().take(MOST_AGGREGATES));
    // Two of this size may be in one condition, and several conditions in one statement.
    few(good, MOST_OF_PROVIDER, MOST_VALUES / 4)
}

fn inventories(resources: &[(ClassId, i64)]) -> String {
    let all = (0..resources.len()).map(|index| format!(" CROSS JOIN inventories i{index}"));
    all.collect()
}

fn used(i: &str) -> String {
    format!(
        "COALESCE((SELECT SUM(a.used) FROM allocations a \
         WHERE a.resource_provider_id = {i}.resource_provider_id \
         AND a.resource_class_id = {i}.resource_class_id), 0)"
    )
}

/// Required and forbidden traits of `p`; only forbidden ones for the unsuffixed group.
fn traits(group: &SearchGroup) -> Vec<SqlCondition> {
    let mut all = Vec::new();
    if !group.is_spread() {
        all.extend(
            group
                .required
                .iter()
                .map(|any_of| has_trait("p.id", any_of)),
        );
    }
    if !group.forbidden.is_empty() {
        all.push(has_trait("p.id", &group.forbidden).not());
    }
    all
}

fn aggregates(group: &SearchGroup, provider: &str) -> Vec<SqlCondition> {
    let sets = group.member_of.iter();
    let mut all: Vec<SqlCondition> = sets.map(|any_of| is_in(provider, any_of)).collect();
    if !group.forbidden_aggregates.is_empty() {
        all.push(is_in(provider, &group.forbidden_aggregates).not());
    }
    all
}
