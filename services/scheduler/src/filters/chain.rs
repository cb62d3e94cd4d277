//! The enabled filters, in their order.

use std::num::NonZero;
use std::thread;

use super::{ALL, Filter, Plan, named};
use crate::host_state::ConsideredHost;
use crate::options::Options;
use crate::reason::Reason;
use crate::request::RequestSpec;

/// Fewer hosts than this are not worth a thread.
const HOSTS_PER_THREAD: usize = 2_048;

/// All filters, as an available one.
const ALL_FILTERS: &str = "nova.scheduler.filters.all_filters";

/// `enabled_filters` are not all to be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// There is no such filter.
    #[error(
        "[filter_scheduler] {option}: there is no filter {name}; there are {}",
        names(ALL)
    )]
    Unknown {
        /// `enabled_filters` or `available_filters`
        option: &'static str,
        /// As it was written.
        name: String,
    },
    /// There is, but it may not be enabled.
    #[error(
        "[filter_scheduler] enabled_filters: {name} is not among available_filters, which are {available}; \
         add it there, or `{ALL_FILTERS}` for all"
    )]
    Unavailable {
        /// As it was written.
        name: String,
        /// The names of those that may.
        available: String,
    },
}

fn names(filters: &[&dyn Filter]) -> String {
    let names: Vec<&str> = filters.iter().map(|one| one.name()).collect();
    names.join(", ")
}

/// Filters in the order in which they are asked.
pub struct Chain {
    filters: Vec<&'static dyn Filter>,
}

/// What one filter did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passed {
    /// The filter.
    pub filter: String,
    /// Hosts that it was asked about.
    pub before: usize,
    /// Hosts that it let pass.
    pub after: usize,
}

/// A host that is out.
#[derive(Debug, Clone)]
pub struct Rejected {
    /// The host.
    pub host: ConsideredHost,
    /// The filter that was the first to reject it.
    pub filter: String,
    /// Why.
    pub reason: Reason,
}

/// Which instance of a request is placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// The first one, or the only one.
    First,
    /// One of the others: filters that look at nothing a claim changes are not asked again.
    Later,
}

impl Chain {
    /// The filters that the options enable.
    ///
    /// # Errors
    /// One of them is not there, or not among those that may be enabled.
    pub fn new(options: &Options) -> Result<Self, ChainError> {
        let options = &options.filter_scheduler;
        let available = available(&options.available_filters)?;
        let filters = options.enabled_filters.iter().map(|name| {
            let filter = known("enabled_filters", name)?;
            match available.iter().any(|it| it.name() == filter.name()) {
                true => Ok(filter),
                false => Err(ChainError::Unavailable {
                    name: name.clone(),
                    available: names(&available),
                }),
            }
        });
        Ok(Self {
            filters: filters.collect::<Result<_, _>>()?,
        })
    }

    /// Asks each filter about the hosts that all before it let pass, until none is left. Takes the hosts that are out from `hosts`,
    /// which keep their order.
    pub fn filter(
        &self,
        hosts: &mut Vec<ConsideredHost>,
        request: &RequestSpec,
        options: &Options,
        turn: Turn,
        mut on_rejected: impl FnMut(Rejected),
    ) -> Vec<Passed> {
        let mut passed = Vec::new();
        let is_rebuild = request.hints.is_rebuild();
        for filter in &self.filters {
            let runs = filter.runs();
            if runs.once_per_request && turn == Turn::Later {
                continue;
            }
            let before = hosts.len();
            let plan = plan(*filter, is_rebuild, request, options);
            let reasons = ask(&plan, hosts);
            if reasons.iter().any(Option::is_some) {
                let mut reasons = reasons.into_iter();
                let mut kept = Vec::with_capacity(hosts.len());
                for host in hosts.drain(..) {
                    match reasons.next().flatten() {
                        None => kept.push(host),
                        Some(reason) => on_rejected(Rejected {
                            host,
                            filter: filter.name().to_owned(),
                            reason,
                        }),
                    }
                }
                *hosts = kept;
            }
            passed.push(Passed {
                filter: filter.name().to_owned(),
                before,
                after: hosts.len(),
            });
            if hosts.is_empty() {
                break;
            }
        }
        passed
    }

    /// Asks the filters again, for one of the later instances of a request, about hosts that passed for the one before. Since then
    /// only the host at `changed` took an instance, so only it is looked at, but for filters that look at the group.
    pub fn filter_again(
        &self,
        hosts: &mut [ConsideredHost],
        changed: usize,
        request: &RequestSpec,
        options: &Options,
    ) -> (Vec<Passed>, Vec<Out>) {
        let mut passed = Vec::new();
        let mut out: Vec<Out> = Vec::new();
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
            for (place, reason) in (from..).zip(ask(&plan, asked)) {
                let Some(reason) = reason else { continue };
                if out.iter().any(|it| it.place == place) {
                    continue;
                }
                let filter = filter.name();
                out.push(Out {
                    place,
                    filter,
                    reason,
                });
            }
            passed.push(Passed {
                filter: filter.name().to_owned(),
                before,
                after: hosts.len() - out.len(),
            });
            if out.len() == hosts.len() {
                break;
            }
        }
        (passed, out)
    }
}

/// A host that is out, by its place in the list.
#[derive(Debug, Clone, PartialEq)]
pub struct Out {
    /// Its place.
    pub place: usize,
    /// The filter that was the first to reject it.
    pub filter: &'static str,
    /// Why.
    pub reason: Reason,
}

/// What a filter makes of a request. One that does not look at rebuilds lets every host pass where an instance is rebuilt.
fn plan<'a>(
    filter: &'static dyn Filter,
    is_rebuild: bool,
    request: &'a RequestSpec,
    options: &'a Options,
) -> Plan<'a> {
    match is_rebuild && !filter.runs().on_rebuild {
        true => Plan::PassAll,
        false => filter.plan(request, options),
    }
}

/// The filters that may be enabled.
fn available(texts: &[String]) -> Result<Vec<&'static dyn Filter>, ChainError> {
    let mut available = Vec::new();
    for text in texts {
        match text == ALL_FILTERS {
            true => available.extend(ALL),
            false => available.push(known("available_filters", text)?),
        }
    }
    Ok(available)
}

fn known(option: &'static str, name: &str) -> Result<&'static dyn Filter, ChainError> {
    let unknown = || ChainError::Unknown {
        option,
        name: name.to_owned(),
    };
    named(name).ok_or_else(unknown)
}

/// Why each host is rejected, by its place; none for one that passes.
fn ask(plan: &Plan<'_>, hosts: &mut [ConsideredHost]) -> Vec<Option<Reason>> {
    let check = match plan {
        Plan::PassAll => return Vec::new(),
        Plan::RejectAll(reason) => return vec![Some(reason.clone()); hosts.len()],
        Plan::Each(check) => check.as_ref(),
    };
    let one_by_one = |hosts: &mut [ConsideredHost]| -> Vec<Option<Reason>> {
        hosts
            .iter_mut()
            .map(|host| check.check(host).err())
            .collect()
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let share = hosts.len().div_ceil(threads).max(HOSTS_PER_THREAD);
    if share >= hosts.len() {
        return one_by_one(hosts);
    }
    thread::scope(|scope| {
        let shares: Vec<_> = hosts
            .chunks_mut(share)
            .map(|hosts| scope.spawn(|| one_by_one(hosts)))
            .collect();
        let ended = shares.into_iter().map(|share| match share.join() {
            Ok(reasons) => reasons,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ended.flatten().collect()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::replay::testing;

    fn options(enabled: &[&str], available: &[&str]) -> Options {
        let own = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect();
        let mut options = Options::default();
        options.filter_scheduler.enabled_filters = own(enabled);
        options.filter_scheduler.available_filters = own(available);
        options
    }

    /// The filter and the host of each rejection, and what each filter did.
    fn filtered(
        options: &Options,
        request: &serde_json::Value,
        turn: Turn,
    ) -> (Vec<(String, String)>, Vec<Passed>) {
        let mut hosts = testing::hosts(&json!([
            {"host": "a", "num_instances": 99},
            {"host": "b", "service": {"disabled": true}},
            {"host": "c"},
        ]));
        let request = testing::request(request);
        let chain = Chain::new(options).expect("all are there");
        let mut out = Vec::new();
        let passed = chain.filter(&mut hosts, &request, options, turn, |one| {
            out.push((one.filter, one.host.state.host.clone()));
        });
        (out, passed)
    }

    fn passed(filter: &str, before: usize, after: usize) -> Passed {
        Passed {
            filter: filter.to_owned(),
            before,
            after,
        }
    }

    #[test]
    fn a_filter_is_asked_about_hosts_that_passed_before() {
        let options = options(
            &["ComputeFilter", "NumInstancesFilter", "AllHostsFilter"],
            &[ALL_FILTERS],
        );
        let pair = |filter: &str, host: &str| (filter.to_owned(), host.to_owned());
        let (out, did) = filtered(&options, &json!({}), Turn::First);
        let expected = [pair("ComputeFilter", "b"), pair("NumInstancesFilter", "a")];
        assert_eq!(out, expected);
        let expected = [
            passed("ComputeFilter", 3, 2),
            passed("NumInstancesFilter", 2, 1),
            passed("AllHostsFilter", 1, 1),
        ];
        assert_eq!(did, expected);
    }

    #[test]
    fn a_later_instance_is_not_looked_at_by_what_no_claim_changes() {
        let options = options(&["ComputeFilter", "NumInstancesFilter"], &[ALL_FILTERS]);
        let (_, did) = filtered(&options, &json!({}), Turn::Later);
        assert_eq!(did, [passed("NumInstancesFilter", 3, 2)]);
    }

    #[test]
    fn no_filter_is_asked_after_the_last_host_is_out() {
        let enabled = ["JsonFilter", "AllHostsFilter"];
        let query = json!({"hints": {"query": "[\"=\", 1, 2]"}});
        let (out, did) = filtered(&options(&enabled, &[ALL_FILTERS]), &query, Turn::First);
        assert_eq!((out.len(), did), (3, vec![passed("JsonFilter", 3, 0)]));
    }

    #[test]
    fn a_rebuild_is_only_looked_at_for_its_image() {
        let enabled = [
            "ComputeFilter",
            "NumInstancesFilter",
            "ImagePropertiesFilter",
        ];
        let request = json!({"hints": {"_nova_check_type": ["rebuild"]},
            "image": {"properties": {"architecture": "x86_64"}}});
        let (_, did) = filtered(&options(&enabled, &[ALL_FILTERS]), &request, Turn::First);
        let expected = [
            passed("ComputeFilter", 3, 3),
            passed("NumInstancesFilter", 3, 3),
            passed("ImagePropertiesFilter", 3, 0),
        ];
        assert_eq!(did, expected);
    }

    #[test]
    fn what_is_enabled_must_be_available() {
        let ram = "nova.scheduler.filters.ram_filter.RamFilter";
        for (enabled, available, wrong) in [
            ("RamFilter", ram, None),
            (ram, "RamFilter", None),
            (ram, ALL_FILTERS, None),
            (
                "DiskFilter",
                ram,
                Some(
                    "enabled_filters: DiskFilter is not among available_filters, which are RamFilter; ",
                ),
            ),
            (
                "NoFilter",
                ALL_FILTERS,
                Some("enabled_filters: there is no filter NoFilter; there are "),
            ),
            (
                "RamFilter",
                "mine.Filter",
                Some("available_filters: there is no filter mine.Filter; there are "),
            ),
        ] {
            let error = Chain::new(&options(&[enabled], &[available])).err();
            let sentence = error.map(|it| it.to_string());
            assert_eq!(
                sentence.is_some(),
                wrong.is_some(),
                "{enabled}: {sentence:?}"
            );
            let wrong = wrong.map_or_else(String::new, |it| format!("[filter_scheduler] {it}"));
            assert!(sentence.unwrap_or_default().starts_with(&wrong));
        }
    }
}
