//! The chain of enabled filters, in order.

mod plan_runner;
mod shares;

use std::mem;
use std::num::NonZero;
use std::thread;

use plan_runner::PlanRunner;
pub use shares::in_shares;

use super::{ALL, Filter, FilterPlan, named};
use crate::custom_plugins::CustomPlugins;
use crate::host_state::ConsideredHost;
use crate::options::SchedulerOptions;
use crate::reason::Reason;
use crate::request::RequestSpec;
use berth_model::nearest_name;

/// All filters, as an available one.
const ALL_FILTERS: &str = "nova.scheduler.filters.all_filters";

/// `enabled_filters` or `available_filters` is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    #[error(
        "[filter_scheduler] {option}: there is no filter {name}; {}",
        near.map_or_else(|| all_filters(own), |near| format!("did you mean {near}?"))
    )]
    Unknown {
        /// The option with the unknown name: `enabled_filters` or `available_filters`.
        option: &'static str,
        name: String,
        /// The names of custom filters.
        own: Vec<&'static str>,
        near: Option<&'static str>,
    },
    /// A known filter that is not available.
    #[error(
        "[filter_scheduler] enabled_filters: {name} is not among available_filters, which are {available}; \
         add it there, or `{ALL_FILTERS}` for all"
    )]
    Unavailable {
        name: String,
        /// The names of the available filters.
        available: String,
    },
}

fn all_filters(own: &[&'static str]) -> String {
    let own = own.iter().map(|one| format!(", {one}"));
    format!("there are {}{}", names(ALL), own.collect::<String>())
}

fn names(filters: &[&dyn Filter]) -> String {
    let names: Vec<&str> = filters.iter().map(|one| one.name()).collect();
    names.join(", ")
}

/// The filters in the order in which they run.
pub struct Chain {
    filters: Vec<&'static dyn Filter>,
    /// The number of threads for long lists of hosts.
    threads: NonZero<usize>,
}

/// The result of one filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterCounts {
    pub filter: &'static str,
    /// The number of hosts before it.
    pub before: usize,
    /// The number of hosts after it.
    pub after: usize,
}

/// A host that is out.
#[derive(Debug, Clone)]
pub struct RejectedCandidateHost {
    pub host: ConsideredHost,
    /// The first filter that rejected it.
    pub filter: &'static str,
    pub reason: Reason,
}

/// The position of an instance within a request for several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstancePosition {
    /// The first one, or the only one.
    First,
    /// A later one: filters whose verdict a claim cannot change do not run again.
    Later,
}

impl Chain {
    /// The filters that the options enable.
    pub fn new(options: &SchedulerOptions) -> Result<Self, ChainError> {
        Self::with_custom_plugins(options, &CustomPlugins::new())
    }

    /// Like [`Chain::new`]; options may also name custom filters.
    pub fn with_custom_plugins(
        options: &SchedulerOptions,
        own: &CustomPlugins,
    ) -> Result<Self, ChainError> {
        let options = &options.filter_scheduler;
        let available = available(&options.available_filters, own)?;
        let filters = options.enabled_filters.iter().map(|name| {
            let filter = known("enabled_filters", name, own)?;
            match available.iter().any(|it| it.name() == filter.name()) {
                true => Ok(filter),
                false => Err(ChainError::Unavailable {
                    name: name.clone(),
                    available: match available.is_empty() {
                        true => "none".to_owned(),
                        false => names(&available),
                    },
                }),
            }
        });
        Ok(Self {
            filters: filters.collect::<Result<_, _>>()?,
            threads: thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN),
        })
    }

    /// Their names, in their order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.filters.iter().map(|one| one.name())
    }

    /// Limits the number of threads; the default is the number of processors. The result does not depend on it.
    #[must_use]
    pub fn with_threads(self, threads: NonZero<usize>) -> Self {
        Self { threads, ..self }
    }

    pub fn threads(&self) -> NonZero<usize> {
        self.threads
    }

    /// The prepared filters, without duplicates, for running them individually.
    pub fn plans<'a>(
        &self,
        request: &'a RequestSpec,
        options: &'a SchedulerOptions,
    ) -> Vec<(&'static str, FilterPlan<'a>)> {
        let is_rebuild = request.hints.is_rebuild();
        let mut plans: Vec<(&'static str, FilterPlan<'a>)> = Vec::new();
        for filter in &self.filters {
            if plans.iter().all(|(name, _)| *name != filter.name()) {
                let plan = plan(*filter, is_rebuild, request, options);
                plans.push((filter.name(), plan));
            }
        }
        plans
    }

    /// Runs the filters until no host is left. Removes rejected hosts from `hosts`; the order is kept.
    pub fn filter(
        &self,
        hosts: &mut Vec<ConsideredHost>,
        request: &RequestSpec,
        options: &SchedulerOptions,
        turn: InstancePosition,
        mut on_rejected: impl FnMut(RejectedCandidateHost),
    ) -> Vec<FilterCounts> {
        let is_rebuild = request.hints.is_rebuild();
        let asked = self.filters.iter().copied();
        let plans: Vec<_> = asked
            .filter(|it| turn == InstancePosition::First || !it.runs().once_per_request)
            .map(|it| (it, plan(it, is_rebuild, request, options)))
            .collect();
        let rejections = self.first_rejections(&plans, hosts);
        let passed = passed(&plans, hosts.len(), &rejections);
        for (filter, host, reason) in take_out(hosts, rejections) {
            on_rejected(RejectedCandidateHost {
                host,
                filter: plans[filter].0.name(),
                reason,
            });
        }
        passed
    }

    /// Runs the filters for a later instance on the hosts that passed for the previous one. Only the host at `changed`
    /// has changed, so only it is checked again, except by filters that depend on the server group.
    pub fn filter_again(
        &self,
        hosts: &mut [ConsideredHost],
        changed: usize,
        request: &RequestSpec,
        options: &SchedulerOptions,
    ) -> (Vec<FilterCounts>, Vec<Out>) {
        let mut passed = Vec::new();
        let mut out: Vec<Out> = Vec::new();
        let mut is_out = vec![false; hosts.len()];
        let is_rebuild = request.hints.is_rebuild();
        let later = self.filters.iter().filter(|it| !it.runs().once_per_request);
        for filter in later {
            let before = hosts.len() - out.len();
            let plan = plan(*filter, is_rebuild, request, options);
            let (from, asked) = match filter.sees_group() {
                true => (0, &mut *hosts),
                false => (
                    changed,
                    hosts.get_mut(changed..=changed).unwrap_or_default(),
                ),
            };
            let rejections = in_shares(self.threads, asked, || {
                |host: &mut _| plan.check(host).err()
            });
            for (place, reason) in rejections {
                let place = from + place;
                if mem::replace(&mut is_out[place], true) {
                    continue;
                }
                let filter = filter.name();
                out.push(Out {
                    place,
                    filter,
                    reason,
                });
            }
            passed.push(FilterCounts {
                filter: filter.name(),
                before,
                after: hosts.len() - out.len(),
            });
            if out.len() == hosts.len() {
                break;
            }
        }
        (passed, out)
    }

    /// Runs all filters on one host before the next host, which is good for the cache. The result is the same, because
    /// a filter never sees a host that an earlier one rejected.
    fn first_rejections(
        &self,
        plans: &[(&'static dyn Filter, FilterPlan<'_>)],
        hosts: &mut [ConsideredHost],
    ) -> Vec<FilterRejection> {
        in_shares(self.threads, hosts, || {
            let mut looking = PlanRunner::new(plans.iter().map(|(_, plan)| plan));
            move |host: &mut ConsideredHost| looking.first_rejection(host)
        })
    }
}

/// A host that is out, by its place in the list.
#[derive(Debug, Clone, PartialEq)]
pub struct Out {
    pub place: usize,
    /// The first filter that rejected it.
    pub filter: &'static str,
    pub reason: Reason,
}

/// Prepares a filter. Filters that ignore rebuilds accept every host for a rebuild.
fn plan<'a>(
    filter: &'static dyn Filter,
    is_rebuild: bool,
    request: &'a RequestSpec,
    options: &'a SchedulerOptions,
) -> FilterPlan<'a> {
    match is_rebuild && !filter.runs().on_rebuild {
        true => FilterPlan::PassAll,
        false => filter.plan(request, options),
    }
}

/// The available filters: those that the option names, and all custom ones.
fn available(
    texts: &[String],
    own: &CustomPlugins,
) -> Result<Vec<&'static dyn Filter>, ChainError> {
    let mut available = own.filters.clone();
    for text in texts {
        match text == ALL_FILTERS {
            true => available.extend(ALL),
            false => available.push(known("available_filters", text, own)?),
        }
    }
    Ok(available)
}

fn known(
    option: &'static str,
    name: &str,
    own: &CustomPlugins,
) -> Result<&'static dyn Filter, ChainError> {
    let unknown = || ChainError::Unknown {
        option,
        name: name.to_owned(),
        own: own.filters.iter().map(|one| one.name()).collect(),
        near: nearest_name(
            name,
            ALL.iter()
                .map(|one| one.name())
                .chain(own.filters.iter().map(|one| one.name())),
        ),
    };
    let known = named(name).or_else(|| own.filter(name));
    known.ok_or_else(unknown)
}

/// A host's index, the index of the first filter that rejects it, and the reason.
type FilterRejection = (usize, (usize, Reason));

/// The result of each filter, up to the one that left no host.
fn passed(
    plans: &[(&'static dyn Filter, FilterPlan<'_>)],
    hosts: usize,
    rejections: &[FilterRejection],
) -> Vec<FilterCounts> {
    let mut rejected = vec![0; plans.len()];
    for (_, (filter, _)) in rejections {
        rejected[*filter] += 1;
    }
    let mut passed: Vec<FilterCounts> = Vec::with_capacity(plans.len());
    for ((filter, _), rejected) in plans.iter().zip(rejected) {
        let before = passed.last().map_or(hosts, |last| last.after);
        passed.push(FilterCounts {
            filter: filter.name(),
            before,
            after: before - rejected,
        });
        if before == rejected {
            break;
        }
    }
    passed
}

/// Takes rejected hosts from the list: by filter, and in their order.
fn take_out(
    hosts: &mut Vec<ConsideredHost>,
    rejections: Vec<FilterRejection>,
) -> Vec<(usize, ConsideredHost, Reason)> {
    if rejections.is_empty() {
        return Vec::new();
    }
    let mut out = Vec::with_capacity(rejections.len());
    let mut kept = Vec::with_capacity(hosts.len() - rejections.len());
    let mut rejections = rejections.into_iter().peekable();
    for (place, host) in hosts.drain(..).enumerate() {
        match rejections.next_if(|(rejected, _)| *rejected == place) {
            Some((_, (filter, reason))) => out.push((filter, host, reason)),
            None => kept.push(host),
        }
    }
    *hosts = kept;
    out.sort_by_key(|(filter, _, _)| *filter);
    out
}

#[cfg(test)]
mod tests;
