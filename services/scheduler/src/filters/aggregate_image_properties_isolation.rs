//! `AggregateImagePropertiesIsolation`: a host passes if, for each image property that is also a key of its aggregates, the
//! aggregates list the property's value. With a namespace configured, only properties with that prefix count.

use super::{Filter, FilterPlan, Runs};
use crate::host_state::Aggregates;
use crate::options::SchedulerOptions;
use crate::reason::Reason;
use crate::request::RequestSpec;

pub(super) struct AggregateImagePropertiesIsolation;

impl Filter for AggregateImagePropertiesIsolation {
    fn name(&self) -> &'static str {
        "AggregateImagePropertiesIsolation"
    }

    fn runs(&self) -> Runs {
        Runs::ONCE_AND_ON_REBUILD
    }

    fn plan<'a>(
        &'a self,
        request: &'a RequestSpec,
        options: &'a SchedulerOptions,
    ) -> FilterPlan<'a> {
        let Some(image) = &request.image else {
            return FilterPlan::PassAll;
        };
        let options = &options.filter_scheduler;
        let namespace = options
            .aggregate_image_properties_isolation_namespace
            .as_ref();
        let separator = &options.aggregate_image_properties_isolation_separator;
        let prefix = namespace.filter(|it| !it.is_empty());
        let prefix = prefix.map_or_else(String::new, |it| format!("{it}{separator}"));
        let properties = image.properties.meaningful();
        let properties: Vec<_> = properties
            .filter(|(name, _)| name.starts_with(&prefix))
            .collect();
        if properties.is_empty() {
            return FilterPlan::PassAll;
        }
        FilterPlan::by_aggregates(move |aggregates: &Aggregates| {
            let is_wrong = |(name, value): &&(&str, &str)| {
                aggregates.has(name) && !aggregates.split(name).any(|it| it == *value)
            };
            let wrong = properties.iter().find(is_wrong);
            wrong.map_or(Ok(()), |(name, value)| {
                Err(Reason::ImagePropertyNotAllowed {
                    property: (*name).to_owned(),
                    value: (*value).to_owned(),
                    allowed: aggregates.split(name).map(str::to_owned).collect(),
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::filters::testing::{options, verdicts};

    #[test]
    fn aggregates_may_be_for_images_of_some_properties() {
        let metadata = |metadata: serde_json::Value| json!([{"metadata": metadata}]);
        let hosts = json!([
            {"aggregates": metadata(json!({"os_distro": "windows, linux"}))},
            {"aggregates": metadata(json!({"os_distro": "windows"}))},
            {"aggregates": metadata(json!({"hw_qemu_guest_agent": "true", "custom": "x"}))},
            {"aggregates": metadata(json!({"hw_qemu_guest_agent": "True"}))},
            {"aggregates": metadata(json!({"hw_numa_nodes": "2"}))},
            {},
        ]);
        let no = "image_property_not_allowed";
        let properties = json!({"os_distro": "linux", "hw_qemu_guest_agent": "yes",
            "hw_numa_nodes": "0", "custom": "y"});
        for (namespace, image, expected) in [
            (
                json!(null),
                json!({"properties": properties}),
                ["", no, no, "", "", ""],
            ),
            (json!("hw_qemu"), json!({"properties": properties}), [""; 6]),
            (json!("os"), json!({"properties": properties}), [""; 6]),
            (json!(null), json!(null), [""; 6]),
        ] {
            let key = "aggregate_image_properties_isolation_namespace";
            let options = options("filter_scheduler", key, &namespace);
            let request = json!({"image": image});
            let name = "AggregateImagePropertiesIsolation";
            let got = verdicts(name, &options, &request, &hosts);
            assert_eq!(got, expected, "{namespace} {image}");
        }
    }
}
