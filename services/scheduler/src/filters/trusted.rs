//! `TrustedFilter`: the node's attestation must have the level that the extra spec `trust:trusted_host` requires.

use super::{Filter, FilterPlan, Runs};
use crate::host_state::ConsideredHost;
use crate::options::SchedulerOptions;
use crate::reason::Reason;
use crate::request::RequestSpec;

pub(super) struct TrustedFilter;

impl Filter for TrustedFilter {
    fn name(&self) -> &'static str {
        "TrustedFilter"
    }

    fn runs(&self) -> Runs {
        Runs::ONCE
    }

    fn plan<'a>(&'a self, request: &'a RequestSpec, _: &'a SchedulerOptions) -> FilterPlan<'a> {
        let requested = request.flavor.extra_specs.get("trust:trusted_host");
        let Some(requested) = requested.filter(|it| !it.is_empty()) else {
            return FilterPlan::PassAll;
        };
        FilterPlan::each(move |host: &mut ConsideredHost| {
            let attestation = match request.attestations.of_node(&host.state.nodename) {
                Ok(attestation) => attestation,
                Err(why) => {
                    return Err(Reason::NoAttestations {
                        why: why.to_owned(),
                    });
                }
            };
            let not_trusted = |trust_level: &str| Reason::NotTrusted {
                trust_level: trust_level.to_owned(),
                requested: requested.clone(),
            };
            match attestation {
                None if requested == UNKNOWN => Ok(()),
                None => Err(not_trusted(UNKNOWN)),
                Some(one) => match one.expired {
                    Some(expired) => Err(Reason::AttestationExpired {
                        trust_level: one.trust_level.clone(),
                        age_s: expired.age_s,
                        holds_s: expired.validity_s,
                    }),
                    None if one.trust_level == *requested => Ok(()),
                    None => Err(not_trusted(&one.trust_level)),
                },
            }
        })
    }
}

/// The level of a node that was never attested.
const UNKNOWN: &str = "unknown";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::filters::testing::verdicts_on;
    use crate::options::SchedulerOptions;
    use crate::request::{Attestation, AttestationExpiry, Attestations};
    use berth_scheduler_objects::testing::request;

    fn verdicts(level: &str, attestations: Attestations) -> Vec<String> {
        let hosts = json!([{"node": "good"}, {"node": "bad"}, {"node": "old"}, {"node": "new", "host": "good"}]);
        let specs = json!({"trust:trusted_host": level});
        let mut request = request(&json!({"flavor": {"extra_specs": specs}}));
        request.attestations = attestations;
        let options = SchedulerOptions::default();
        verdicts_on("TrustedFilter", &options, &request, &hosts)
    }

    fn attested() -> Attestations {
        let too_old = AttestationExpiry {
            age_s: 61.0,
            validity_s: 60.0,
        };
        let nodes = [
            ("good", "trusted", None),
            ("bad", "untrusted", None),
            ("old", "trusted", Some(too_old)),
        ];
        let nodes = nodes.map(|(node, level, expired)| {
            let trust_level = level.to_owned();
            (
                node.to_owned(),
                Attestation {
                    trust_level,
                    expired,
                },
            )
        });
        Attestations::new(nodes.into())
    }

    #[test]
    fn a_node_is_trusted_as_far_as_was_attested_and_not_too_long_ago() {
        let (no, old) = ("not_trusted", "attestation_expired");
        for (level, expected) in [
            ("trusted", ["", no, old, no]),
            ("unknown", [no, no, old, ""]),
            ("", ["", "", "", ""]),
        ] {
            assert_eq!(verdicts(level, attested()), expected, "{level}");
        }
    }

    #[test]
    fn where_nothing_can_be_known_no_node_is_trusted() {
        let unavailable = || Attestations::unavailable("the file is gone");
        assert_eq!(verdicts("trusted", unavailable()), ["no_attestations"; 4]);
        assert_eq!(verdicts("unknown", unavailable()), ["no_attestations"; 4]);
        assert_eq!(verdicts("", unavailable()), [""; 4]);
    }
}
