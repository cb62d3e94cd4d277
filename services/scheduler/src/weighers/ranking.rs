//! The weights of a list of hosts, kept in a column for each weigher, so that one host that changes is weighed alone.

mod pivotal;
mod values;

use super::card::{Score, ScoreCard};
use super::multiplier::overridden;
use super::normalize::Scale;
use super::range::Range;
use super::{Bounds, MetricMissing, Raw, WeigherPlan, Weighers};
use crate::host_state::{Aggregates, ByAggregates, ConsideredHost, HostState};
use crate::options::{Normalization, SchedulerOptions};
use crate::request::RequestSpec;
use values::HostValues;

/// Weights of hosts, by their places.
#[derive(Debug, Clone)]
pub struct HostRanking {
    columns: Vec<Column>,
    hosts: usize,
    normalization: Normalization,
    range: Range,
}

/// A host that a weigher cannot weigh.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{weigher}: {why}")]
pub struct Unweighable {
    pub place: usize,
    pub weigher: &'static str,
    pub why: MetricMissing,
}

#[derive(Debug, Clone)]
struct Column {
    weigher: &'static str,
    bounds: Bounds,
    raw: HostValues,
    /// On a scale that is not the list's; none where the list is the scale.
    own: Option<HostValues>,
    multiplier: HostValues,
}

impl HostRanking {
    pub fn new(
        weighers: &Weighers,
        hosts: &[ConsideredHost],
        request: &RequestSpec,
        options: &SchedulerOptions,
    ) -> Result<Self, Vec<Unweighable>> {
        let mut ranking = Self {
            columns: Vec::new(),
            hosts: hosts.len(),
            normalization: options.filter_scheduler.weight_normalization,
            range: weighers.range,
        };
        if !ranking.is_weighed() {
            return Ok(ranking);
        }
        let mut rows = Rows::new(weighers, request, options);
        let columns = (0..weighers.weighers.len()).map(|at| ranking.column(&rows, at));
        ranking.columns = columns.collect();
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

    /// The column of one weigher, with the part that is equal for all hosts.
    fn column(&self, rows: &Rows<'_>, at: usize) -> Column {
        let (weigher, weighing) = (rows.weighers.weighers[at], &rows.weighings[at]);
        let bounds = self.bounds(weigher.bounds());
        let each = || HostValues::zeros(self.hosts);
        let own = match (self.normalization, &weighing.share, &weighing.raw) {
            (Normalization::Upstream | Normalization::ListMin, _, _) => None,
            (Normalization::Percent, Some(_), _) | (_, _, Raw::Each(_)) => Some(each()),
            (_, _, Raw::Same(raw)) => Some(HostValues::Same(self.range.keep(raw / weighing.unit))),
        };
        Column {
            weigher: weigher.name(),
            bounds,
            raw: match &weighing.raw {
                Raw::Same(raw) => HostValues::Same(bounds.clamp(self.range.keep(*raw))),
                Raw::Each(_) => each(),
            },
            own,
            multiplier: HostValues::Same(rows.configured[at]),
        }
    }

    /// Weighs one host again.
    pub fn again(
        &mut self,
        weighers: &Weighers,
        place: usize,
        host: &ConsideredHost,
        request: &RequestSpec,
        options: &SchedulerOptions,
    ) -> Result<(), Unweighable> {
        if self.columns.is_empty() {
            return Ok(());
        }
        let mut rows = Rows::new(weighers, request, options);
        rows.is_again = true;
        self.row(&mut rows, place, &host.state)
    }

    /// Writes one host's row: all of it or nothing.
    fn row(
        &mut self,
        rows: &mut Rows<'_>,
        place: usize,
        host: &HostState,
    ) -> Result<(), Unweighable> {
        let hosts = self.hosts;
        rows.weigh(place, host)?;
        if rows.is_again {
            for (column, configured) in self.columns.iter_mut().zip(&rows.configured) {
                column.multiplier.put(place, *configured, hosts);
            }
        }
        for (at, multiplier) in rows.overridden(host) {
            self.columns[*at].multiplier.put(place, *multiplier, hosts);
        }
        for (at, raw) in &rows.row {
            let column = &mut self.columns[*at];
            let weighing = &rows.weighings[*at];
            let raw = self.range.keep(*raw);
            column.raw.put(place, column.bounds.clamp(raw), hosts);
            let own = match (self.normalization, &weighing.share) {
                (Normalization::Upstream | Normalization::ListMin, _) => continue,
                (Normalization::Percent, Some(share)) => share(host),
                (Normalization::Percent | Normalization::Fixed, _) => raw / weighing.unit,
            };
            if let Some(values) = &mut column.own {
                values.put(place, self.range.keep(own), hosts);
            }
        }
        Ok(())
    }

    /// Forgets the hosts that are not kept; the others move up.
    pub fn retain(&mut self, is_kept: impl Fn(usize) -> bool) {
        for column in &mut self.columns {
            column.raw.retain(&is_kept);
            column.own.iter_mut().for_each(|own| own.retain(&is_kept));
            column.multiplier.retain(&is_kept);
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
            if !column.adds_nothing() {
                column.scored(&mut weights, |weight, score| *weight += score);
            }
        }
        weights
    }

    /// The score cards of the hosts at these places, in their order.
    #[must_use]
    pub fn cards(&self, places: impl IntoIterator<Item = usize>) -> Vec<ScoreCard> {
        let columns = self.columns.iter().filter(|_| self.is_weighed());
        let scaled: Vec<_> = columns.map(|column| (column, column.scale())).collect();
        let card = |place| {
            let scores = scaled.iter();
            let scores = scores.map(|(column, scale)| column.score(*scale, place));
            let scores: Vec<Score> = scores.collect();
            ScoreCard {
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
        match self.own {
            None => Scale::new(self.raw.as_slice(), self.bounds),
            Some(_) => Scale::Line(0.0, 1.0),
        }
    }

    /// Whether the score of every host is 0.
    fn adds_nothing(&self) -> bool {
        let is_finite = matches!(self.multiplier, HostValues::Same(it) if it.is_finite());
        is_finite && self.scale() == Scale::Flat
    }

    /// With the score of each host.
    fn scored<T>(&self, all: &mut [T], mut add: impl FnMut(&mut T, f64)) {
        let scale = self.scale();
        match (self.on_scale(), &self.multiplier) {
            (HostValues::Same(value), multipliers) => {
                let norm = scale.at(*value);
                for (place, one) in all.iter_mut().enumerate() {
                    add(one, norm * multipliers.at(place));
                }
            }
            (HostValues::Each(values), HostValues::Same(multiplier)) => {
                for (one, value) in all.iter_mut().zip(values) {
                    add(one, scale.at(*value) * multiplier);
                }
            }
            (HostValues::Each(values), HostValues::Each(multipliers)) => {
                for ((one, value), its) in all.iter_mut().zip(values).zip(multipliers) {
                    add(one, scale.at(*value) * its);
                }
            }
        }
    }

    /// The score of the host at an index, on the column's scale.
    fn score(&self, scale: Scale, place: usize) -> Score {
        let norm = scale.at(self.on_scale().at(place));
        let multiplier = self.multiplier.at(place);
        Score {
            weigher: self.weigher,
            raw: self.raw.at(place),
            norm,
            multiplier,
            score: norm * multiplier,
        }
    }

    /// What the scale is laid on.
    fn on_scale(&self) -> &HostValues {
        self.own.as_ref().unwrap_or(&self.raw)
    }
}

/// What is read once for all hosts.
struct Rows<'a> {
    weighers: &'a Weighers,
    weighings: Vec<WeigherPlan<'a>>,
    configured: Vec<f64>,
    /// The overrides of aggregates, by weigher.
    overridden: ByAggregates<Vec<(usize, f64)>>,
    /// The weighers that depend on the host.
    looking: Vec<usize>,
    /// A host that was weighed before is weighed.
    is_again: bool,
    /// Raw weights of the host that was weighed last, by those.
    row: Vec<(usize, f64)>,
}

impl<'a> Rows<'a> {
    fn new(
        weighers: &'a Weighers,
        request: &'a RequestSpec,
        options: &'a SchedulerOptions,
    ) -> Self {
        let plans = weighers.weighers.iter();
        let weighings: Vec<_> = plans.map(|one| one.plan(request, options)).collect();
        let by_percent = options.filter_scheduler.weight_normalization == Normalization::Percent;
        let is_considered = |it: &&usize| match &weighings[**it] {
            WeigherPlan {
                raw: Raw::Same(_),
                share,
                ..
            } => by_percent && share.is_some(),
            _ => true,
        };
        let all: Vec<usize> = (0..weighings.len()).collect();
        let multipliers = weighers.multipliers.iter();
        Self {
            looking: all.iter().filter(is_considered).copied().collect(),
            weighers,
            weighings,
            configured: multipliers
                .map(|one| weighers.range.keep(one.configured(options)))
                .collect(),
            overridden: ByAggregates::default(),
            is_again: false,
            row: Vec::new(),
        }
    }

    /// The overrides of a host's aggregates, by weigher.
    fn overridden(&mut self, host: &HostState) -> &[(usize, f64)] {
        let Weighers {
            multipliers, range, ..
        } = self.weighers;
        let make = |all: &Aggregates| overridden(multipliers, all, *range);
        self.overridden.get(&host.aggregates, make)
    }

    fn weigh(&mut self, place: usize, host: &HostState) -> Result<(), Unweighable> {
        let Weighers {
            multipliers, range, ..
        } = self.weighers;
        let make = |all: &Aggregates| overridden(multipliers, all, *range);
        let overridden = self.overridden.get(&host.aggregates, make);
        self.row.clear();
        for at in self.looking.iter().copied() {
            let its = overridden.iter().find(|(weigher, _)| *weigher == at);
            let multiplier = its.map_or(self.configured[at], |(_, its)| *its);
            let raw = match &self.weighings[at].raw {
                Raw::Same(raw) => Ok(*raw),
                Raw::Each(raw) => raw(host, multiplier),
            };
            let raw = raw.map_err(|why| Unweighable {
                place,
                weigher: self.weighers.weighers[at].name(),
                why,
            })?;
            self.row.push((at, raw));
        }
        Ok(())
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
