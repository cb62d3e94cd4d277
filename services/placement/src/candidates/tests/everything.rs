//! The exhaustive search: every provider for every part in every tree, checked rule by rule.

use std::collections::{BTreeMap, BTreeSet};

use crate::candidates::options::{SearchGroupPolicy, SearchRequest};
use crate::candidates::snapshot::{AggregateKey, Member, SHARES, Snapshot, SnapshotTree};

type Pick<'a> = (&'a SnapshotTree, usize);

fn member<'a>(pick: &Pick<'a>) -> &'a Member {
    &pick.0.members[pick.1]
}

/// The providers of each part, for every possible candidate.
pub(super) fn possible(snapshot: &Snapshot, wanted: &SearchRequest) -> BTreeSet<Vec<i64>> {
    let providers: Vec<Pick> = snapshot
        .trees()
        .flat_map(|tree| (0..tree.members.len()).map(move |index| (tree, index)))
        .collect();
    let shares = snapshot.names().trait_id(SHARES).unwrap();
    let mut all = BTreeSet::new();
    for anchor in snapshot.trees() {
        let alone: Vec<Vec<Pick>> = (0..wanted.parts.len())
            .map(|part| {
                let good = providers
                    .iter()
                    .filter(|pick| serves(wanted, part, pick, anchor, shares));
                good.copied().collect()
            })
            .collect();
        let mut rows: Vec<Vec<Pick>> = vec![Vec::new()];
        for options in &alone {
            rows = rows
                .iter()
                .flat_map(|row| {
                    options.iter().map(move |pick| {
                        let mut longer = row.clone();
                        longer.push(*pick);
                        longer
                    })
                })
                .collect();
        }
        let good = rows.iter().filter(|row| together(wanted, row));
        all.extend(good.map(|row| row.iter().map(|pick| member(pick).id).collect::<Vec<i64>>()));
    }
    all
}

fn has_any(member: &Member, ids: &[i64]) -> bool {
    ids.iter().any(|id| member.traits.contains(id))
}

fn in_any(member: &Member, aggregates: &[AggregateKey]) -> bool {
    aggregates.iter().any(|one| member.aggregates.contains(one))
}

/// Whether a provider may serve a part in candidates of the anchor's tree, ignoring the other parts.
fn serves(
    wanted: &SearchRequest,
    part: usize,
    pick: &Pick,
    anchor: &SnapshotTree,
    shares: i64,
) -> bool {
    let provider = member(pick);
    let group = &wanted.groups[wanted.parts[part].group];
    let root = anchor.root();
    let own = pick.0.id == anchor.id;
    let shared = provider.traits.contains(&shares)
        && anchor
            .members
            .iter()
            .any(|one| in_any(one, &provider.aggregates));
    if !(own || shared) {
        return false;
    }
    if !wanted
        .root_required
        .iter()
        .all(|id| root.traits.contains(id))
        || has_any(root, &wanted.root_forbidden)
    {
        return false;
    }
    let room = wanted.parts[part].resources.iter().all(|(class, amount)| {
        provider.rooms.iter().any(|room| {
            let inventory = &room.inventory;
            room.class == *class
                && *amount >= inventory.min_unit
                && *amount <= inventory.max_unit
                && amount % inventory.step_size == 0
                && (room.used + amount) as f64
                    <= (inventory.total - inventory.reserved) as f64 * inventory.allocation_ratio
        })
    });
    if !room || has_any(provider, &group.forbidden) {
        return false;
    }
    let all_sets = |one: &Member| group.member_of.iter().all(|set| in_any(one, set));
    let apart = |one: &Member| in_any(one, &group.forbidden_aggregates);
    if group.suffix.is_empty() {
        let tree = match group.in_tree {
            Some(tree) => own && pick.0.id == tree,
            None => true,
        };
        let inside = all_sets(provider) || (own && all_sets(root));
        tree && inside && !apart(provider) && !apart(root)
    } else {
        group.in_tree.is_none_or(|tree| pick.0.id == tree)
            && group
                .required
                .iter()
                .all(|any_of| has_any(provider, any_of))
            && all_sets(provider)
            && !apart(provider)
    }
}

/// Whether the chosen providers of all parts are compatible.
fn together(wanted: &SearchRequest, row: &[Pick]) -> bool {
    let group_of = |part: usize| &wanted.groups[wanted.parts[part].group];
    let mut sums: BTreeMap<(i64, i64), i64> = BTreeMap::new();
    for (pick, part) in row.iter().zip(&wanted.parts) {
        for (class, amount) in &part.resources {
            *sums.entry((member(pick).id, *class)).or_default() += amount;
        }
    }
    let fits = row.iter().all(|pick| {
        member(pick).rooms.iter().all(|room| {
            let sum = sums
                .get(&(member(pick).id, room.class))
                .copied()
                .unwrap_or_default();
            let inventory = &room.inventory;
            let capacity =
                (inventory.total - inventory.reserved) as f64 * inventory.allocation_ratio;
            sum == 0 || (sum <= inventory.max_unit && (room.used + sum) as f64 <= capacity)
        })
    });
    let granular: Vec<i64> = (0..row.len())
        .filter(|part| !group_of(*part).suffix.is_empty())
        .map(|part| member(&row[part]).id)
        .collect();
    let apart = wanted.policy == SearchGroupPolicy::None
        || granular.iter().collect::<BTreeSet<_>>().len() == granular.len();
    let below = |pick: &Pick, top: &Pick| {
        let mut at = Some(pick.1);
        while let Some(index) = at {
            if pick.0.id == top.0.id && index == top.1 {
                return true;
            }
            at = pick.0.members[index].parent;
        }
        false
    };
    let subtrees = wanted.same_subtrees.iter().all(|parts| {
        parts.is_empty()
            || parts
                .iter()
                .any(|top| parts.iter().all(|part| below(&row[*part], &row[*top])))
    });
    let traits = wanted.groups.iter().enumerate().all(|(index, group)| {
        !group.suffix.is_empty()
            || group.required.iter().all(|any_of| {
                let mut parts = row.iter().zip(&wanted.parts);
                parts.any(|(pick, part)| part.group == index && has_any(member(pick), any_of))
            })
    });
    let mut of_tree: BTreeMap<i64, BTreeSet<i64>> = BTreeMap::new();
    for pick in row {
        of_tree
            .entry(pick.0.id)
            .or_default()
            .insert(member(pick).id);
    }
    let seen = !wanted.blind || of_tree.values().all(|ids| ids.len() == 1);
    fits && apart && subtrees && traits && seen
}
