//! `berth placement explain`, against the real Placement and against a database that no service has open.

use berth_tests::berth::BerthHome;
use http::Method;
use serde_json::{Value, json};

use crate::program::hypervisor::PATIENCE;
use crate::program::placement_api::Api;

const FAST: &str = "CUSTOM_FAST";

/// Three hosts: one has much, one is fast, one has a GPU below its root.
fn three_hosts(api: &Api) {
    api.expect(201, Method::PUT, &format!("/traits/{FAST}"), &Value::Null);
    for (number, name, vcpu) in [(1, "big", 64), (2, "fast", 8), (3, "gpu", 8)] {
        let uuid = uuid(number);
        let body = json!({"name": name, "uuid": uuid});
        api.expect(200, Method::POST, "/resource_providers", &body);
        inventory(
            api,
            &uuid,
            0,
            &json!({"VCPU": {"total": vcpu}, "MEMORY_MB": {"total": 4096, "step_size": 512}}),
        );
    }
    let traits = json!({"traits": [FAST], "resource_provider_generation": 1});
    api.expect(
        200,
        Method::PUT,
        &format!("/resource_providers/{}/traits", uuid(2)),
        &traits,
    );
    let body = json!({"name": "gpu_0", "uuid": uuid(4), "parent_provider_uuid": uuid(3)});
    api.expect(200, Method::POST, "/resource_providers", &body);
    inventory(api, &uuid(4), 0, &json!({"PGPU": {"total": 1}}));
}

fn uuid(number: u32) -> String {
    format!("00000000-0000-0000-0000-{number:012}")
}

fn inventory(api: &Api, provider: &str, generation: u32, inventories: &Value) {
    let body = json!({"resource_provider_generation": generation, "inventories": inventories});
    let path = format!("/resource_providers/{provider}/inventories");
    api.expect(200, Method::PUT, &path, &body);
}

#[track_caller]
fn explanation(home: &mut BerthHome, query: &str, more: &[&str]) -> String {
    let arguments = [&["placement", "explain", query][..], more].concat();
    let config = home.config_file();
    let config = config.is_file().then(|| config.display().to_string());
    let with_config = config.as_ref().map(|file| ["--config", file]);
    let outcome = home.run([with_config.as_ref().map_or(&[][..], |it| it), &arguments].concat());
    let outcome = outcome.expect("it runs");
    assert_eq!(outcome.code, 0, "{query}: {}", outcome.stderr);
    outcome.stdout
}

#[test]
fn an_empty_answer_is_explained_by_leaving_out_one_demand_at_a_time() {
    let api = Api::lease();
    three_hosts(&api);
    let mut home = BerthHome::new().expect("a home");
    home.configure(&format!("[placement]\n{}", api.way()))
        .expect("a file");
    for (query, expected) in [
        ("resources=VCPU:1", "3 candidates on 3 hosts.\n"),
        (
            "/allocation_candidates?resources=VCPU%3A1%2CPGPU%3A1&limit=1",
            "1 candidate on 1 host.\n",
        ),
        (
            "resources=VCPU:16&required=CUSTOM_FAST",
            "No candidate: no host meets all demands; leaving out any of these would give one: trait CUSTOM_FAST; 16 VCPU (the most that a \
             provider has free is 8).\n",
        ),
        (
            "resources=VCPU:65,MEMORY_MB:512",
            "No candidate: no provider meets 65 VCPU (the most that a provider has free is 64), even by itself.\n",
        ),
        (
            "resources=VCPU:1,MEMORY_MB:100",
            "No candidate: no provider meets 100 MEMORY_MB (this much is free, but min_unit, max_unit or step_size",
        ),
        (
            "resources=VCPU:1&resources_gpu=PGPU:1&required_gpu=CUSTOM_FAST&root_required=CUSTOM_FAST",
            "No candidate: no provider meets trait CUSTOM_FAST in group _gpu, even by itself.\n",
        ),
        (
            "resources=VCPU:64&required=CUSTOM_FAST&member_of=00000000-0000-0000-0000-00000000000a",
            "No candidate: no provider meets aggregate 00000000-0000-0000-0000-00000000000a, even by itself.\n",
        ),
        (
            "resources=VCPU:1,CUSTOM_GONE:1&required=CUSTOM_NEVER",
            "No candidate: no host ever reported these: ",
        ),
        (
            "resources=VCPU:100",
            "No candidate: no provider meets 100 VCPU (the most that a provider has free is 64), even by itself.\n",
        ),
        (
            "resources=VCPU:100,MEMORY_MB:99999999",
            "No candidate: no provider meets any of these, even by itself: 99999999 MEMORY_MB (the most that a provider has free is",
        ),
        (
            "resources=VGPU:1",
            "No candidate: no provider meets 1 VGPU, even by itself.\n",
        ),
        (
            "resources=VCPU:1&member_of=00000000-0000-0000-0000-00000000000a",
            "No candidate: no provider meets aggregate 00000000-0000-0000-0000-00000000000a, even by itself.\n",
        ),
        (
            "resources=VCPU:1&required=in:CUSTOM_FAST,HW_CPU_X86_AVX&required=!CUSTOM_FAST",
            "No candidate: no host meets all demands; leaving out any of these would give one: one of the traits CUSTOM_FAST, HW_CPU_X86_AVX; \
             no trait CUSTOM_FAST.\n",
        ),
    ] {
        let text = explanation(&mut home, query, &[]);
        assert!(text.starts_with(expected), "{query}: {text}");
    }
    let rows = explanation(
        &mut home,
        "resources=VCPU:16&required=CUSTOM_FAST",
        &["-f", "json"],
    );
    let rows: Value = serde_json::from_str(&rows).expect("JSON");
    assert_eq!(
        rows["items"],
        json!([
            {"requirement": "trait CUSTOM_FAST", "blocks": "yes", "candidates_if_dropped": 1, "hosts_if_dropped": 1, "free": null},
            {"requirement": "16 VCPU", "blocks": "yes", "candidates_if_dropped": 1, "hosts_if_dropped": 1, "free": 8},
        ])
    );
    let arguments = ["placement", "explain", "resources=VCPU:none"];
    let refused = home.run(arguments).expect("it runs");
    assert_eq!(refused.code, 78, "{}", refused.stderr);
    assert!(refused.stderr.contains("VCPU:none"), "{}", refused.stderr);
    // Errors that only Placement can detect are reported as its message, as usage errors.
    let config = home.config_file().display().to_string();
    let query = "resources=VCPU:1&in_tree=acc-01";
    let arguments = ["--config", &config, "placement", "explain", query];
    let refused = home.run(arguments).expect("it runs");
    assert_eq!(refused.code, 78, "{}", refused.stderr);
    assert!(refused.stderr.contains("in_tree"), "{}", refused.stderr);
    assert!(!refused.stderr.contains("as berth"), "{}", refused.stderr);
}

#[test]
fn a_database_without_a_service_can_be_queried_too() {
    let mut home = BerthHome::new().expect("a home");
    let database = format!("sqlite:{}", home.path("placement.sqlite").display());
    let missing = home.run([
        "placement",
        "explain",
        "resources=VCPU:1",
        "--database",
        &database,
    ]);
    let missing = missing.expect("it runs");
    assert!(
        missing.stderr.contains("no database at"),
        "{}",
        missing.stderr
    );
    let mut service = home
        .start([
            "placement",
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--database",
            &database,
        ])
        .expect("it starts");
    service
        .wait_for_line(PATIENCE, "Placement at ")
        .expect("it says where it is");
    let held = home.run([
        "placement",
        "explain",
        "resources=VCPU:1",
        "--database",
        &database,
    ]);
    assert_eq!(held.expect("it runs").code, 73);
    service
        .stop(std::time::Duration::from_secs(60))
        .expect("it ends");
    let text = explanation(&mut home, "resources=VCPU:1", &["--database", &database]);
    assert!(
        text.starts_with("No candidate: no provider meets 1 VCPU, even by itself.\n"),
        "{text}"
    );
}
