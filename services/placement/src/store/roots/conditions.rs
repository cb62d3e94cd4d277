//! What a tree must have to serve a request, as SQL on its root `r`.
//!
//! A request may ask for more than a statement can say: MariaDB takes 61 tables in a join, SQLite 64, and values are counted in 16
//! bits. Of what is too much the rest is left out: the search decides it on the trees that are read.

use std::collections::BTreeMap;

use berth_store::sql::placeholders;
use berth_store::{Dialect, Value};

use crate::candidates::options::{Group, Wanted};
use crate::candidates::snapshot::{Aggregate, TraitId};
use crate::ledger::ClassId;

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Condition {
    pub(super) sql: String,
    pub(super) values: Vec<Value>,
}

/// Conditions on a tree.
const MOST: usize = 20;

/// Conditions that a server makes joins of, of the root and of any provider: MariaDB looks at all orders of a join, and with forty
/// tables it does nothing else any more.
const MOST_OF_ROOT: usize = 4;
const MOST_SCATTERED: usize = 6;

/// Conditions on one provider, and classes that it is asked for, a table each.
const MOST_OF_PROVIDER: usize = 12;
const MOST_CLASSES: usize = 6;

/// Values of all conditions together.
const MOST_VALUES: usize = 8_000;

/// Conditions on a tree, each once: as many of them as a statement can bear, the first first.
pub(super) fn conditions(
    dialect: Dialect,
    wanted: &Wanted,
    sharing: Option<TraitId>,
) -> Vec<Condition> {
    few(all(dialect, wanted, sharing), MOST, MOST_VALUES)
}

/// The first, so many at most, with so many values at most.
fn few(mut all: Vec<Condition>, most: usize, mut values: usize) -> Vec<Condition> {
    all.retain(|condition| {
        let left = values.checked_sub(condition.values.len());
        values = left.unwrap_or(values);
        left.is_some()
    });
    all.truncate(most);
    all
}

fn all(dialect: Dialect, wanted: &Wanted, sharing: Option<TraitId>) -> Vec<Condition> {
    let scribe = Scribe { dialect, sharing };
    let mut all: Vec<Condition> = Vec::new();
    let mut add = |condition: Condition| {
        if !all.contains(&condition) {
            all.push(condition);
        }
    };
    for group in &wanted.groups {
        if let Some(root) = group.in_tree.filter(|_| !scribe.may_be_served(group)) {
            add(Condition::of("r.id = ?").bind([root]));
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
    // Asked of the parts already, but not in a way in which a server goes from the few that have it.
    let groups = 0..wanted.groups.len();
    let scattered: Vec<Condition> = groups.flat_map(|index| scattered(wanted, index)).collect();
    for condition in few(scattered, MOST_SCATTERED, MOST_VALUES) {
        add(condition);
    }
    for (class, amount) in sums(wanted) {
        add(scribe.sum(class, amount));
    }
    all
}

/// What some provider of the tree has, whoever serves the parts of the group.
fn scattered(wanted: &Wanted, index: usize) -> Vec<Condition> {
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

fn somewhere(table: &str, column: &str, any_of: Vec<i64>) -> Condition {
    if any_of.is_empty() {
        return never();
    }
    Condition::of(format!(
        "EXISTS (SELECT 1 FROM resource_providers p CROSS JOIN {table} x \
         WHERE p.root_provider_id = r.id AND x.resource_provider_id = p.id AND x.{column} IN ({}))",
        placeholders(any_of.len())
    ))
    .bind(any_of)
}

/// What several parts ask of one class.
fn sums(wanted: &Wanted) -> BTreeMap<ClassId, i64> {
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

impl Condition {
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

    /// All of these, of which there is one at least.
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

fn has_trait(provider: &str, any_of: &[TraitId]) -> Condition {
    if any_of.is_empty() {
        return never();
    }
    Condition::of(format!(
        "EXISTS (SELECT 1 FROM resource_provider_traits t \
         WHERE t.resource_provider_id = {provider} AND t.trait_id IN ({}))",
        placeholders(any_of.len())
    ))
    .bind(any_of.iter().copied())
}

/// `provider` is a comparison.
fn is_in(provider: &str, any_of: &[Aggregate]) -> Condition {
    let ids = row_ids(any_of);
    if ids.is_empty() {
        return never();
    }
    Condition::of(format!(
        "EXISTS (SELECT 1 FROM resource_provider_aggregates g \
         WHERE g.resource_provider_id {provider} AND g.aggregate_id IN ({}))",
        placeholders(ids.len())
    ))
    .bind(ids)
}

/// By which aggregates are known here.
fn row_ids(aggregates: &[Aggregate]) -> Vec<i64> {
    let ids = aggregates.iter();
    ids.filter_map(|id| i64::try_from(*id).ok()).collect()
}

fn never() -> Condition {
    Condition::of("(1 = 0)")
}

/// The end of an EXISTS that is asked tree by tree, until there are enough. How much room there is stands in no statistics of a
/// server: it expects next to none, and would go through all hosts for what the first thousand have.
const ONE_BY_ONE: &str = " LIMIT 1 OFFSET 0)";

/// More than any provider has of a class, and little enough to be added to.
const BEYOND_ALL: i64 = 1 << 40;

struct Scribe {
    dialect: Dialect,
    sharing: Option<TraitId>,
}

impl Scribe {
    /// Whether providers of other trees may serve the group.
    fn may_be_served(&self, group: &Group) -> bool {
        self.sharing.is_some() && !(group.is_spread() && group.in_tree.is_some())
    }

    /// That some provider of the tree, or some that serves it, has room for these resources and is good for the group; where
    /// traits are given, with one of them.
    fn provider(
        &self,
        group: &Group,
        resources: &[(ClassId, i64)],
        any_of: Option<&[TraitId]>,
    ) -> Condition {
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
                        .map(|root| Condition::of("r.id = ?").bind([root])),
                );
                let other = Self::other(group, resources, sharing, good);
                Condition::either(Condition::all(own), other)
            }
            _ => own,
        }
    }

    /// A provider `p` of the tree.
    fn own(&self, group: &Group, resources: &[(ClassId, i64)], good: Vec<Condition>) -> Condition {
        let mut all = vec![Condition::of("p.root_provider_id = r.id")];
        // An aggregate of the root spans the whole tree, for the group without suffix.
        let aggregates = match group.is_spread() {
            true => aggregates(group, "IN (p.id, r.id)"),
            false => aggregates(group, "= p.id"),
        };
        all.extend(few_of_provider(good, aggregates));
        // CROSS JOIN is the order in which SQLite goes: by the class first it would go through all hosts for each host.
        let before = format!(
            "EXISTS (SELECT 1 FROM resource_providers p{} WHERE ",
            inventories(resources)
        );
        Condition::all(all).within(&before, ONE_BY_ONE)
    }

    /// A sharing provider `p` that has an aggregate in common with a provider `q` of the tree.
    fn other(
        group: &Group,
        resources: &[(ClassId, i64)],
        sharing: TraitId,
        good: Vec<Condition>,
    ) -> Condition {
        let mut all = vec![
            Condition::of(
                "p.id = st.resource_provider_id AND sa.resource_provider_id = p.id \
                 AND st.trait_id = ?",
            )
            .bind([sharing]),
        ];
        if let Some(root) = group.in_tree {
            all.push(Condition::of("p.root_provider_id = ?").bind([root]));
        }
        all.extend(few_of_provider(good, aggregates(group, "= p.id")));
        // Nothing in the inner list depends on the tree: it is made once.
        let before = format!(
            "EXISTS (SELECT 1 FROM resource_providers q CROSS JOIN resource_provider_aggregates qa \
             WHERE q.root_provider_id = r.id AND qa.resource_provider_id = q.id \
             AND qa.aggregate_id IN (SELECT sa.aggregate_id FROM resource_provider_traits st \
             CROSS JOIN resource_providers p CROSS JOIN resource_provider_aggregates sa{} WHERE ",
            inventories(resources)
        );
        let served = Condition::all(all).within(&before, &format!("){ONE_BY_ONE}"));
        if group.is_spread() && !group.forbidden_aggregates.is_empty() {
            let root = is_in("= r.id", &group.forbidden_aggregates).not();
            return Condition::all(vec![served, root]);
        }
        served
    }

    /// That `p` has room for each class.
    fn rooms(&self, resources: &[(ClassId, i64)]) -> Vec<Condition> {
        let rooms = resources.iter().enumerate();
        let rooms = rooms.map(|(index, (class, amount))| {
            let i = format!("i{index}");
            Condition::of(format!(
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
    fn sum(&self, class: ClassId, amount: i64) -> Condition {
        let (capacity, used) = (self.capacity("i"), used("i"));
        // Half a unit for what is lost in adding fractions.
        #[expect(
            clippy::cast_precision_loss,
            reason = "what is lost is far beyond any capacity"
        )]
        let least = amount as f64 - 0.5;
        Condition::of(format!(
            "(SELECT SUM(CASE WHEN {capacity} > {used} THEN {capacity} - {used} ELSE 0 END) \
             FROM resource_providers p CROSS JOIN inventories i WHERE p.root_provider_id = r.id \
             AND i.resource_provider_id = p.id AND i.resource_class_id = ?) >= ?"
        ))
        .bind([class])
        .bind([least])
    }
}

/// What one provider is asked for beside its place. What is there of rooms comes first, and all of it: they are few.
fn few_of_provider(mut good: Vec<Condition>, aggregates: Vec<Condition>) -> Vec<Condition> {
    good.extend(aggregates);
    // Two of this size may stand in one condition, and several conditions in a statement.
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

/// The traits that `p` has and has not; of the group without suffix, those that it has not.
fn traits(group: &Group) -> Vec<Condition> {
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

fn aggregates(group: &Group, provider: &str) -> Vec<Condition> {
    let sets = group.member_of.iter();
    let mut all: Vec<Condition> = sets.map(|any_of| is_in(provider, any_of)).collect();
    if !group.forbidden_aggregates.is_empty() {
        all.push(is_in(provider, &group.forbidden_aggregates).not());
    }
    all
}
