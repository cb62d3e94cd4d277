//! The recorded search for one instance.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{RecordedReason, number};
use berth_scheduler::select::{LeftOut, RejectedHosts, Turnout};
use berth_scheduler::weighers::ScoreCard;
use berth_scheduler_objects::host_state::HostState;

/// The maximum number of recorded kinds of rejections (filter and reason).
const KINDS: usize = 64;

/// How hosts fared for one instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchRecord {
    pub instance_uuid: String,
    /// The number of hosts: all with a candidate for the first instance, the remaining ones for later instances.
    pub hosts: usize,
    /// Hosts that match the destination.
    pub at_destination: usize,
    /// Hosts that the request excludes by name.
    #[serde(default, skip_serializing_if = "LeftOut::is_empty")]
    pub left_out: LeftOut,
    /// The hosts that each filter let pass, in order; empty if a host is forced.
    pub filters: Vec<FilterPassed>,
    /// Hosts that are out, by filter and reason.
    pub rejected: Vec<RejectedBy>,
    /// Hosts that are left.
    pub left: usize,
    /// The best of them, the best first; ten at most, and none from the fourth instance on.
    pub best: Vec<ScoredHost>,
    pub pivotal: Vec<Pivotal>,
    pub claims: Claims,
    /// Why NUMA cells or devices are not counted on the chosen host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_counted: Option<RecordedReason>,
}

/// The result of one filter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilterPassed {
    pub filter: Cow<'static, str>,
    /// The number of hosts before it.
    pub before: usize,
    /// The number of hosts after it.
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
    pub reason: RecordedReason,
}

/// A host and its score card.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScoredHost {
    pub host: String,
    pub node: String,
    /// The sum of the scores.
    #[serde(with = "number")]
    pub weight: f64,
    /// The score of each weigher; empty for a single host, which is not weighed.
    pub scores: Vec<WeigherScore>,
}

/// One weigher's score of a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WeigherScore {
    pub weigher: Cow<'static, str>,
    /// The raw value in the weigher's own unit.
    #[serde(with = "number")]
    pub raw: f64,
    /// On the common scale.
    #[serde(with = "number")]
    pub norm: f64,
    /// The multiplier from the options or the host's aggregates.
    #[serde(with = "number")]
    pub multiplier: f64,
    /// The contribution to the weight: `norm` times `multiplier`.
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

/// The claims for one instance.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Claims {
    /// In order: the first twenty, and the granted one.
    pub tried: Vec<RecordedClaim>,
    /// The number of further refused claims.
    pub more: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedClaim {
    pub host: String,
    /// The candidate, by its place among the host's.
    pub candidate: usize,
    /// Whether Placement granted it.
    pub granted: bool,
}

impl SearchRecord {
    pub(super) fn of(turn: &Turnout) -> Self {
        let filters = turn.passed.iter().map(|one| FilterPassed {
            filter: one.filter.into(),
            before: one.before,
            after: one.after,
        });
        let tried = turn.tried.iter().map(|one| RecordedClaim {
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
                .map(|(host, card)| ScoredHost::of(host, card))
                .collect(),
            pivotal: pivotal.collect(),
            claims: Claims {
                tried: tried.collect(),
                more: turn.more_tried,
            },
            not_counted: turn.not_counted.as_ref().map(RecordedReason::of),
        }
    }
}

impl RejectedBy {
    fn of(kind: &RejectedHosts) -> Self {
        let named = kind.named.iter().map(|one| RejectedName {
            host: one.host.host.clone(),
            node: one.host.nodename.clone(),
            reason: RecordedReason::of(&one.reason),
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

impl ScoredHost {
    fn of(host: &HostState, card: &ScoreCard) -> Self {
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
