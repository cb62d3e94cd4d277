//! The score card of a host: why it is where it is in the order.

use serde::Serialize;

/// What the weighers say of one host.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScoreCard {
    /// The sum of the scores; 0 where there was nothing to compare.
    pub weight: f64,
    /// The score of each weigher; empty for a single host, which is not weighed.
    pub scores: Vec<Score>,
}

/// What one weigher says.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Score {
    pub weigher: &'static str,
    /// In its own unit.
    pub raw: f64,
    /// On the common scale.
    pub norm: f64,
    /// The option, or what the host's aggregates say instead.
    pub multiplier: f64,
    /// What it adds to the weight: `norm` times `multiplier`.
    pub score: f64,
}
