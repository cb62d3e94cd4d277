//! Each guest cell on a host cell of its own, and the cells of its devices among them.
//!
//! The guest's cells choose in turn, each the first of its options after which the rest can still be placed. That is seen
//! without trial: the rest can be placed, and the devices' cells be among the taken ones, if and only if each of the two can be
//! done by itself (Mendelsohn and Dulmage). So there is no way back, and no search that grows with the number of permutations.

use std::collections::{BTreeMap, BTreeSet};

/// For each guest cell the host cell it gets, where `options` has the host cells that each would take, best first, and each of
/// `required` must be taken; none where that cannot be.
pub(super) fn assign(options: &[Vec<usize>], required: &BTreeSet<usize>) -> Option<Vec<usize>> {
    let mut taken = BTreeSet::new();
    let mut assigned = Vec::with_capacity(options.len());
    for (number, own) in options.iter().enumerate() {
        let rest = &options[number + 1..];
        let place = own.iter().copied().find(|place| {
            let mut with = taken.clone();
            with.insert(*place) && can_be_completed(rest, &with, required)
        })?;
        taken.insert(place);
        assigned.push(place);
    }
    required.is_subset(&taken).then_some(assigned)
}

fn can_be_completed(
    rest: &[Vec<usize>],
    taken: &BTreeSet<usize>,
    required: &BTreeSet<usize>,
) -> bool {
    let left: Vec<Vec<usize>> = rest
        .iter()
        .map(|own| {
            own.iter()
                .copied()
                .filter(|place| !taken.contains(place))
                .collect()
        })
        .collect();
    let missing = required.difference(taken);
    let seekers: Vec<Vec<usize>> = missing
        .map(|place| {
            (0..left.len())
                .filter(|guest| left[*guest].contains(place))
                .collect()
        })
        .collect();
    saturates(&left) && saturates(&seekers)
}

/// Whether each seeker can have one of its options, no two the same (Kuhn's augmenting paths).
fn saturates(options: &[Vec<usize>]) -> bool {
    let mut holder = BTreeMap::new();
    (0..options.len()).all(|seeker| augment(options, seeker, &mut holder, &mut BTreeSet::new()))
}

fn augment(
    options: &[Vec<usize>],
    seeker: usize,
    holder: &mut BTreeMap<usize, usize>,
    seen: &mut BTreeSet<usize>,
) -> bool {
    for option in &options[seeker] {
        if !seen.insert(*option) {
            continue;
        }
        let free = match holder.get(option).copied() {
            None => true,
            Some(other) => augment(options, other, holder, seen),
        };
        if free {
            holder.insert(*option, seeker);
            return true;
        }
    }
    false
}
