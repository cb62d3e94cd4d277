//! The keys that a case may have. An unknown key is an error, because ignoring it would schedule another request than
//! the one that was written.

use std::sync::LazyLock;

use serde_json::Value;

use berth_model::nearest_name;
use berth_scheduler::options::SchedulerOptions;
use berth_scheduler_objects::from_json::FieldError;
use berth_scheduler_objects::text::shortened;

/// The known keys of a value.
#[derive(Clone, Copy)]
enum KeyShape {
    /// A text, a number, or an object whose keys the user chooses; its reader checks it.
    Own,
    /// An object with these keys at most.
    Object(&'static [(&'static str, KeyShape)]),
    /// A list of such, or an object of them by names of the user's.
    Each(&'static KeyShape),
    /// An object with keys of the form `group.option`.
    OptionsByName,
}

use KeyShape::{Each, Object, OptionsByName, Own};

const FILE: KeyShape = Object(&[
    ("schema", Own),
    ("kind", Own),
    ("subject", Own),
    ("source", Own),
    ("cases", Own),
]);

/// `in`, `minval`, `maxval`, `out`, `value` and `requirement` belong to the kinds `normalize` and `ops`, `aggregates`
/// and `all_computes_report_owner_trait` to `placement_query`. `expect` and `note` are ignored.
const CASE: KeyShape = Object(&[
    ("id", Own),
    ("note", Own),
    ("expect", Own),
    ("config", OptionsByName),
    ("hosts", Each(&HOST)),
    ("request", REQUEST),
    ("aggregates", Each(&AGGREGATE)),
    ("all_computes_report_owner_trait", Own),
    ("in", Own),
    ("minval", Own),
    ("maxval", Own),
    ("out", Own),
    ("value", Own),
    ("requirement", Own),
]);

const HOST: KeyShape = Object(&[
    ("host", Own),
    ("node", Own),
    ("uuid", Own),
    ("cell", Own),
    ("host_ip", Own),
    ("free_ram_mb", Own),
    ("total_ram_mb", Own),
    ("free_disk_mb", Own),
    ("total_disk_gb", Own),
    ("vcpus_total", Own),
    ("vcpus_used", Own),
    ("num_instances", Own),
    ("num_io_ops", Own),
    ("failed_builds", Own),
    ("ram_ratio", Own),
    ("cpu_ratio", Own),
    ("disk_ratio", Own),
    ("hv_type", Own),
    ("hv_version", Own),
    ("cpu_info", Own),
    ("supported_instances", Own),
    ("stats", Own),
    (
        "service",
        Object(&[
            ("disabled", Own),
            ("disabled_reason", Own),
            ("forced_down", Own),
            ("last_seen_age_s", Own),
            ("created_age_s", Own),
        ]),
    ),
    ("aggregates", Each(&AGGREGATE)),
    ("instances", Own),
    ("metrics", Each(&Object(&[("name", Own), ("value", Own)]))),
    (
        "pci_pools",
        Each(&Object(&[
            ("vendor_id", Own),
            ("product_id", Own),
            ("numa_node", Own),
            ("count", Own),
            ("tags", Own),
        ])),
    ),
    ("numa", Object(&[("cells", Each(&CELL))])),
    (
        "candidates",
        Each(&Object(&[
            ("allocations", Each(&Object(&[("resources", Own)]))),
            ("mappings", Own),
        ])),
    ),
]);

const AGGREGATE: KeyShape = Object(&[("uuid", Own), ("name", Own), ("metadata", Own)]);

const CELL: KeyShape = Object(&[
    ("id", Own),
    ("cpuset", Own),
    ("pcpuset", Own),
    ("memory", Own),
    ("memory_usage", Own),
    ("cpu_usage", Own),
    ("pinned_cpus", Own),
    ("siblings", Own),
    (
        "mempages",
        Each(&Object(&[
            ("size_kb", Own),
            ("total", Own),
            ("used", Own),
            ("reserved", Own),
        ])),
    ),
    ("socket", Own),
    ("physnets", Own),
    ("tunneled", Own),
]);

/// `num_instances` is ignored: the UUIDs give the number.
const REQUEST: KeyShape = Object(&[
    ("instance_uuid", Own),
    ("instance_uuids", Own),
    ("num_instances", Own),
    ("return_alternates", Own),
    ("claim_fails", Own),
    (
        "flavor",
        Object(&[
            ("name", Own),
            ("flavorid", Own),
            ("vcpus", Own),
            ("memory_mb", Own),
            ("root_gb", Own),
            ("ephemeral_gb", Own),
            ("swap", Own),
            ("extra_specs", Own),
        ]),
    ),
    (
        "image",
        Object(&[("id", Own), ("disk_format", Own), ("properties", Own)]),
    ),
    ("numa_from_flavor", Own),
    ("hints", Own),
    (
        "group",
        Object(&[
            ("policy", Own),
            ("members", Own),
            ("hosts", Own),
            ("rules", Object(&[("max_server_per_host", Own)])),
        ]),
    ),
    ("project_id", Own),
    ("availability_zone", Own),
    (
        "pci_requests",
        Each(&Object(&[
            ("count", Own),
            ("spec", Own),
            ("request_id", Own),
            ("alias_name", Own),
            ("numa_policy", Own),
        ])),
    ),
    (
        "network_metadata",
        Object(&[("physnets", Own), ("tunneled", Own)]),
    ),
    ("ignore_hosts", Own),
    ("force_hosts", Own),
    ("force_nodes", Own),
    (
        "requested_destination",
        Object(&[
            ("host", Own),
            ("node", Own),
            ("cell", Own),
            ("allow_cross_cell_move", Own),
        ]),
    ),
    ("retry", Object(&[("hosts", Own)])),
    ("is_bfv", Own),
]);

/// Options that are read, `group.option`.
static OPTIONS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let all = SchedulerOptions::by_name().into_iter();
    all.map(|(name, _)| name).collect()
});

/// Checks the keys of a file, except those of its cases.
pub(super) fn file(file: &Value) -> Result<(), FieldError> {
    check_value(FILE, file, "")
}

/// Checks the keys of a case.
pub(super) fn case(case: &Value) -> Result<(), FieldError> {
    check_value(CASE, case, "")
}

/// A value of the wrong kind is ignored here, because its reader reports it.
fn check_value(shape: KeyShape, value: &Value, path: &str) -> Result<(), FieldError> {
    match (shape, value) {
        (Object(keys), Value::Object(object)) => {
            for (key, value) in object {
                let known = keys.iter().find(|(name, _)| name == key);
                let under = under(path, key);
                match known {
                    Some((_, shape)) => check_value(*shape, value, &under)?,
                    None => return Err(unknown(under, key, keys)),
                }
            }
            Ok(())
        }
        (Each(shape), Value::Array(items)) => items
            .iter()
            .enumerate()
            .try_for_each(|(place, item)| check_value(*shape, item, &format!("{path}[{place}]"))),
        (Each(shape), Value::Object(object)) => object
            .iter()
            .try_for_each(|(key, item)| check_value(*shape, item, &under(path, key))),
        (OptionsByName, Value::Object(object)) => {
            object.keys().try_for_each(|name| option(name, path))
        }
        _ => Ok(()),
    }
}

fn under(path: &str, key: &str) -> String {
    match path {
        "" => key.to_owned(),
        path => format!("{path}.{key}"),
    }
}

fn unknown(path: String, key: &str, keys: &[(&'static str, KeyShape)]) -> FieldError {
    let names = || keys.iter().map(|(name, _)| *name);
    // An abbreviation has a larger edit distance than a misspelling.
    let begins = || names().find(|name| key.len() > 3 && name.starts_with(key));
    let problem = match nearest_name(key, names()).or_else(begins) {
        Some(near) => format!("there is no such key; is {near} meant?"),
        None => format!(
            "there is no such key; there are {}",
            names().collect::<Vec<_>>().join(", ")
        ),
    };
    FieldError {
        path: shortened(&path).into_owned(),
        problem,
    }
}

/// Ignores options of Nova that the scheduler does not read, as its configuration does. A name that is similar to a
/// known one is an error.
fn option(name: &str, path: &str) -> Result<(), FieldError> {
    if OPTIONS.iter().any(|it| it == name) {
        return Ok(());
    }
    match nearest_name(name, OPTIONS.iter().map(String::as_str)) {
        None => Ok(()),
        Some(near) => Err(FieldError {
            path: shortened(&under(path, name)).into_owned(),
            problem: format!("there is no such option; is {near} meant?"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_unknown_key_is_refused_with_the_nearest_one() {
        for (case_of, text) in [
            (
                json!({"confg": {}}),
                "confg: there is no such key; is config meant?",
            ),
            (
                json!({"request": {"flavour": {}}}),
                "request.flavour: there is no such key; is flavor meant?",
            ),
            (
                json!({"request": {"flavor": {"ram": 1}}}),
                "request.flavor.ram: there is no such key; there are name, flavorid, vcpus, memory_mb, root_gb, ephemeral_gb, swap, \
                 extra_specs",
            ),
            (
                json!({"hosts": [{}, {"free_ram": 1}]}),
                "hosts[1].free_ram: there is no such key; is free_ram_mb meant?",
            ),
            (
                json!({"hosts": [{"service": {"disabeld": true}}]}),
                "hosts[0].service.disabeld: there is no such key; is disabled meant?",
            ),
            (
                json!({"hosts": [{"candidates": [{"allocations": {"u": {"resource": {}}}}]}]}),
                "hosts[0].candidates[0].allocations.u.resource: there is no such key; is resources meant?",
            ),
            (
                json!({"config": {"filter_scheduler.enabled_filter": []}}),
                "config.filter_scheduler.enabled_filter: there is no such option; is filter_scheduler.enabled_filters meant?",
            ),
        ] {
            let error = case(&case_of).expect_err(text);
            assert_eq!(error.to_string(), text);
        }
        let error = file(&json!({"schma": "x"})).expect_err("no schema");
        assert_eq!(
            error.to_string(),
            "schma: there is no such key; is schema meant?"
        );
    }

    #[test]
    fn names_of_the_users_own_and_options_of_others_are_taken() {
        let taken = case(&json!({
            "note": "for me", "expect": {"anything": 1},
            "config": {"compute.reserved_host_cpus": 1},
            "hosts": [{"stats": {"mine": 1}, "instances": {"u": {"os_distro": "x"}}, "numa": null}],
            "request": {"hints": {"rack": "1"}, "image": null, "flavor": {"extra_specs": {"a:b": "c"}}},
        }));
        assert_eq!(taken, Ok(()));
    }
}
