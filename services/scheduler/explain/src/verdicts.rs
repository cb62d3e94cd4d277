//! The verdict of every filter on one host.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use super::RecordedReason;
use berth_scheduler::filters::FilterPlan;
use berth_scheduler::select::{Scheduler, narrow};
use berth_scheduler_objects::host_state::ConsideredHost;
use berth_scheduler_objects::request::RequestSpec;
use berth_scheduler_objects::text::all_printable;

/// The verdict of every enabled filter on one host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostVerdicts {
    pub host: String,
    pub node: String,
    /// Whether it matches the request's destination, forced hosts and excluded hosts.
    pub at_destination: bool,
    /// Whether filters count: they do not on a host that is forced.
    pub is_filtered: bool,
    pub filters: Vec<HostVerdict>,
    /// The number of its allocation candidates.
    pub candidates: usize,
    /// The indices of the candidates that no filter removes.
    pub surviving_candidates: Vec<usize>,
}

/// The verdict of one filter on a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostVerdict {
    pub filter: String,
    /// Whether the request has something that the filter checks.
    #[serde(rename = "looks")]
    pub checks: bool,
    /// Why it rejects the host; `None` if it accepts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejects: Option<RecordedReason>,
}

impl HostVerdicts {
    /// Whether the host may take the instance.
    #[must_use]
    pub fn passes(&self) -> bool {
        let rejects = self.filters.iter().any(|one| one.rejects.is_some());
        self.at_destination && !(self.is_filtered && rejects)
    }
}

/// The verdict of every enabled filter on a host, including those after a rejection: they run as if the rejecting
/// filter were absent.
#[must_use]
pub fn verdicts(
    scheduler: &Scheduler,
    request: &RequestSpec,
    host: &ConsideredHost,
) -> HostVerdicts {
    let narrowed = narrow(vec![host.clone()], request);
    let mut considered = ConsideredHost::new(host.state.clone(), host.candidates.clone());
    let plans = scheduler
        .chain()
        .plans(request, scheduler.options())
        .into_iter();
    let filters = plans.map(|(filter, plan)| {
        let before = considered.surviving.clone();
        let rejects = plan.check(&mut considered).err();
        if rejects.is_some() {
            considered.surviving = before;
        }
        HostVerdict {
            filter: filter.to_owned(),
            checks: !matches!(plan, FilterPlan::PassAll),
            rejects: rejects.as_ref().map(RecordedReason::of),
        }
    });
    HostVerdicts {
        host: host.state.host.clone(),
        node: host.state.nodename.clone(),
        at_destination: !narrowed.hosts.is_empty(),
        is_filtered: narrowed.is_filtered,
        filters: filters.collect(),
        candidates: host.candidates.len(),
        surviving_candidates: considered.surviving().map(|(place, _)| place).collect(),
    }
}

/// One line per filter, without a trailing newline. User-supplied text stays on its line, without control characters.
impl Display for HostVerdicts {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match all_printable(self) {
            None => self.describe(f),
            Some(plain) => plain.describe(f),
        }
    }
}

impl HostVerdicts {
    fn describe(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let result = if self.passes() { "passes" } else { "is out" };
        write!(f, "{} {result}.", self.host)?;
        if !self.at_destination {
            write!(f, " It is not what the request is for.")?;
        } else if !self.is_filtered {
            write!(f, " It is forced, so no filter is applied.")?;
        }
        let width = self.filters.iter().map(|one| one.filter.len()).max();
        let width = width.unwrap_or(0);
        for one in &self.filters {
            let result = match (&one.rejects, one.checks) {
                (Some(reason), _) => reason.text.as_str(),
                (None, true) => "passes",
                (None, false) => "passes: the request contains nothing that it checks",
            };
            write!(f, "\n  {:width$}  {result}", one.filter)?;
        }
        let (all, left) = (self.candidates, self.surviving_candidates.len());
        write!(
            f,
            "\nAllocation candidates: {all}, of which filters leave {left}"
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use berth_scheduler::options::SchedulerOptions;
    use berth_scheduler::select::Scheduler;
    use berth_scheduler_objects::testing::{hosts, request};

    #[test]
    fn every_filter_reports_its_verdict_on_a_host() {
        let mut options = SchedulerOptions::default();
        options.filter_scheduler.enabled_filters =
            ["ComputeFilter", "RamFilter", "JsonFilter", "CoreFilter"]
                .map(str::to_owned)
                .into();
        let scheduler = Scheduler::new(options).expect("filters");
        let host = json!([{"host": "h1", "service": {"disabled": true}, "vcpus_total": 4,
            "candidates": [{}, {}]}]);
        let host = hosts(&host).remove(0);
        let text_of = |asked| super::verdicts(&scheduler, &request(&asked), &host);
        let got = text_of(json!({}));
        let expected = "\
h1 is out.
  ComputeFilter  its service is disabled
  RamFilter      it has 0 MiB of memory in all, and 512 are asked for
  JsonFilter     passes: the request contains nothing that it checks
  CoreFilter     passes
Allocation candidates: 2, of which filters leave 2";
        assert_eq!(got.to_string(), expected);
        let json = serde_json::to_string(&got).expect("JSON");
        assert_eq!(serde_json::from_str(&json).ok(), Some(got));
        for (asked, passes, sentence) in [
            (
                json!({"ignore_hosts": ["h1"]}),
                false,
                "h1 is out. It is not what the request is for.",
            ),
            (
                json!({"force_hosts": ["h1"]}),
                true,
                "h1 passes. It is forced, so no filter is applied.",
            ),
        ] {
            let got = text_of(asked);
            assert_eq!(got.passes(), passes);
            assert!(got.to_string().starts_with(sentence), "{got}");
        }
    }
}
