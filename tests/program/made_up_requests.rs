//! Requests that nobody would make, to the compute and the Identity API behind the one listener of `berth up`: schemathesis makes
//! them up by the OpenAPI documents. `make soak` makes more of them.
//!
//!   BERTH_CLOUD_EXAMPLES=4          how many it makes up for each operation, beside those it always makes
//!   BERTH_BAD_INPUT_REPORT=FILE     a line a run: what, requests, KiB resident before and after, violations

use std::env;
use std::time::Instant;

use berth_tests::exchange::Ask;
use berth_tests::peer::{Schemathesis, report_bad_input};
use serde_json::{Value, json};

use crate::cloud::Cloud;
use crate::compute::IMAGE;
use crate::hypervisor::PATIENCE;

/// Every status and body as the document has it, and none of them an error of the service.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";

/// Something of each kind, and what each is called.
fn plant(cloud: &Cloud, token: &str) -> Value {
    let url = |path: &str| format!("{}/compute/v2.1/{path}", cloud.base);
    let made = |path: &str, body: Value| cloud.asked(token, Ask::post(url(path)).json(&body));
    let flavor =
        json!({"flavor": {"name": "tiny", "id": "tiny", "ram": 64, "vcpus": 1, "disk": 0}});
    made("flavors", flavor);
    let group = json!({"server_group": {"name": "apart", "policy": "soft-anti-affinity"}});
    let group = made("os-server-groups", group);
    let aggregate = made("os-aggregates", json!({"aggregate": {"name": "rack"}}));
    let key = json!({"keypair": {"name": "key", "public_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJW1Vx0qkq5oXk2rYQY2b8m1k9qJH6jJxYzV9o0cQ8aP me"}});
    made("os-keypairs", key);
    let servers: Vec<Value> = (0..6)
        .map(|n| {
            let server = json!({"server": {"name": format!("web{n}"), "flavorRef": "tiny", "imageRef": IMAGE, "networks": "none"}});
            made("servers", server)["server"]["id"].clone()
        })
        .collect();
    let hypervisors = cloud.asked(token, Ask::get(url("os-hypervisors")));
    let services = cloud.asked(token, Ask::get(url("os-services")));
    let projects = format!("{}/identity/v3/projects", cloud.base);
    let project = cloud.asked(token, Ask::get(projects))["projects"][0]["id"].clone();
    json!({
        "flavor": ["tiny"], "flavorRef": ["tiny"], "imageRef": [IMAGE], "rescue_image_ref": [IMAGE],
        "server": servers, "server_uuid": servers, "group": [group["server_group"]["id"]],
        "aggregate": [aggregate["aggregate"]["id"].to_string()],
        "hypervisor": [hypervisors["hypervisors"][0]["id"]], "service": [services["services"][0]["id"]],
        "host": [services["services"][0]["host"]], "key_name": ["key"], "availability_zone": ["nova"],
        "project": [project], "tenant": [project], "user_id": ["admin"], "name": ["key", "admin"],
    })
}

fn examples() -> u64 {
    env::var("BERTH_CLOUD_EXAMPLES").map_or(4, |text| text.parse().expect("a number"))
}

#[test]
fn whatever_is_asked_of_compute_and_identity_is_answered_as_their_documents_say() {
    let mut cloud = Cloud::start("made-up", &[]);
    let token = cloud.token();
    let known = plant(&cloud, &token).to_string();
    let mut requests = 0;
    let before = cloud.host.up.resident_kib();
    for (document, path, version) in [
        ("compute.json", "compute", Some("compute 2.82")),
        ("compute.json", "compute", None),
        ("identity.json", "identity", None),
    ] {
        let begun = Instant::now();
        let mut headers = vec![format!("X-Auth-Token: {token}")];
        match version {
            Some(version) => headers.push(format!("OpenStack-API-Version: {version}")),
            None if path == "identity" => {
                headers.push(format!("X-Subject-Token: {}", cloud.token()))
            }
            None => {}
        }
        let url = format!("{}/{path}", cloud.base);
        let run = Schemathesis {
            document,
            url: &url,
            headers: &headers,
            // The documents tell the newest bodies.
            checks: match version {
                None if path == "compute" => "not_a_server_error",
                _ => CHECKS,
            },
            phases: match version {
                None if path == "compute" => "fuzzing",
                _ => "coverage,fuzzing",
            },
            examples: examples(),
            seed: 1,
            hooks: ("cloud_input", "program"),
            environment: &[("BERTH_KNOWN", known.clone())],
        };
        let asked = run
            .run()
            .unwrap_or_else(|error| panic!("{error}\n{}", cloud.host.up.stderr()));
        println!("{document}: {asked} requests in {:?}", begun.elapsed());
        requests += asked;
    }
    let after = cloud.host.up.resident_kib();
    report_bad_input(&format!(
        "schemathesis, compute and identity\t{requests}\t{before}\t{after}\t0"
    ));
    assert!(requests > 1_000, "{requests}");
    // It is the same service still, and does what it is there for.
    cloud.token();
    assert!(!cloud.host.up.has_ended());
    let up = cloud.host.up;
    let ended = up.stop(PATIENCE).expect("it ends");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
}
