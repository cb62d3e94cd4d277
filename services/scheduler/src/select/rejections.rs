//! Rejected hosts, counted by filter and reason, with the values of the first few of each kind.
//!
//! The size is bounded by the number of filters, the kinds of reasons, and [`NAMED`].

use std::mem::{Discriminant, discriminant};
use std::sync::Arc;

use crate::host_state::HostState;
use crate::reason::Reason;

/// The number of rejected hosts of one filter and one reason code that are listed by name.
pub const NAMED: usize = 5;

/// Rejected hosts, by filter and reason.
#[derive(Debug, Clone, Default)]
pub struct Rejections {
    kinds: Vec<RejectedHosts>,
    /// The place of the kind that came last: hosts come by filter, and those of one filter mostly for one reason.
    last: usize,
}

/// Hosts that one filter rejected for one kind of reason.
#[derive(Debug, Clone)]
pub struct RejectedHosts {
    /// The filter that was the first to reject them, or the weigher that cannot weigh them.
    pub filter: &'static str,
    pub hosts: usize,
    /// The first of them, at most [`NAMED`].
    pub named: Vec<RejectedHost>,
    kind: Discriminant<Reason>,
}

/// A host that is out.
#[derive(Debug, Clone)]
pub struct RejectedHost {
    /// As it was then.
    pub host: Arc<HostState>,
    /// With the values that were compared.
    pub reason: Reason,
}

impl Rejections {
    /// By filter and kind of reason, in the order in which the first of each came.
    #[must_use]
    pub fn kinds(&self) -> &[RejectedHosts] {
        &self.kinds
    }

    /// How many hosts in all.
    #[must_use]
    pub fn hosts(&self) -> usize {
        self.kinds.iter().map(|one| one.hosts).sum()
    }

    /// The hosts that are named.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &RejectedHost)> {
        let kinds = self.kinds.iter();
        kinds.flat_map(|kind| kind.named.iter().map(|one| (kind.filter, one)))
    }

    pub fn count(&mut self, filter: &'static str, host: &Arc<HostState>, reason: Reason) {
        let kind = discriminant(&reason);
        let is_it = |it: &RejectedHosts| it.kind == kind && it.filter == filter;
        if !self.kinds.get(self.last).is_some_and(is_it) {
            let found = self.kinds.iter().position(is_it);
            self.last = found.unwrap_or(self.kinds.len());
        }
        if self.last == self.kinds.len() {
            self.kinds.push(RejectedHosts {
                filter,
                hosts: 0,
                named: Vec::new(),
                kind,
            });
        }
        let Some(kind) = self.kinds.get_mut(self.last) else {
            return;
        };
        kind.hosts += 1;
        if kind.named.len() < NAMED {
            let host = Arc::clone(host);
            kind.named.push(RejectedHost { host, reason });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use berth_scheduler_objects::testing::hosts;

    #[test]
    fn hosts_are_counted_by_filter_and_reason_and_the_first_are_named() {
        let full = |num_instances| Reason::TooManyInstances {
            num_instances,
            max_instances_per_host: 1,
        };
        let mut out = Rejections::default();
        let all: Vec<_> = (0..8).map(|at| json!({"host": format!("h{at}")})).collect();
        let all = hosts(&json!(all));
        let cycle = all.iter().cycle();
        for (at, host) in (0..100_000).zip(cycle) {
            let (filter, reason) = match at % 4 {
                0 => ("ComputeFilter", Reason::ServiceForcedDown),
                1 => ("NumInstancesFilter", full(at)),
                2 => ("AggregateNumInstancesFilter", full(at)),
                _ => (
                    "ComputeFilter",
                    Reason::ServiceDisabled {
                        disabled_reason: None,
                    },
                ),
            };
            out.count(filter, &host.state, reason);
        }
        assert_eq!(out.hosts(), 100_000);
        let reported = out
            .kinds()
            .iter()
            .map(|it| (it.filter, it.hosts, it.named.len()));
        let expected = [
            ("ComputeFilter", 25_000, NAMED),
            ("NumInstancesFilter", 25_000, NAMED),
            ("AggregateNumInstancesFilter", 25_000, NAMED),
            ("ComputeFilter", 25_000, NAMED),
        ];
        assert_eq!(reported.collect::<Vec<_>>(), expected);
        let second = &out.kinds()[1].named[1];
        assert_eq!(
            (second.host.host.as_str(), &second.reason),
            ("h5", &full(5))
        );
    }
}
