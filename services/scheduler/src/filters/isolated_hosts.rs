//! `IsolatedHostsFilter`: isolated images run only on isolated hosts and, unless
//! `restrict_isolated_hosts_to_isolated_images` is false, nothing else runs there.

use std::collections::BTreeSet;

use super::{Filter, FilterPlan, Runs};
use crate::host_state::ConsideredHost;
use crate::options::SchedulerOptions;
use crate::reason::Reason;
use crate::request::RequestSpec;

pub(super) struct IsolatedHostsFilter;

impl Filter for IsolatedHostsFilter {
    fn name(&self) -> &'static str {
        "IsolatedHostsFilter"
    }

    fn runs(&self) -> Runs {
        Runs::ONCE_AND_ON_REBUILD
    }

    fn plan<'a>(
        &'a self,
        request: &'a RequestSpec,
        options: &'a SchedulerOptions,
    ) -> FilterPlan<'a> {
        let options = &options.filter_scheduler;
        let isolated: BTreeSet<&str> = options.isolated_hosts.iter().map(String::as_str).collect();
        let image = request.image.as_ref().and_then(|it| it.id.as_ref());
        let image_is_isolated = image.is_some_and(|it| options.isolated_images.contains(it));
        let is_strict = options.restrict_isolated_hosts_to_isolated_images;
        if isolated.is_empty() && !image_is_isolated {
            return FilterPlan::PassAll;
        }
        FilterPlan::each(move |host: &mut ConsideredHost| {
            let host_is_isolated = isolated.contains(host.state.host.as_str());
            match image.filter(|_| image_is_isolated) {
                Some(image) if !host_is_isolated => Err(Reason::ImageIsolated {
                    image: image.clone(),
                }),
                None if host_is_isolated && is_strict => Err(Reason::HostIsolated {
                    image: image.cloned(),
                }),
                _ => Ok(()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::filters::testing::verdicts;
    use crate::options::SchedulerOptions;

    #[test]
    fn isolated_images_and_hosts_keep_to_themselves() {
        let hosts = json!([{"host": "alone"}, {"host": "other"}]);
        for (images, is_strict, image, expected) in [
            (&["i"][..], true, json!({"id": "i"}), ["", "image_isolated"]),
            (&["i"], true, json!({"id": "j"}), ["host_isolated", ""]),
            (&["i"], true, json!(null), ["host_isolated", ""]),
            (&["i"], false, json!({"id": "i"}), ["", "image_isolated"]),
            (&["i"], false, json!({"id": "j"}), ["", ""]),
            (&[], true, json!({"id": "i"}), ["host_isolated", ""]),
            (&[], false, json!({"id": "i"}), ["", ""]),
        ] {
            let mut options = SchedulerOptions::default();
            let group = &mut options.filter_scheduler;
            group.isolated_hosts = vec!["alone".to_owned()];
            group.isolated_images = images.iter().map(|it| (*it).to_owned()).collect();
            group.restrict_isolated_hosts_to_isolated_images = is_strict;
            let request = json!({"image": image});
            let got = verdicts("IsolatedHostsFilter", &options, &request, &hosts);
            assert_eq!(got, expected, "{images:?} {is_strict} {image}");
        }
    }
}
