//! The outcome of each repair, and resources as the listings show them.

use std::collections::BTreeMap;

use berth_model::{ConsumerUuid, NodeName, ProviderTree};
use berth_output::{ErrorCode, Failure};
use berth_virt::Resources;
use serde_json::{Value, json};

/// Resources by the provider's name, as an API shows them; for people `NAME: 1 PGPU, 2 VCPU; …`.
pub(super) fn resources_by_name(
    tree: &ProviderTree,
    resources: &Resources,
    is_for_people: bool,
) -> Value {
    let mut by_name: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for ((provider, class), amount) in resources {
        let name = tree.get(*provider).map_or_else(
            || provider.to_string(),
            |provider| provider.name.to_string(),
        );
        let classes = by_name.entry(name).or_default();
        classes.insert(class.to_string(), *amount);
    }
    if !is_for_people {
        return json!(by_name);
    }
    let providers = by_name.into_iter().map(|(name, classes)| {
        let classes: Vec<_> = classes
            .into_iter()
            .map(|(class, amount)| format!("{amount} {class}"))
            .collect();
        format!("{name}: {}", classes.join(", "))
    });
    Value::String(providers.collect::<Vec<_>>().join("; "))
}

/// The outcome of one repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RepairOutcome {
    Done(&'static str),
    /// No repair was requested.
    Left,
    Not(String),
}

impl RepairOutcome {
    pub(super) fn as_value(&self) -> Value {
        match self {
            Self::Done(what) => json!(what),
            Self::Left => Value::Null,
            Self::Not(why) => json!(format!("not done: {why}")),
        }
    }
}

/// The outcome of each repair, by node and consumer.
pub(super) type RepairOutcomes = BTreeMap<(NodeName, ConsumerUuid), RepairOutcome>;

/// One failure for all repairs that failed.
pub(super) fn not_done(outcomes: &RepairOutcomes, what: &str) -> Result<(), Failure> {
    let mut not = outcomes
        .iter()
        .filter_map(|((_, consumer), outcome)| match outcome {
            RepairOutcome::Not(why) => Some(format!("{consumer}: {why}")),
            RepairOutcome::Done(_) | RepairOutcome::Left => None,
        });
    let Some(first) = not.next() else {
        return Ok(());
    };
    let more = match not.count() {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    Err(Failure::new(
        ErrorCode::Refused,
        format!("not everything was {what}: {first}{more}"),
    )
    .hint(
        "run it again; allocations of other consumers may use the space: berth placement audit shows them, and --delete --consumer UUID \
         deletes one; a disabled device has no space until it is enabled",
    ))
}
