//! Weighers that decide: without one of them another host would be the best.

use super::{Column, Ranking, best};

/// Sums of numbers are told apart where they differ by more than this share of the largest number in them.
const ROUNDING: f64 = 1e-13;

impl Ranking {
    /// Weighers without which another host would be the best, and the place of that host.
    ///
    /// Each weigher's scores are taken from the weights, so it costs about what making the weights does. What is alike but for
    /// rounding counts as alike, and of those the first is the best, as in the order of hosts.
    #[must_use]
    pub fn pivotal(&self) -> Vec<(&'static str, usize)> {
        let weights = self.weights();
        let Some(best) = best(&weights).filter(|_| self.is_weighed()) else {
            return Vec::new();
        };
        let mut without = Vec::with_capacity(weights.len());
        let mut pivotal = Vec::new();
        for (at, column) in self.columns.iter().enumerate() {
            if !column.tells_apart() {
                continue;
            }
            let other = match column.taken_from(&weights, &mut without) {
                true => first_of_the_most(&without),
                // What is beyond all numbers cannot be taken away again.
                false => self::best(&self.weights_without(at)),
            };
            pivotal.extend(
                other
                    .filter(|it| *it != best)
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

impl Column {
    /// Whether its scores may differ.
    fn tells_apart(&self) -> bool {
        let has_weight = self.multiplier.as_slice().iter().any(|it| *it != 0.0);
        has_weight && (self.on_scale().differ() || self.multiplier.differ())
    }

    /// The weights without its scores, each with what may be wrong about it; false where one is no number.
    fn taken_from(&self, weights: &[f64], without: &mut Vec<(f64, f64)>) -> bool {
        without.clear();
        without.extend(weights.iter().map(|weight| (*weight, 0.0)));
        let mut are_finite = true;
        self.scored(without, |(rest, wrong), score| {
            *wrong = rest.abs().max(score.abs()) * ROUNDING;
            *rest -= score;
            are_finite &= rest.is_finite();
        });
        are_finite
    }
}

/// The place of the first that is as much as the most, but for what may be wrong about both.
fn first_of_the_most(rests: &[(f64, f64)]) -> Option<usize> {
    let mut most = rests.first().copied()?;
    for rest in rests {
        if rest.0 > most.0 {
            most = *rest;
        }
    }
    let is_as_much = |(rest, wrong): &(f64, f64)| rest + wrong >= most.0 - most.1;
    rests.iter().position(is_as_much)
}
