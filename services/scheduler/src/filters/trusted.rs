//! `TrustedFilter`: the node was attested to be as trustworthy as the extra spec `trust:trusted_host` asks.

use super::{Filter, Plan, Runs};
use crate::host_state::ConsideredHost;
use crate::options::Options;
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

    fn plan<'a>(&'a self, request: &'a RequestSpec, _: &'a Options) -> Plan<'a> {
        let requested = request.flavor.extra_specs.get("trust:trusted_host");
        let Some(requested) = requested.filter(|it| !it.is_empty()) else {
            return Plan::PassAll;
        };
        Plan::each(move |host: &mut ConsideredHost| {
            let level = request.attestations.level(&host.state.nodename);
            if level == requested {
                return Ok(());
            }
            Err(Reason::NotTrusted {
                trust_level: level.to_owned(),
                requested: requested.clone(),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::filters::testing::verdicts_on;
    use crate::options::Options;
    use crate::replay::testing::request;
    use crate::request::Attestations;

    #[test]
    fn a_node_that_was_never_attested_is_unknown() {
        let hosts = json!([{"node": "good"}, {"node": "bad"}, {"node": "new", "host": "good"}]);
        let no = "not_trusted";
        for (level, expected) in [
            ("trusted", ["", no, no]),
            ("unknown", [no, no, ""]),
            ("", ["", "", ""]),
        ] {
            let specs = json!({"trust:trusted_host": level});
            let mut request = request(&json!({"flavor": {"extra_specs": specs}}));
            let levels = [("good", "trusted"), ("bad", "untrusted")];
            let own = levels.map(|(node, level)| (node.to_owned(), level.to_owned()));
            request.attestations = Attestations::new(own.into());
            let got = verdicts_on("TrustedFilter", &Options::default(), &request, &hosts);
            assert_eq!(got, expected, "{level}");
        }
    }
}
