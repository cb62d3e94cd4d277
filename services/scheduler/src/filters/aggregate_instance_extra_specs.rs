//! `AggregateInstanceExtraSpecsFilter`: the host's aggregates must satisfy the flavor's extra specs.
//!
//! It uses extra specs without a scope and those under `aggregate_instance_extra_specs:`. If a key has several values,
//! one match is enough, even if others are unreadable.

use super::{Filter, FilterPlan, Runs};
use crate::extra_specs::{Requirement, UnreadableRequirement};
use crate::host_state::{Aggregates, CapabilityRef};
use crate::options::SchedulerOptions;
use crate::reason::Reason;
use crate::request::RequestSpec;

pub(super) struct AggregateInstanceExtraSpecsFilter;

impl Filter for AggregateInstanceExtraSpecsFilter {
    fn name(&self) -> &'static str {
        "AggregateInstanceExtraSpecsFilter"
    }

    fn runs(&self) -> Runs {
        Runs::ONCE
    }

    fn plan<'a>(&'a self, request: &'a RequestSpec, _: &'a SchedulerOptions) -> FilterPlan<'a> {
        let specs = request.flavor.extra_specs.iter();
        let demands: Vec<AggregateRequirement<'_>> =
            specs.filter_map(AggregateRequirement::read).collect();
        if demands.is_empty() {
            return FilterPlan::PassAll;
        }
        FilterPlan::by_aggregates(move |aggregates: &Aggregates| {
            demands.iter().try_for_each(|it| it.check(aggregates))
        })
    }
}

/// The requirement of one extra spec.
struct AggregateRequirement<'a> {
    key: &'a str,
    requirement: Requirement,
}

impl<'a> AggregateRequirement<'a> {
    fn read((key, text): (&'a String, &'a String)) -> Option<Self> {
        let key = match key.split_once(':') {
            None => key,
            Some(("aggregate_instance_extra_specs", key)) => key,
            Some(_) => return None,
        };
        let requirement = Requirement::new(text);
        Some(Self { key, requirement })
    }

    fn check(&self, aggregates: &Aggregates) -> Result<(), Reason> {
        let mut unreadable: Option<UnreadableRequirement> = None;
        for value in aggregates.split(self.key) {
            match self.requirement.holds_for(CapabilityRef::Text(value)) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => unreadable = Some(error),
            }
        }
        Err(self.reason(aggregates, unreadable))
    }

    fn reason(&self, aggregates: &Aggregates, unreadable: Option<UnreadableRequirement>) -> Reason {
        let key = self.key.to_owned();
        let requirement = self.requirement.text().to_owned();
        let values = aggregates.split(self.key).map(str::to_owned).collect();
        match unreadable {
            _ if !aggregates.has(self.key) => Reason::AggregateKeyMissing { key, requirement },
            Some(error) => Reason::AggregateUnreadable {
                key,
                values,
                requirement,
                unreadable: error.to_string(),
            },
            None => Reason::AggregateMismatch {
                key,
                values,
                requirement,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::filters::testing::verdicts;
    use crate::options::SchedulerOptions;

    #[test]
    fn aggregates_are_as_the_flavor_demands() {
        let aggregates = |values: &[&str]| -> Vec<_> {
            let one = |value| json!({"metadata": {"k": value, "a:b": "1"}});
            values.iter().map(one).collect()
        };
        let hosts = json!([
            {"aggregates": aggregates(&["3, 5", "x"])},
            {"aggregates": aggregates(&["3"])},
            {"aggregates": aggregates(&["3", "x"])},
            {"aggregates": aggregates(&[""])},
            {},
        ]);
        let (missing, no) = ("aggregate_key_missing", "aggregate_mismatch");
        let bad = "aggregate_unreadable";
        for (specs, expected) in [
            (json!({"k": ">= 4"}), ["", no, bad, bad, missing]),
            (
                json!({"aggregate_instance_extra_specs:k": "5"}),
                ["", no, no, no, missing],
            ),
            (
                json!({"aggregate_instance_extra_specs:a:b": "1"}),
                ["", "", "", "", missing],
            ),
            (json!({"k": "s!= 3"}), ["", no, "", "", missing]),
            (json!({"capabilities:k": "5", "hw:k": "5"}), [""; 5]),
            (json!({}), [""; 5]),
        ] {
            let request = json!({"flavor": {"extra_specs": specs}});
            let name = "AggregateInstanceExtraSpecsFilter";
            let got = verdicts(name, &SchedulerOptions::default(), &request, &hosts);
            assert_eq!(got, expected, "{specs}");
        }
    }
}
