//! Bipartite matching: assigns each guest cell to a different host cell, so that the cells of required devices are
//! used.
//!
//! Each guest cell in turn takes its first option that still allows a complete assignment. No backtracking is needed: by the
//! theorem of Mendelsohn and Dulmage, a matching that covers all guest cells and all required host cells exists if and only if one
//! exists for each of the two sets. So the time does not grow with the number of permutations.

use std::collections::{BTreeMap, BTreeSet};

/// The host cell for each guest cell, or `None` if impossible. `options` lists each guest cell's host cells, best
/// first; each of `required` must be used.
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

/// Whether each seeker can get a different one of its options (Kuhn's augmenting paths).
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
