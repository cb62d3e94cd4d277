//! Weighers that decide: without one of them another host would be the best.

use super::{Column, HostRanking, HostValues, best};

/// Sums differ if their difference exceeds this share of the largest term.
const ROUNDING: f64 = 1e-13;

/// Beyond this weight a score is not subtracted: the precision of the other scores in the weight is too low.
const LARGE: f64 = 1e15;

/// The weights of hosts, and the best of them.
struct WeighedHost {
    weights: Vec<f64>,
    best: usize,
    /// The largest absolute weight; `None` if one is not a number, or too large to subtract scores.
    largest: Option<f64>,
}

/// What a host's weight is without a weigher.
#[derive(Debug, Clone, Copy)]
struct Rest {
    place: usize,
    weight: f64,
    /// What may be wrong about it.
    wrong: f64,
}

impl HostRanking {
    /// Weighers without which another host would be the best, with the index of that host.
    ///
    /// The scores of each weigher are subtracted from the weights of the hosts that may be the best without them.
    /// Weights that differ only by rounding count as equal; the first of such hosts is the best, as in the order of
    /// hosts.
    #[must_use]
    pub fn pivotal(&self) -> Vec<(&'static str, usize)> {
        self.pivotal_of(WeighedHost::new)
    }

    fn pivotal_of(
        &self,
        of: impl Fn(Vec<f64>) -> Option<WeighedHost>,
    ) -> Vec<(&'static str, usize)> {
        let Some(weighed) = of(self.weights()).filter(|_| self.is_weighed()) else {
            return Vec::new();
        };
        let mut rests = Vec::new();
        let mut pivotal = Vec::new();
        for (at, column) in self.columns.iter().enumerate() {
            if !column.distinguishes() {
                continue;
            }
            let other = match column.taken_from(&weighed, &mut rests) {
                true => first_of_the_most(&rests),
                // A value that is too large cannot be subtracted.
                false => best(&self.weights_without(at)),
            };
            pivotal.extend(
                other
                    .filter(|it| *it != weighed.best)
                    .map(|it| (column.weigher, it)),
            );
        }
        pivotal
    }

    fn weights_without(&self, weigher: usize) -> Vec<f64> {
        let others = self.columns.iter().enumerate();
        self.weights_of(
            others
                .filter(|(at, _)| *at != weigher)
                .map(|(_, column)| column),
        )
    }
}

impl WeighedHost {
    /// Finds the best host of these weights; `None` without hosts.
    fn new(weights: Vec<f64>) -> Option<Self> {
        let largest = weights.iter().map(|it| it.abs());
        // Not f64::max, which ignores NaN.
        let largest = largest.fold(0.0, |most, it| if it <= most { most } else { it });
        Some(Self {
            best: best(&weights)?,
            weights,
            largest: (largest < LARGE).then_some(largest),
        })
    }
}

impl Column {
    /// Whether its scores may differ.
    fn distinguishes(&self) -> bool {
        let has_weight = self.multiplier.as_slice().iter().any(|it| *it != 0.0);
        has_weight && (self.on_scale().differ() || self.multiplier.differ())
    }

    /// The weights without its scores, of the hosts that may have the most of them; false where one is no number, or
    /// too large.
    fn taken_from(&self, weighed: &WeighedHost, rests: &mut Vec<Rest>) -> bool {
        let scale = self.scale();
        let on_scale = self.on_scale();
        let rest = |(place, weight): (usize, &f64)| {
            let score = scale.at(on_scale.at(place)) * self.multiplier.at(place);
            Rest {
                place,
                weight: weight - score,
                wrong: weight.abs().max(score.abs()) * ROUNDING,
            }
        };
        rests.clear();
        let weights = weighed.weights.iter().enumerate();
        match self.least_that_counts(weighed) {
            Some(least) => rests.extend(weights.filter(|(_, it)| **it >= least).map(rest)),
            None => rests.extend(weights.map(rest)),
        }
        rests
            .iter()
            .all(|it| it.weight.is_finite() && it.wrong < LARGE * ROUNDING)
    }

    /// The least weight of a host that may be the best without the scores: without them the best one keeps its weight but for its
    /// score, and no host gains more than the column's lowest score takes. None where that is not known without looking at each.
    fn least_that_counts(&self, weighed: &WeighedHost) -> Option<f64> {
        // Only a list that is the scale is between 0 and 1.
        let (largest, HostValues::Same(multiplier), None) =
            (weighed.largest?, &self.multiplier, &self.own)
        else {
            return None;
        };
        if multiplier.abs() >= LARGE {
            return None;
        }
        let score = self.score(self.scale(), weighed.best).score;
        // Twice what may be wrong about two of them.
        let wrong = (largest + multiplier.abs()) * ROUNDING * 4.0;
        Some(weighed.weights[weighed.best] - score + multiplier.min(0.0) - wrong)
    }
}

/// The place of the first that is as much as the most, but for what may be wrong about both.
fn first_of_the_most(rests: &[Rest]) -> Option<usize> {
    let mut most = rests.first().copied()?;
    for rest in rests {
        if rest.weight > most.weight {
            most = *rest;
        }
    }
    let is_as_much = |rest: &&Rest| rest.weight + rest.wrong >= most.weight - most.wrong;
    rests.iter().find(is_as_much).map(|rest| rest.place)
}

#[cfg(test)]
impl HostRanking {
    /// As [`HostRanking::pivotal`], by looking at every host.
    pub(super) fn pivotal_by_all(&self) -> Vec<(&'static str, usize)> {
        self.pivotal_of(|weights| {
            let weighed = WeighedHost::new(weights)?;
            Some(WeighedHost {
                largest: None,
                ..weighed
            })
        })
    }

    /// The number of hosts that are checked, and the number without the bound.
    pub(super) fn considered(&self) -> (usize, usize) {
        let Some(weighed) = WeighedHost::new(self.weights()) else {
            return (0, 0);
        };
        let mut rests = Vec::new();
        let columns = self.columns.iter().filter(|it| it.distinguishes());
        columns.fold((0, 0), |(some, all), column| {
            column.taken_from(&weighed, &mut rests);
            (some + rests.len(), all + weighed.weights.len())
        })
    }
}
