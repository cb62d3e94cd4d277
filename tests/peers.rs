//! Tests of the peers: the real services start, and behave as the other tests expect.

use std::sync::{Mutex, OnceLock};

use berth_tests::exchange::HttpCall;
use berth_tests::peer::{
    Credentials, KeystoneSettings, Libvirtd, MariaDb, PeerError, PlacementSettings, RealKeystone,
    RealPlacement,
};
use http::Method;
use serde_json::{Value, json};

const HOST: &str = "8a4ee1de-5f0c-4b14-9e4b-d7b3cbbf3ad1";
const CONSUMER: &str = "0e0a2a4c-12c1-4a43-8f7a-2a4a0e5d8a11";

fn keystone() -> &'static RealKeystone {
    static KEYSTONE: OnceLock<RealKeystone> = OnceLock::new();
    static STARTING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = STARTING.lock().expect("no test panicked while starting it");
    KEYSTONE
        .get_or_init(|| RealKeystone::start(KeystoneSettings::default()).expect("Keystone starts"))
}

#[track_caller]
fn expect(status: u16, ask: HttpCall) -> Value {
    let answer = ask.send().expect("an answer");
    assert_eq!(answer.status.as_u16(), status, "{}", answer.text());
    answer.json()
}

/// A provider, its inventory, an allocation: written, read again, and gone after a reset.
fn round_trip(settings: PlacementSettings) {
    let mut placement = RealPlacement::lease(settings).expect("Placement starts");
    let versions = expect(200, HttpCall::get(placement.url()));
    assert_eq!(versions["versions"][0]["max_version"], "1.39");

    let provider = json!({"name": "node-1", "uuid": HOST});
    expect(
        200,
        placement
            .ask(Method::POST, "/resource_providers", "1.39")
            .json(&provider),
    );
    let path = format!("/resource_providers/{HOST}/inventories");
    let inventories =
        json!({"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8}}});
    expect(
        200,
        placement.ask(Method::PUT, &path, "1.39").json(&inventories),
    );
    let read = expect(200, placement.ask(Method::GET, &path, "1.39"));
    assert_eq!(read["inventories"]["VCPU"]["total"], 8);

    let allocation = json!({"allocations": {HOST: {"resources": {"VCPU": 2}}}, "project_id": "p", "user_id": "u",
        "consumer_generation": null, "consumer_type": "INSTANCE"});
    let path = format!("/allocations/{CONSUMER}");
    expect(
        204,
        placement.ask(Method::PUT, &path, "1.39").json(&allocation),
    );
    let beneath = placement
        .query("select used from allocations")
        .expect("the rows");
    assert_eq!(beneath, [["2"]]);

    placement.reset().expect("a reset");
    let providers = expect(
        200,
        placement.ask(Method::GET, "/resource_providers", "1.39"),
    );
    assert_eq!(providers["resource_providers"], json!([]));
}

#[test]
fn placement_on_sqlite_stores_all_values_unchanged() {
    round_trip(PlacementSettings::default());
}

#[test]
fn placement_on_mariadb_stores_all_values_unchanged() {
    round_trip(PlacementSettings::on_mariadb());
}

#[test]
fn placement_on_postgresql_stores_all_values_unchanged() {
    round_trip(PlacementSettings::on_postgres());
}

#[test]
fn a_killed_placement_restarts_on_its_port_with_its_rows() {
    let mut placement =
        RealPlacement::lease(PlacementSettings::default()).expect("Placement starts");
    let url = placement.url();
    let provider = json!({"name": "node-1", "uuid": HOST});
    expect(
        200,
        placement
            .ask(Method::POST, "/resource_providers", "1.39")
            .json(&provider),
    );
    placement.kill();
    assert!(
        HttpCall::get(&url).send().is_err(),
        "nothing listens after a kill"
    );
    placement.restart().expect("it starts again");
    assert_eq!(placement.url(), url);
    expect(
        200,
        placement.ask(Method::GET, &format!("/resource_providers/{HOST}"), "1.39"),
    );
}

#[test]
fn mariadb_is_one_server_for_all_concurrent_users() {
    let (one, other) = (
        MariaDb::shared().expect("MariaDB"),
        MariaDb::shared().expect("MariaDB"),
    );
    assert_eq!(one.pid(), other.pid());
    let database = one.create().expect("a database");
    assert_eq!(
        database.query("select 40 + 2").expect("an answer"),
        [["42"]]
    );
}

#[test]
fn keystone_lets_berth_in_by_password_and_by_application_credential() {
    let keystone = keystone();
    for credentials in [keystone.berth(), keystone.application_credential()] {
        let token = keystone.token(&credentials).expect("a token");
        let ask = HttpCall::get(format!("{}/auth/tokens", keystone.url()));
        let read = expect(
            200,
            ask.header("x-auth-token", &token)
                .header("x-subject-token", &token),
        );
        let roles: Vec<&str> = read["token"]["roles"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|role| role["name"].as_str())
            .collect();
        assert!(
            roles.contains(&"service") && roles.contains(&"admin"),
            "{roles:?}"
        );
    }
    let wrong = Credentials::Password {
        username: "berth".into(),
        password: "wrong".into(),
    };
    let error = keystone.token(&wrong).expect_err("a wrong password");
    assert!(
        matches!(error, PeerError::Answer { status: 401, .. }),
        "{error}"
    );
}

#[test]
fn placement_behind_keystone_lets_only_the_service_role_reshape() {
    let keystone = keystone();
    let placement =
        RealPlacement::lease(PlacementSettings::behind(keystone)).expect("Placement starts");
    keystone
        .set_placement_endpoint(&placement.url())
        .expect("a catalog entry");
    let ask = |token: &str, method, path: &str| {
        HttpCall::new(method, format!("{}{path}", placement.url()))
            .header("x-auth-token", token)
            .header("openstack-api-version", "placement 1.30")
    };
    expect(
        401,
        ask("no such token", Method::GET, "/resource_providers"),
    );

    let berth = keystone.token(&keystone.berth()).expect("a token");
    let provider = json!({"name": "node-1", "uuid": HOST});
    expect(
        200,
        ask(&berth, Method::POST, "/resource_providers").json(&provider),
    );
    let inventories =
        json!({"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8}}});
    let reshape = json!({"inventories": {HOST: inventories}, "allocations": {}});
    let admin = keystone
        .token(&keystone.berth_admin_only())
        .expect("a token");
    for (token, status) in [(&admin, 403), (&berth, 204)] {
        expect(200, ask(token, Method::GET, "/resource_providers"));
        expect(status, ask(token, Method::POST, "/reshaper").json(&reshape));
    }

    let read =
        HttpCall::get(format!("{}/auth/catalog", keystone.url())).header("x-auth-token", &berth);
    assert!(
        expect(200, read).to_string().contains(&placement.url()),
        "the catalog names Placement"
    );
}

#[test]
fn a_token_of_a_short_life_is_refused_after_it() {
    let keystone = RealKeystone::start(KeystoneSettings {
        token_expiration: 5,
    })
    .expect("Keystone starts");
    let placement =
        RealPlacement::start(PlacementSettings::behind(&keystone)).expect("Placement starts");
    let log_in = || keystone.token(&keystone.berth()).expect("a token");
    let status = |token: &str| {
        let ask = HttpCall::get(format!("{}/resource_providers", placement.url()))
            .header("x-auth-token", token);
        ask.send().expect("an answer").status.as_u16()
    };
    // On a busy machine a token may be out of date before its first use.
    let token = (0..50)
        .map(|_| log_in())
        .find(|token| status(token) == 200)
        .expect("a token that lives");
    let refused = std::iter::repeat_with(|| status(&token)).find(|status| *status != 200);
    assert_eq!(refused, Some(401));
}

#[test]
fn libvirtd_answers_and_finds_its_guests_again_after_a_restart() {
    let mut libvirtd = Libvirtd::start().expect("libvirtd starts");
    let version = libvirtd.virsh(&["version"]).expect("an answer");
    assert!(version.contains("QEMU"), "{version}");
    let guest = "<domain type='qemu'><name>guest</name><memory unit='MiB'>64</memory><vcpu>1</vcpu>\
        <os><type arch='x86_64' machine='q35'>hvm</type></os><features><acpi/></features></domain>";
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), guest).expect("written");
    libvirtd
        .virsh(&["create", &file.path().display().to_string(), "--paused"])
        .expect("a guest");
    libvirtd.kill();
    assert!(
        libvirtd.virsh(&["version"]).is_err(),
        "no answer after a kill"
    );
    libvirtd.restart().expect("it starts again");
    let state = libvirtd.virsh(&["domstate", "guest"]).expect("the guest");
    assert_eq!(state.trim(), "paused");
}
