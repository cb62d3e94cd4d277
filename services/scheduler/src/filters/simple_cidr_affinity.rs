//! `SimpleCIDRAffinityFilter`: the host must be in the network given by the hints `build_near_host_ip` and `cidr`.

use super::{Filter, FilterPlan, Runs};
use crate::host_state::ConsideredHost;
use crate::network::Network;
use crate::options::SchedulerOptions;
use crate::reason::Reason;
use crate::request::RequestSpec;

pub(super) struct SimpleCIDRAffinityFilter;

impl Filter for SimpleCIDRAffinityFilter {
    fn name(&self) -> &'static str {
        "SimpleCIDRAffinityFilter"
    }

    fn runs(&self) -> Runs {
        Runs::ONCE
    }

    fn plan<'a>(&'a self, request: &'a RequestSpec, _: &'a SchedulerOptions) -> FilterPlan<'a> {
        let Some(near) = request.hints.given("build_near_host_ip") else {
            return FilterPlan::PassAll;
        };
        let network = match network(near, request) {
            Ok(network) => network,
            Err(unreadable) => {
                return FilterPlan::RejectAll(Reason::NetworkUnreadable {
                    unreadable: unreadable.into(),
                });
            }
        };
        FilterPlan::each(move |host: &mut ConsideredHost| {
            let host_ip = host.state.host_ip;
            if host_ip.is_some_and(|ip| network.contains(ip)) {
                return Ok(());
            }
            Err(Reason::OutsideNetwork {
                host_ip,
                network: network.to_string(),
            })
        })
    }
}

/// The network of an address and a prefix length.
fn network(near: &[String], request: &RequestSpec) -> Result<Network, String> {
    let cidr = match request.hints.has("cidr") {
        false => "/24",
        true => request
            .hints
            .one("cidr")
            .ok_or("the hint cidr should be one text")?,
    };
    let [near] = near else {
        return Err("the hint build_near_host_ip should be one text".to_owned());
    };
    Network::new(&format!("{near}{cidr}")).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::filters::testing::verdicts;
    use crate::options::SchedulerOptions;

    #[test]
    fn a_host_is_near_an_address() {
        let hosts = json!([
            {"host_ip": "192.0.2.9"},
            {"host_ip": "192.0.3.9"},
            {"host_ip": "2001:db8::1"},
        ]);
        let out = "outside_network";
        for (hints, expected) in [
            (json!({"build_near_host_ip": "192.0.2.1"}), ["", out, out]),
            (
                json!({"build_near_host_ip": "192.0.2.1", "cidr": "/16"}),
                ["", "", out],
            ),
            (
                json!({"build_near_host_ip": "192.0.2.1", "cidr": ""}),
                [out; 3],
            ),
            (
                json!({"build_near_host_ip": "2001:db8::2", "cidr": "/64"}),
                [out, out, ""],
            ),
            (
                json!({"build_near_host_ip": "x"}),
                ["network_unreadable"; 3],
            ),
            (
                json!({"build_near_host_ip": "192.0.2.1", "cidr": []}),
                ["network_unreadable"; 3],
            ),
            (
                json!({"build_near_host_ip": ["a", "b"]}),
                ["network_unreadable"; 3],
            ),
            (json!({"build_near_host_ip": "", "cidr": "x"}), [""; 3]),
            (json!({"cidr": "/24"}), [""; 3]),
        ] {
            let request = json!({"hints": hints});
            let got = verdicts(
                "SimpleCIDRAffinityFilter",
                &SchedulerOptions::default(),
                &request,
                &hosts,
            );
            assert_eq!(got, expected, "{hints}");
        }
    }
}
