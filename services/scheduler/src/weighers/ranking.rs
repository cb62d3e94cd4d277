//! The weights of a list of hosts, kept in a column for each weigher, so that one host that changes is weighed alone.

mod pivotal;

use super::card::{Card, Score};
use super::multiplier::overridden;
use super::normalize::Scale;
use super::{Bounds, MetricMissing, Raw, Weighers, Weighing};
use crate::host_state::{ConsideredHost, HostState};
use crate::options::{Normalization, Options};
use crate::request::RequestSpec;

/// Weights of hosts, by their places.
#[derive(Debug, Clone)]
pub struct Ranking {
    columns: Vec<Column>,
    hosts: usize,
    normalization: Normalization,
}

/// A host that a weigher cannot weigh.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{weigher}: {why}")]
pub struct Unweighable {
    /// Its place.
    pub place: usize,
    /// The weigher.
    pub weigher: &'static str,
    /// Why.
    pub why: MetricMissing,
}

#[derive(Debug, Clone)]
struct Column {
    weigher: &'static str,
    bounds: Bounds,
    raw: Vec<f64>,
    /// On a scale that is not the list's; empty where the list is the scale.
    own: Vec<f64>,
    multiplier: Vec<f64>,
}

impl Ranking {
    /// Weighs hosts.
    ///
    /// # Errors
    /// The hosts that cannot be weighed, once each.
    pub fn new(
        weighers: &Weighers,
        hosts: &[ConsideredHost],
        request: &RequestSpec,
        options: &Options,
    ) -> Result<Self, Vec<Unweighable>> {
        let mut ranking = Self {
            columns: Vec::new(),
            hosts: hosts.len(),
            normalization: options.filter_scheduler.weight_normalization,
        };
        if !ranking.is_weighed() {
            return Ok(ranking);
        }
        ranking.columns = weighers
            .weighers
            .iter()
            .map(|one| Column {
                weigher: one.name(),
                bounds: ranking.bounds(one.bounds()),
                raw: Vec::with_capacity(hosts.len()),
                own: Vec::new(),
                multiplier: Vec::with_capacity(hosts.len()),
            })
            .collect();
        let mut rows = Rows::new(weighers, request, options);
        let mut unweighable = Vec::new();
        for (place, host) in hosts.iter().enumerate() {
            if let Err(why) = ranking.row(&mut rows, place, &host.state) {
                unweighable.push(why);
            }
        }
        match unweighable.is_empty() {
            true => Ok(ranking),
            false => Err(unweighable),
        }
    }

    /// Weighs one host again.
    ///
    /// # Errors
    /// It can no longer be weighed; its weights are as they were.
    pub fn again(
        &mut self,
        weighers: &Weighers,
        place: usize,
        host: &ConsideredHost,
        request: &RequestSpec,
        options: &Options,
    ) -> Result<(), Unweighable> {
        if self.columns.is_empty() {
            return Ok(());
        }
        self.row(
            &mut Rows::new(weighers, request, options),
            place,
            &host.state,
        )
    }

    /// Writes one host's row, the next one or one that is there: all of it or nothing.
    fn row(
        &mut self,
        rows: &mut Rows<'_>,
        place: usize,
        host: &HostState,
    ) -> Result<(), Unweighable> {
        rows.weigh(place, host)?;
        for ((column, weighing), weighed) in
            self.columns.iter_mut().zip(&rows.weighings).zip(&rows.row)
        {
            put(&mut column.raw, place, column.bounds.clamp(weighed.raw));
            put(&mut column.multiplier, place, weighed.multiplier);
            let own = match (self.normalization, &weighing.share) {
                (Normalization::Upstream | Normalization::ListMin, _) => continue,
                (Normalization::Percent, Some(share)) => share(host),
                (Normalization::Percent | Normalization::Fixed, _) => weighed.raw / weighing.unit,
            };
            put(&mut column.own, place, own);
        }
        Ok(())
    }

    /// Forgets the hosts that are not kept; the others move up.
    pub fn retain(&mut self, is_kept: impl Fn(usize) -> bool) {
        let kept = |values: &mut Vec<f64>| {
            let mut place = 0..;
            values.retain(|_| place.next().is_some_and(&is_kept));
        };
        for column in &mut self.columns {
            kept(&mut column.raw);
            kept(&mut column.own);
            kept(&mut column.multiplier);
        }
        self.hosts = (0..self.hosts).filter(|place| is_kept(*place)).count();
    }

    /// The weight of each host. A host that is alone is compared with none, and has 0 where the list is the scale.
    #[must_use]
    pub fn weights(&self) -> Vec<f64> {
        self.weights_of(self.columns.iter())
    }

    fn weights_of<'a>(&self, columns: impl Iterator<Item = &'a Column>) -> Vec<f64> {
        let mut weights = vec![0.0; self.hosts];
        if !self.is_weighed() {
            return weights;
        }
        for column in columns {
            let scale = column.scale();
            let norms = column.on_scale().iter().map(|value| scale.at(*value));
            let scores = norms.zip(&column.multiplier).map(|(norm, its)| norm * its);
            for (weight, score) in weights.iter_mut().zip(scores) {
                *weight += score;
            }
        }
        weights
    }

    /// The score cards of the hosts at these places, in their order.
    #[must_use]
    pub fn cards(&self, places: impl IntoIterator<Item = usize>) -> Vec<Card> {
        let columns = self.columns.iter().filter(|_| self.is_weighed());
        let scaled: Vec<_> = columns.map(|column| (column, column.scale())).collect();
        let card = |place| {
            let scores = scaled.iter();
            let scores = scores.filter_map(|(column, scale)| column.score(*scale, place));
            let scores: Vec<Score> = scores.collect();
            Card {
                weight: scores.iter().fold(0.0, |sum, one| sum + one.score),
                scores,
            }
        };
        places.into_iter().map(card).collect()
    }

    /// A host that is alone is not weighed where the list is the scale.
    fn is_weighed(&self) -> bool {
        match self.normalization {
            Normalization::Upstream | Normalization::ListMin => self.hosts > 1,
            Normalization::Fixed | Normalization::Percent => self.hosts > 0,
        }
    }

    /// Only where weights are brought to one scale as Nova does are a weigher's bounds ends of it.
    fn bounds(&self, own: Bounds) -> Bounds {
        match self.normalization {
            Normalization::Upstream => own,
            _ => Bounds::default(),
        }
    }
}

impl Column {
    fn scale(&self) -> Scale {
        match self.own.is_empty() {
            true => Scale::new(&self.raw, self.bounds),
            false => Scale::Line(0.0, 1.0),
        }
    }

    /// Of the host at a place, on the column's scale.
    fn score(&self, scale: Scale, place: usize) -> Option<Score> {
        let norm = scale.at(*self.on_scale().get(place)?);
        let multiplier = *self.multiplier.get(place)?;
        Some(Score {
            weigher: self.weigher,
            raw: *self.raw.get(place)?,
            norm,
            multiplier,
            score: norm * multiplier,
        })
    }

    /// What the scale is laid on.
    fn on_scale(&self) -> &[f64] {
        match self.own.is_empty() {
            true => &self.raw,
            false => &self.own,
        }
    }
}

/// What is read once for all hosts.
struct Rows<'a> {
    weighers: &'a Weighers,
    weighings: Vec<Weighing<'a>>,
    configured: Vec<f64>,
    /// Of the host that was weighed last, by weigher.
    row: Vec<Weighed>,
}

struct Weighed {
    raw: f64,
    multiplier: f64,
}

impl<'a> Rows<'a> {
    fn new(weighers: &'a Weighers, request: &'a RequestSpec, options: &'a Options) -> Self {
        let plans = weighers
            .weighers
            .iter()
            .map(|one| one.plan(request, options));
        let configured = weighers
            .multipliers
            .iter()
            .map(|one| one.configured(options));
        Self {
            weighers,
            weighings: plans.collect(),
            configured: configured.collect(),
            row: Vec::new(),
        }
    }

    fn weigh(&mut self, place: usize, host: &HostState) -> Result<(), Unweighable> {
        let overridden = overridden(&self.weighers.multipliers, &host.aggregates);
        self.row.clear();
        for (at, (weighing, configured)) in self.weighings.iter().zip(&self.configured).enumerate()
        {
            let its = overridden.iter().find(|(weigher, _)| *weigher == at);
            let multiplier = its.map_or(*configured, |(_, its)| *its);
            let raw = match &weighing.raw {
                Raw::Same(raw) => Ok(*raw),
                Raw::Each(raw) => raw(host, multiplier),
            };
            let raw = raw.map_err(|why| Unweighable {
                place,
                weigher: self.weighers.weighers[at].name(),
                why,
            })?;
            self.row.push(Weighed { raw, multiplier });
        }
        Ok(())
    }
}

/// At its place, which is the end or before.
fn put(values: &mut Vec<f64>, place: usize, value: f64) {
    match values.get_mut(place) {
        Some(old) => *old = value,
        None => values.push(value),
    }
}

/// The place of the first of the most.
fn best(weights: &[f64]) -> Option<usize> {
    let mut best: Option<(usize, f64)> = None;
    for (place, weight) in weights.iter().copied().enumerate() {
        if best.is_none_or(|(_, most)| weight > most || (most.is_nan() && !weight.is_nan())) {
            best = Some((place, weight));
        }
    }
    best.map(|(place, _)| place)
}

#[cfg(test)]
mod tests;
