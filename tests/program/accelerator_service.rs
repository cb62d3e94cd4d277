//! `berth accelerator serve`: from a host's report to a bound request, through a kill; and conditions that prevent it
//! from serving.

use berth_tests::berth::{BerthHome, RunningBerth};
use berth_tests::exchange::{HttpAnswer, HttpCall};
use berth_tests::peer::{MariaDb, Postgres};
use serde_json::{Value, json};

use crate::program::hypervisor::PATIENCE;

const RP: &str = "f9d7848a-7688-361f-8e4b-3e58185de5fe";
const GUEST: &str = "5c965fc9-a7cd-4d38-8ccb-d8821db50d03";

/// A home with a service that listens on a port of its own choice.
pub(crate) fn home() -> BerthHome {
    let home = BerthHome::new().expect("a home");
    let text = "state_path = \"@HOME@/state\"\n[accelerator_service]\nlisten = \"127.0.0.1:0\"\n";
    home.configure(text).expect("a configuration");
    home
}

/// The service of that home and its URL, with `/v2`.
pub(crate) fn serve(home: &mut BerthHome) -> (RunningBerth, String) {
    let config = home.config_file().display().to_string();
    let arguments = ["--config", &config, "accelerator", "serve"];
    let mut berth = home.start(arguments).expect("it starts");
    let url = berth.wait_for_line(PATIENCE, "Accelerator at ");
    let url = url.expect("it says where it is");
    (berth, url)
}

fn send(ask: HttpCall) -> HttpAnswer {
    ask.header("x-auth-token", "admin")
        .send()
        .expect("an answer")
}

/// Reports a host with one device; the answer. Of each test there is one such host.
pub(crate) fn report(url: &str, host: &str) -> Value {
    let address = json!({"domain": "0000", "bus": "84", "device": "00", "function": "0"});
    let handle = json!({"attach_type": "PCI", "attach_info": address});
    let deployable = json!({"name": "node_0000:84:00.0", "rp_uuid": RP, "resource_class": "PGPU", "attach_handles": [handle]});
    let device = json!({"name": "0000:84:00.0", "type": "GPU", "vendor": "10de", "deployables": [deployable]});
    let path = url.replace("/v2", &format!("/internal/v1/hosts/{host}/devices"));
    let answer = send(HttpCall::put(path).json(&json!({"devices": [device]})));
    assert_eq!(answer.status.as_u16(), 200, "{}", answer.text());
    answer.json()
}

/// A request, bound on that host for the guest; its UUID.
pub(crate) fn bound(url: &str, host: &str) -> String {
    let groups = json!([{"resources:PGPU": "1"}]);
    let profile = json!([{"name": "gpu", "groups": groups}]);
    let made = send(HttpCall::post(format!("{url}/device_profiles")).json(&profile));
    assert_eq!(made.status.as_u16(), 201, "{}", made.text());
    let requests = format!("{url}/accelerator_requests");
    let made = send(HttpCall::post(&requests).json(&json!({"device_profile_name": "gpu"})));
    let uuid = made.json()["arqs"][0]["uuid"]
        .as_str()
        .expect("a uuid")
        .to_owned();
    let add = |path: &str, value: &str| json!({"path": path, "op": "add", "value": value});
    let steps = json!([
        add("/hostname", host),
        add("/device_rp_uuid", RP),
        add("/instance_uuid", GUEST)
    ]);
    let patch = HttpCall::new(http::Method::PATCH, &requests).json(&json!({ uuid.clone(): steps }));
    let answer = send(patch);
    assert_eq!(answer.status.as_u16(), 202, "{}", answer.text());
    uuid
}

#[test]
fn bound_requests_survive_a_kill_and_the_end_is_clean() {
    let mut home = home();
    let (mut berth, url) = serve(&mut home);
    report(&url, "node");
    let uuid = bound(&url, "node");
    berth.kill();
    drop(berth);
    let (berth, url) = serve(&mut home);
    let found = send(HttpCall::get(format!("{url}/accelerator_requests/{uuid}"))).json();
    assert_eq!(
        (&found["state"], &found["instance_uuid"]),
        (&json!("Bound"), &json!(GUEST))
    );
    assert_eq!(found["attach_handle_info"]["bus"], "84");
    let known = report(&url, "node");
    let handle = &known["devices"][0]["deployables"][0]["attach_handles"][0];
    assert_eq!(handle["arq_uuid"], uuid.as_str());
    let unknown = HttpCall::get(format!("{url}/devices"))
        .send()
        .expect("an answer");
    assert_eq!(unknown.status.as_u16(), 401);
    let ended = berth.stop(PATIENCE).expect("it ends");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
}

/// Two processes on one server's database, with the URL in a file; one is killed.
fn two_on(database_url: &str) {
    let mut homes = [home(), home()];
    let mut served = homes.iter_mut().map(|home| {
        let file = home.write("url", &format!("{database_url}\n"));
        let file = file.expect("a file").display().to_string();
        home.set_env(
            "BERTH__ACCELERATOR_SERVICE__CONNECTION",
            format!("file:{file}"),
        );
        serve(home)
    });
    let [(mut one, first), (other, second)] = std::array::from_fn(|_| served.next().expect("one"));
    report(&first, "node");
    let uuid = bound(&second, "node");
    one.kill();
    let found = send(HttpCall::get(format!(
        "{second}/accelerator_requests/{uuid}"
    )))
    .json();
    assert_eq!(found["state"], "Bound");
    let known = report(&second, "node");
    let handle = &known["devices"][0]["deployables"][0]["attach_handles"][0];
    assert_eq!(handle["arq_uuid"], uuid.as_str());
    let ended = other.stop(PATIENCE).expect("it ends");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(!ended.stderr.contains("test-only"), "{}", ended.stderr);
}

#[test]
fn two_processes_serve_one_database_on_postgresql_and_one_survives() {
    let server = Postgres::shared().expect("a PostgreSQL");
    two_on(&server.create().expect("a database").url());
}

#[test]
fn two_processes_serve_one_database_on_mariadb_and_one_survives() {
    let server = MariaDb::shared().expect("a MariaDB");
    two_on(&server.create().expect("a database").url());
}

#[test]
fn errors_that_prevent_serving_are_clear() {
    let mut home = home();
    let config = home.config_file().display().to_string();
    let mut refused = |arguments: &[&str], code: i32, words: &[&str]| {
        let all = ["--config", &config, "accelerator", "serve"];
        let outcome = home.run(all.iter().chain(arguments)).expect("it runs");
        assert_eq!(outcome.code, code, "{arguments:?}: {}", outcome.stderr);
        for word in words {
            assert!(outcome.stderr.contains(word), "{word}: {}", outcome.stderr);
        }
    };
    refused(
        &["--listen", "0.0.0.0:0"],
        78,
        &["not loopback", "auth_strategy"],
    );
    refused(&["--database", "mongodb://x"], 78, &["sqlite:", "mongodb"]);
    refused(
        &["--database", "sqlite:/nowhere/at/all.sqlite"],
        74,
        &["/nowhere"],
    );
    refused(&["--placement", "not a url"], 78, &["Placement"]);
    let strategy = "[accelerator_service]\nauth_strategy = \"keystone\"\n";
    home.configure(&format!("state_path = \"@HOME@/state\"\n{strategy}"))
        .expect("a configuration");
    let outcome = home.run(["--config", &config, "accelerator", "serve"]);
    let outcome = outcome.expect("it runs");
    assert_eq!(outcome.code, 78, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("auth_url"), "{}", outcome.stderr);
}
