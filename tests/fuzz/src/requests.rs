//! Fuzz target: the texts that users and operators write and the scheduler parses: hints, JSON queries, networks, extra
//! specs, image properties, aggregate metadata and weight options.
//!
//! An input is lines of a letter and a text: `h same_host=u1` is a hint, `e hw:cpu_policy=dedicated` an extra spec.
//! Every filter and every weigher evaluates four hosts.

use std::sync::Arc;

use berth_scheduler::host_state::{Aggregate, ConsideredHost};
use berth_scheduler::placement_query::{Cloud, placement_query};
use berth_scheduler::select::{
    Alternates, ClaimPolicy, Scheduler, SelectionRequest, SelectionResult, SelectionStep,
};
use berth_scheduler::{RequestSpec, SchedulerOptions, filters};
use serde_json::{Map, Value, json};

/// As long as a sentence may be, whatever a user wrote.
const LONGEST: usize = 4096;

pub(crate) fn request(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let asked = FuzzRequest::read(text);
    let (hosts, request) = match berth_scheduler_cases::hosts_and_request(&asked.case()) {
        Ok(read) => read,
        Err(error) => return is_sentence(&error.to_string()),
    };
    ask_placement(&request, &asked);
    let scheduler = match Scheduler::new(asked.options()) {
        Ok(scheduler) => scheduler,
        Err(error) => return is_sentence(&error.to_string()),
    };
    let first = select(&scheduler, &request, &hosts);
    let again = select(&scheduler, &request, &hosts);
    assert_eq!(first, again, "the same request");
}

/// What an input says.
#[derive(Default)]
struct FuzzRequest {
    hints: Map<String, Value>,
    extra_specs: Map<String, Value>,
    properties: Map<String, Value>,
    metadata: Map<String, Value>,
    stats: Map<String, Value>,
    cpu_info: Option<String>,
    policy: Option<String>,
    zone: Option<String>,
    options: SchedulerOptions,
}

impl FuzzRequest {
    fn read(text: &str) -> Self {
        let mut asked = Self::default();
        let options = &mut asked.options;
        options.filter_scheduler.enabled_filters = filters::ALL
            .iter()
            .map(|one| one.name().to_owned())
            .collect();
        for line in text.lines() {
            let Some((letter, rest)) = line.split_once(' ') else {
                continue;
            };
            let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
            let (key, text) = (key.to_owned(), json!(value));
            match letter {
                "h" => {
                    let hint = asked.hints.entry(key).or_insert_with(|| json!([]));
                    hint.as_array_mut()
                        .into_iter()
                        .for_each(|all| all.push(text.clone()));
                }
                "e" => drop(asked.extra_specs.insert(key, text)),
                "p" => drop(asked.properties.insert(key, text)),
                "a" => drop(asked.metadata.insert(key, text)),
                // What a driver tells may be any JSON.
                "s" => {
                    let value = serde_json::from_str(value).unwrap_or(text);
                    asked.stats.insert(key, value);
                }
                "c" => asked.cpu_info = Some(rest.to_owned()),
                "g" => asked.policy = Some(rest.to_owned()),
                "z" => asked.zone = Some(rest.to_owned()),
                "w" => options.metrics.weight_setting.push(rest.to_owned()),
                "i" => {
                    let options = &mut options.filter_scheduler;
                    options.image_props_weight_multiplier = 1.0;
                    options.image_props_weight_setting.push(rest.to_owned());
                }
                "n" => {
                    let options = &mut options.filter_scheduler;
                    options.aggregate_image_properties_isolation_namespace = Some(rest.to_owned());
                }
                "m" => options.metrics.required = false,
                _ => {}
            }
        }
        asked
    }

    fn options(&self) -> SchedulerOptions {
        self.options.clone()
    }

    fn case(&self) -> Value {
        let aggregate = json!([{"uuid": AGGREGATE, "name": "one", "metadata": self.metadata}]);
        let candidates = json!([{"mappings": {"": ["rp"]}}]);
        let host = |name: &str, ip: &str, more: Value| {
            let mut host = json!({
                "host": name, "host_ip": ip, "vcpus_total": 16, "total_ram_mb": 65536, "free_ram_mb": 60000,
                "total_disk_gb": 1000, "free_disk_mb": 900_000, "stats": self.stats, "cpu_info": self.cpu_info,
                "hv_version": 8_000_000, "supported_instances": [["x86_64", "kvm", "hvm"]], "candidates": candidates,
                "metrics": [{"name": "cpu.percent", "value": 0.25}],
            });
            for (key, value) in more.as_object().into_iter().flatten() {
                host[key] = value.clone();
            }
            host
        };
        let cells = json!({"cells": [
            {"id": 0, "cpuset": [0, 1, 2, 3], "pcpuset": [0, 1, 2, 3], "memory": 32768, "siblings": [[0, 1], [2, 3]],
             "mempages": [{"size_kb": 4, "total": 8_000_000}, {"size_kb": 2048, "total": 512}]},
            {"id": 1, "cpuset": [4, 5, 6, 7], "pcpuset": [4, 5, 6, 7], "memory": 32768, "siblings": [[4, 5], [6, 7]],
             "mempages": [{"size_kb": 4, "total": 8_000_000}]},
        ]});
        let pools = json!([{"vendor_id": "10de", "product_id": "20b5", "numa_node": 1, "count": 2, "tags": {"dev_type": "type-PCI"}}]);
        json!({
            "id": "one",
            "hosts": [
                host("a", "10.0.0.1", json!({"aggregates": aggregate, "instances": ["u1"], "num_instances": 1})),
                host("b", "10.0.0.200", json!({"numa": cells, "pci_pools": pools})),
                host("c", "fd00::1", json!({"aggregates": aggregate, "numa": cells, "instances": {"u2": self.properties}})),
                host("d", "10.1.0.1", json!({"service": {"disabled": true}})),
            ],
            "request": {
                "instance_uuid": "u3", "hints": self.hints, "numa_from_flavor": true,
                "flavor": {"vcpus": 2, "memory_mb": 1024, "extra_specs": self.extra_specs},
                "image": {"properties": self.properties},
                "availability_zone": self.zone,
                "group": self.policy.as_ref().map(|policy| json!({"policy": policy, "members": ["u1", "u3"], "hosts": ["a"]})),
            },
        })
    }
}

const AGGREGATE: &str = "a0000000-0000-4000-8000-000000000001";

fn ask_placement(request: &RequestSpec, asked: &FuzzRequest) {
    let texts = asked.metadata.iter();
    let metadata =
        texts.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()));
    let aggregates = [Arc::new(Aggregate {
        uuid: Some(AGGREGATE.to_owned()),
        name: "one".to_owned(),
        metadata: metadata.collect(),
    })];
    let cloud = Cloud {
        aggregates: &aggregates,
        ..Cloud::default()
    };
    match placement_query(request, &asked.options, &cloud) {
        Err(error) => is_sentence(&error.to_string()),
        Ok(asked) => assert!(asked.query.is_ascii() && !asked.query.contains([' ', '\n'])),
    }
}

/// The hosts in the order in which they were claimed, or why there was none; every host that is out has a sentence.
fn select(
    scheduler: &Scheduler,
    request: &RequestSpec,
    hosts: &[ConsideredHost],
) -> Result<Vec<String>, String> {
    let ask = SelectionRequest {
        request: request.clone(),
        instance_uuids: vec!["u3".to_owned(), "u4".to_owned()],
        alternates: Alternates::Wanted,
        claims: ClaimPolicy::Needed,
        seed: 1,
    };
    let mut step = scheduler.select(ask, hosts.to_vec());
    let record = loop {
        step = match step {
            SelectionStep::Claim(claiming) => claiming.granted(),
            SelectionStep::Selected(SelectionResult {
                selections, record, ..
            }) => {
                let chosen = selections.iter().flatten();
                break (
                    record,
                    Ok(chosen.map(|one| one.host.host.clone()).collect()),
                );
            }
            SelectionStep::NoValidHost(why) => {
                let sentence = why.to_string();
                is_sentence(&sentence);
                break (why.record, Err(sentence));
            }
        };
    };
    let (record, ended) = record;
    for turn in &record.turns {
        let left = turn
            .passed
            .last()
            .map_or(turn.at_destination, |last| last.after);
        assert!(left <= hosts.len() && turn.rejected.hosts() <= hosts.len());
        for (_, one) in turn.rejected.named() {
            is_sentence(&one.reason.to_string());
        }
    }
    ended
}

fn is_sentence(text: &str) {
    assert!(
        !text.is_empty() && text.len() <= LONGEST,
        "{} bytes: {text:.200}",
        text.len()
    );
}
