//! How hosts fared for one instance, as it is kept.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{Told, number};
use crate::host_state::HostState;
use crate::select::{LeftOut, RejectedHosts, Turnout};
use crate::weighers::Card;

/// So many kinds of rejections are told: filters times reasons.
const KINDS: usize = 64;

/// How hosts fared for one instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Search {
    pub instance_uuid: String,
    /// Hosts that there were: all with a candidate for the first instance, those that are left for a later one.
    pub hosts: usize,
    /// Those of them that the request's destination left.
    pub at_destination: usize,
    /// Those that the request leaves out by name.
    #[serde(default, skip_serializing_if = "LeftOut::is_empty")]
    pub left_out: LeftOut,
    /// What each filter that was asked let pass, in their order; none where a host is forced.
    pub filters: Vec<FilterPassed>,
    /// Hosts that are out, by filter and reason.
    pub rejected: Vec<RejectedBy>,
    /// Hosts that are left.
    pub left: usize,
    /// The best of them, the best first; ten at most, and none from the fourth instance on.
    pub best: Vec<Scored>,
    pub pivotal: Vec<Pivotal>,
    pub claims: Claims,
    /// Why NUMA cells or devices are not counted on the chosen host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_counted: Option<Told>,
}

/// What one filter did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilterPassed {
    pub filter: Cow<'static, str>,
    /// Hosts that it was asked about.
    pub before: usize,
    /// Hosts that it let pass.
    pub after: usize,
}

/// Hosts that one filter rejected for one kind of reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RejectedBy {
    /// The filter that was the first to reject them, or the weigher that cannot weigh them.
    pub filter: Cow<'static, str>,
    pub code: String,
    pub hosts: usize,
    /// The first of them; five at most.
    pub named: Vec<RejectedName>,
}

/// A host that is out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RejectedName {
    pub host: String,
    pub node: String,
    pub reason: Told,
}

/// A host and its score card.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scored {
    pub host: String,
    pub node: String,
    /// The sum of the scores.
    #[serde(with = "number")]
    pub weight: f64,
    /// Of each weigher; none for a host that is alone and so was not weighed.
    pub scores: Vec<WeigherScore>,
}

/// What one weigher says of a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WeigherScore {
    pub weigher: Cow<'static, str>,
    /// In its own unit.
    #[serde(with = "number")]
    pub raw: f64,
    /// On the common scale.
    #[serde(with = "number")]
    pub norm: f64,
    /// The option, or what the host's aggregates say instead.
    #[serde(with = "number")]
    pub multiplier: f64,
    /// What it adds to the weight: `norm` times `multiplier`.
    #[serde(with = "number")]
    pub score: f64,
}

/// A weigher without which another host would be the best.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pivotal {
    pub weigher: Cow<'static, str>,
    /// The host that would be.
    pub host: String,
}

/// What was claimed for one instance.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Claims {
    /// In their order: the first twenty, and the one that was granted.
    pub tried: Vec<Claim>,
    /// Others, which were refused.
    pub more: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub host: String,
    /// The candidate, by its place among the host's.
    pub candidate: usize,
    /// Whether Placement granted it.
    pub granted: bool,
}

impl Search {
    pub(super) fn of(turn: &Turnout) -> Self {
        let filters = turn.passed.iter().map(|one| FilterPassed {
            filter: one.filter.into(),
            before: one.before,
            after: one.after,
        });
        let tried = turn.tried.iter().map(|one| Claim {
            host: one.host.host.clone(),
            candidate: one.candidate,
            granted: one.is_granted,
        });
        let kinds = turn.rejected.kinds().iter().take(KINDS);
        let pivotal = turn.pivotal.iter().map(|(weigher, host)| Pivotal {
            weigher: (*weigher).into(),
            host: host.host.clone(),
        });
        Self {
            instance_uuid: turn.instance_uuid.clone(),
            hosts: turn.hosts,
            at_destination: turn.at_destination,
            left_out: turn.left_out.clone(),
            filters: filters.collect(),
            rejected: kinds.map(RejectedBy::of).collect(),
            left: turn.left,
            best: turn
                .cards
                .iter()
                .map(|(host, card)| Scored::of(host, card))
                .collect(),
            pivotal: pivotal.collect(),
            claims: Claims {
                tried: tried.collect(),
                more: turn.more_tried,
            },
            not_counted: turn.not_counted.as_ref().map(Told::of),
        }
    }
}

impl RejectedBy {
    fn of(kind: &RejectedHosts) -> Self {
        let named = kind.named.iter().map(|one| RejectedName {
            host: one.host.host.clone(),
            node: one.host.nodename.clone(),
            reason: Told::of(&one.reason),
        });
        let named: Vec<RejectedName> = named.collect();
        let code = named.first().map(|first| first.reason.code.clone());
        Self {
            filter: kind.filter.into(),
            code: code.unwrap_or_default(),
            hosts: kind.hosts,
            named,
        }
    }
}

impl Scored {
    fn of(host: &HostState, card: &Card) -> Self {
        let scores = card.scores.iter().map(|one| WeigherScore {
            weigher: one.weigher.into(),
            raw: one.raw,
            norm: one.norm,
            multiplier: one.multiplier,
            score: one.score,
        });
        Self {
            host: host.host.clone(),
            node: host.nodename.clone(),
            weight: card.weight,
            scores: scores.collect(),
        }
    }
}
