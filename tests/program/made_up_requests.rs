//! Generated requests to the compute and the Identity API behind the one listener of `berth up`: schemathesis generates
//! them from the OpenAPI documents. `make soak` sends more of them.
//!
//!   BERTH_CLOUD_EXAMPLES=3          the number of generated requests per operation, in addition to the fixed ones
//!   BERTH_CLOUD_SEED=1              their seed
//!   BERTH_BAD_INPUT_REPORT=FILE     a line for each run: what, requests, KiB resident before and after, violations

use std::collections::BTreeMap;
use std::time::Instant;
use std::{env, fs};

use berth_tests::exchange::HttpCall;
use berth_tests::peer::{Schemathesis, report_bad_input};
use serde_json::{Value, json};

use crate::program::cloud::Cloud;
use crate::program::compute::IMAGE;
use crate::program::hypervisor::PATIENCE;

/// Every status and body as the document has it, and none of them an error of the service.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";

/// So many servers, and so many of each other kind: requests that delete some leave others for those after them.
const SERVERS: usize = 30;
const OTHERS: usize = 8;

const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJW1Vx0qkq5oXk2rYQY2b8m1k9qJH6jJxYzV9o0cQ8aP me";

/// Some of each kind for one run, and what each is called.
fn plant(cloud: &Cloud, token: &str, run: usize) -> Value {
    let url = |path: &str| format!("{}/compute/v2.1/{path}", cloud.base);
    let made = |path: &str, body: Value| cloud.asked(token, HttpCall::post(url(path)).json(&body));
    let (mut flavors, mut groups, mut aggregates, mut keys) = (vec![], vec![], vec![], vec![]);
    let projects = cloud.asked(
        token,
        HttpCall::get(format!("{}/identity/v3/projects", cloud.base)),
    );
    // An earlier run may have set quotas.
    for project in projects["projects"].as_array().expect("projects") {
        let id = project["id"].as_str().expect("an id");
        let none = json!({"force": true, "instances": -1, "cores": -1, "ram": -1, "key_pairs": -1,
            "server_groups": -1, "server_group_members": -1, "metadata_items": 128});
        let call = HttpCall::put(url(&format!("os-quota-sets/{id}")));
        cloud.asked(token, call.json(&json!({ "quota_set": none })));
    }
    for n in 0..OTHERS {
        let name = format!("tiny-{run}-{n}");
        let flavor = json!({"name": name, "id": name, "ram": 64, "vcpus": 1, "disk": 0});
        made("flavors", json!({ "flavor": flavor }));
        let specs = json!({"extra_specs": {"hw:cpu_policy": "shared"}});
        made(&format!("flavors/{name}/os-extra_specs"), specs);
        flavors.push(json!(name));
        let group = json!({"name": format!("apart-{run}-{n}"), "policy": "soft-anti-affinity"});
        let group = made("os-server-groups", json!({ "server_group": group }));
        groups.push(group["server_group"]["id"].clone());
        let aggregate = json!({"aggregate": {"name": format!("rack-{run}-{n}")}});
        let aggregate = made("os-aggregates", aggregate);
        aggregates.push(json!(aggregate["aggregate"]["id"].to_string()));
        let key = json!({"name": format!("key-{run}-{n}"), "public_key": KEY});
        keys.push(made("os-keypairs", json!({ "keypair": key }))["keypair"]["name"].clone());
    }
    let servers: Vec<Value> = (0..SERVERS)
        .map(|n| {
            let server = json!({"name": format!("web-{run}-{n}"), "flavorRef": flavors[n % OTHERS],
                "imageRef": IMAGE, "networks": "none", "metadata": {"k": "v"}, "tags": ["t"]});
            made("servers", json!({ "server": server }))["server"]["id"].clone()
        })
        .collect();
    let hypervisors = cloud.asked(token, HttpCall::get(url("os-hypervisors")));
    let services = cloud.asked(token, HttpCall::get(url("os-services")));
    let projects = format!("{}/identity/v3/projects", cloud.base);
    let project = cloud.asked(token, HttpCall::get(projects))["projects"][0]["id"].clone();
    let limits = |path: &str| {
        let url = format!("{}/identity/v3/{path}", cloud.base);
        let listed = cloud.asked(token, HttpCall::get(url));
        let listed = listed[path].as_array().expect("limits").clone();
        let of = |key: &str| listed.iter().map(|it| it[key].clone()).collect::<Vec<_>>();
        (of("id"), of("resource_name"), of("service_id"))
    };
    let (limit_ids, ..) = limits("limits");
    let (registered, resources, service_ids) = limits("registered_limits");
    let names: Vec<Value> = keys.iter().cloned().chain([json!("admin")]).collect();
    json!({
        "flavor": flavors, "flavorRef": flavors, "imageRef": [IMAGE], "rescue_image_ref": [IMAGE],
        "server": servers, "server_uuid": servers, "group": groups, "aggregate": aggregates,
        "hypervisor": [hypervisors["hypervisors"][0]["id"]], "service": [services["services"][0]["id"]],
        "host": [services["services"][0]["host"]], "key_name": keys, "availability_zone": ["nova"],
        "project": [project], "tenant": [project], "user_id": ["admin"], "name": names,
        "key": ["k", "hw:cpu_policy"], "tag": ["t"],
        "limit_id": limit_ids, "registered_limit_id": registered, "resource_name": resources,
        "service_id": service_ids, "project_id": [project],
    })
}

/// So many requests of whole runs, the memory of the service in KiB, and what was wrong.
fn report(requests: u64, (before, after): (u64, u64), violations: u8) {
    report_bad_input(&format!(
        "schemathesis, compute and identity\t{requests}\t{before}\t{after}\t{violations}"
    ));
}

fn set(variable: &str, otherwise: u64) -> u64 {
    env::var(variable).map_or(otherwise, |text| text.parse().expect("a number"))
}

#[test]
fn generated_requests_to_compute_are_answered_as_documented() {
    // The document describes the newest bodies.
    answers_as_documented(0, "compute.json", "compute", Some("compute 2.82"));
}

#[test]
fn generated_requests_to_compute_without_a_version_cause_no_server_error() {
    answers_as_documented(1, "compute.json", "compute", None);
}

#[test]
fn generated_requests_to_identity_are_answered_as_documented() {
    answers_as_documented(2, "identity.json", "identity", None);
}

/// Sends generated requests to one service. `number` makes the names of its objects unique.
fn answers_as_documented(number: usize, document: &str, path: &str, version: Option<&str>) {
    let mut cloud = Cloud::start("made-up", &[]);
    let token = cloud.token();
    let answers = cloud.host.node.home.path("answers.json");
    let before = cloud.host.up.resident_kib();
    let begun = Instant::now();
    let known = plant(&cloud, &token, number).to_string();
    let mut headers = vec![format!("X-Auth-Token: {token}")];
    match version {
        Some(version) => headers.push(format!("OpenStack-API-Version: {version}")),
        None if path == "identity" => headers.push(format!("X-Subject-Token: {}", cloud.token())),
        None => {}
    }
    let url = format!("{}/{path}", cloud.base);
    let run = Schemathesis {
        document,
        url: &url,
        headers: &headers,
        checks: match version {
            None if path == "compute" => "not_a_server_error",
            _ => CHECKS,
        },
        phases: match version {
            None if path == "compute" => "fuzzing",
            _ => "coverage,fuzzing",
        },
        examples: set("BERTH_CLOUD_EXAMPLES", 3),
        seed: set("BERTH_CLOUD_SEED", 1),
        hooks: ("cloud_input", "program"),
        environment: &[
            ("BERTH_KNOWN", known),
            ("BERTH_ANSWERS", answers.display().to_string()),
        ],
    };
    let asked = run.run().unwrap_or_else(|error| {
        let after = cloud.host.up.resident_kib();
        report(0, (before, after), 1);
        panic!("{error}\n{}", cloud.host.up.stderr())
    });
    let answers = fs::read_to_string(&answers).expect("the hooks write it");
    println!(
        "{document}: {asked} requests in {:?}, {answers}",
        begun.elapsed()
    );
    let answers: BTreeMap<String, u64> = serde_json::from_str(&answers).expect("JSON");
    let nothing = answers.get("404").copied().unwrap_or_default();
    let all: u64 = answers.values().sum();
    assert!(2 * nothing < all, "most reach nothing: {answers:?}");
    let after = cloud.host.up.resident_kib();
    report(asked, (before, after), 0);
    let fewest = if run.phases == "fuzzing" { 200 } else { 1_000 };
    assert!(asked > fewest, "{asked}");
    // It is the same service still, and does what it is there for.
    cloud.token();
    assert!(!cloud.host.up.has_ended());
    let up = cloud.host.up;
    let ended = up.stop(PATIENCE).expect("it ends");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
}
