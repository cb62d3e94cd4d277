//! The score card of a host, which explains its place in the order.

use serde::Serialize;

/// The weight of one host and its scores.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScoreCard {
    /// The sum of the scores; 0 where there was nothing to compare.
    pub weight: f64,
    /// The score of each weigher; empty for a single host, which is not weighed.
    pub scores: Vec<Score>,
}

/// The score of one weigher.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Score {
    pub weigher: &'static str,
    /// In its own unit.
    pub raw: f64,
    /// On the common scale.
    pub norm: f64,
    /// The option's value, or the override of the host's aggregates.
    pub multiplier: f64,
    /// Its contribution to the weight: `norm` times `multiplier`.
    pub score: f64,
}
