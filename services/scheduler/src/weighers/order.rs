//! The best host first.

use berth_model::SeededRng;

use crate::options::FilterSchedulerOptions;

/// Puts the places of hosts in order by their weights, the most first; those of one weight keep their order, and a weight that is
/// no number is the last. `shuffle_best_same_weighed_hosts` and `host_subset_size` choose the first one at random.
pub fn order(
    places: &mut [usize],
    weights: &[f64],
    options: &FilterSchedulerOptions,
    rng: &mut SeededRng,
) {
    let mut keyed: Vec<(u64, usize)> = places.iter().map(|at| (key(weights[*at]), *at)).collect();
    keyed.sort_by_key(|(key, _)| *key);
    for (place, (_, sorted)) in places.iter_mut().zip(keyed) {
        *place = sorted;
    }
    let Some(&best) = places.first() else {
        return;
    };
    if options.shuffle_best_same_weighed_hosts {
        let is_best = |place: &&usize| key(weights[**place]) == key(weights[best]);
        let many = places.iter().take_while(is_best).count();
        for end in (1..many).rev() {
            places.swap(end, rng.below(end + 1));
        }
    }
    let subset = usize::try_from(options.host_subset_size).unwrap_or(1);
    if subset > 1 {
        let chosen = rng.below(subset.min(places.len()));
        places[..=chosen].rotate_right(1);
    }
}

/// The less, the more the weight is: a whole number sorts faster than one with a point. Both zeros are one.
fn key(weight: f64) -> u64 {
    const SIGN: u64 = 1 << 63;
    let bits = (weight + 0.0).to_bits();
    match weight {
        _ if weight.is_nan() => u64::MAX,
        _ if bits & SIGN == 0 => !(bits | SIGN),
        _ => bits,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn options(subset: i64, shuffle: bool) -> FilterSchedulerOptions {
        FilterSchedulerOptions {
            host_subset_size: subset,
            shuffle_best_same_weighed_hosts: shuffle,
            ..FilterSchedulerOptions::default()
        }
    }

    fn ordered(weights: &[f64], options: &FilterSchedulerOptions, seed: u64) -> Vec<usize> {
        let mut places: Vec<usize> = (0..weights.len()).collect();
        order(&mut places, weights, options, &mut SeededRng::new(seed));
        places
    }

    #[test]
    fn hosts_of_one_weight_keep_their_order_and_no_number_is_last() {
        for (weights, expected) in [
            (&[1.0, 3.0, 2.0, 3.0][..], &[1, 3, 2, 0][..]),
            (&[0.0, -0.0, 0.0], &[0, 1, 2]),
            (
                &[f64::NAN, f64::NEG_INFINITY, f64::INFINITY, f64::NAN],
                &[2, 1, 0, 3],
            ),
            (&[], &[]),
        ] {
            let got = ordered(weights, &options(1, false), 1);
            assert_eq!(got, expected, "{weights:?}");
        }
    }

    #[test]
    fn a_subset_size_below_1_is_1() {
        for subset in [1, 0, -5] {
            for seed in 0..20 {
                let got = ordered(&[1.0, 2.0, 3.0], &options(subset, false), seed);
                assert_eq!(got, [2, 1, 0]);
            }
        }
    }

    #[test]
    fn one_of_the_subset_is_put_first_and_the_others_keep_their_order() {
        let weights = [4.0, 3.0, 2.0, 1.0];
        let firsts = |subset| -> BTreeSet<usize> {
            let of = |seed| ordered(&weights, &options(subset, false), seed);
            (0..200)
                .map(|seed| {
                    let got = of(seed);
                    assert_eq!(got, of(seed), "a seed has one order");
                    let rest: Vec<usize> = (0..4).filter(|place| *place != got[0]).collect();
                    assert_eq!(got[1..], rest);
                    got[0]
                })
                .collect()
        };
        assert_eq!(firsts(3), BTreeSet::from([0, 1, 2]));
        assert_eq!(firsts(9), BTreeSet::from([0, 1, 2, 3]));
    }

    #[test]
    fn only_the_best_of_one_weight_are_shuffled() {
        let weights = [5.0, 1.0, 5.0, 1.0, 5.0];
        let orders: BTreeSet<Vec<usize>> = (0..200)
            .map(|seed| ordered(&weights, &options(1, true), seed))
            .collect();
        assert_eq!(orders.len(), 6, "every order of the three best");
        assert!(orders.iter().all(|order| order[3..] == [1, 3]));
    }
}
