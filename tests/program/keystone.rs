//! A node with the real Keystone and the default policy of a new deployment.

use std::sync::{Mutex, OnceLock};

use berth_tests::berth::Outcome;
use berth_tests::exchange::{HttpAnswer, HttpCall};
use berth_tests::fault_proxy::{FaultProxy, ProxyFault, ProxyRule};
use berth_tests::peer::{
    Credentials, KeystoneSettings, PlacementSettings, RealKeystone, RealPlacement,
};
use berth_tests::port::free_port;
use http::Method;
use serde_json::{Value, json};

use crate::program::hypervisor::{Hypervisor, PATIENCE};

/// A Keystone and the Placement in its catalog.
pub(crate) struct Region {
    pub(crate) keystone: RealKeystone,
    placement: RealPlacement,
}

impl Region {
    pub(crate) fn start(settings: KeystoneSettings) -> Self {
        let keystone = RealKeystone::start(settings).expect("Keystone starts");
        let placement =
            RealPlacement::start(PlacementSettings::behind(&keystone)).expect("Placement starts");
        keystone
            .set_placement_endpoint(&placement.url())
            .expect("a catalog entry");
        Self {
            keystone,
            placement,
        }
    }

    /// The environment that tests share, each with its own node.
    pub(crate) fn shared() -> &'static Self {
        static REGION: OnceLock<Region> = OnceLock::new();
        static STARTING: Mutex<()> = Mutex::new(());
        let _one_at_a_time = STARTING.lock().expect("no test panicked while starting it");
        REGION.get_or_init(|| Region::start(KeystoneSettings::default()))
    }

    /// `[placement]` for this user.
    pub(crate) fn login(&self, credentials: &Credentials) -> String {
        login(&self.keystone.url(), credentials)
    }

    /// The options of `[keystone_authtoken]` with which a service validates tokens as this user.
    pub(crate) fn account(&self, credentials: &Credentials) -> Vec<(&'static str, String)> {
        let Credentials::Password { username, password } = credentials else {
            panic!("a service logs in with a password");
        };
        vec![
            ("AUTH_URL", self.keystone.url()),
            ("USERNAME", username.clone()),
            ("PASSWORD", password.clone()),
            ("USER_DOMAIN_NAME", "Default".to_owned()),
            ("PROJECT_NAME", credentials.project().to_owned()),
            ("PROJECT_DOMAIN_NAME", "Default".to_owned()),
        ]
    }

    /// The Placement in its catalog.
    pub(crate) fn placement_url(&self) -> String {
        self.placement.url()
    }

    fn ask(&self, method: Method, path: &str) -> HttpCall {
        let token = self
            .keystone
            .token(&self.keystone.berth())
            .expect("a token");
        HttpCall::new(method, format!("{}{path}", self.placement.url()))
            .header("x-auth-token", &token)
            .header("openstack-api-version", "placement 1.39")
    }

    /// The names of the providers in the tree of a node.
    fn tree(&self, root: &str) -> Vec<String> {
        let answer = self
            .ask(Method::GET, &format!("/resource_providers?in_tree={root}"))
            .send();
        names(&answer.expect("an answer"))
    }
}

fn names(answer: &HttpAnswer) -> Vec<String> {
    let body = answer.json();
    let providers = body["resource_providers"].as_array().expect("a list");
    providers
        .iter()
        .map(|provider| provider["name"].as_str().unwrap_or_default().to_owned())
        .collect()
}

fn login(url: &str, credentials: &Credentials) -> String {
    match credentials {
        Credentials::Password { username, password }
        | Credentials::Tenant { username, password } => format!(
            "auth_type = \"password\"\nauth_url = \"{url}\"\nusername = \"{username}\"\npassword = \"{password}\"\n\
             user_domain_id = \"default\"\nproject_name = \"{}\"\nproject_domain_id = \"default\"",
            credentials.project()
        ),
        Credentials::ApplicationCredential { id, secret } => format!(
            "auth_type = \"v3applicationcredential\"\nauth_url = \"{url}\"\napplication_credential_id = \"{id}\"\n\
             application_credential_secret = \"{secret}\""
        ),
    }
}

#[track_caller]
fn expect(outcome: &Outcome, code: i32, words: &[&str]) {
    assert_eq!(outcome.code, code, "{}", outcome.stderr);
    for word in words {
        assert!(outcome.stderr.contains(word), "{word}: {}", outcome.stderr);
    }
}

#[test]
fn each_way_to_log_in_reports_the_node() {
    let region = Region::shared();
    let keystone = &region.keystone;
    let token = keystone.token(&keystone.berth()).expect("a token");
    let by_token = format!(
        "auth_type = \"v3token\"\nauth_url = \"{}\"\ntoken = \"{token}\"\nproject_name = \"service\"\n\
         project_domain_id = \"default\"",
        keystone.url()
    );
    let endpoint = region.placement.url();
    let ways = [
        ("password", region.login(&keystone.berth())),
        (
            "application-credential",
            region.login(&keystone.application_credential()),
        ),
        ("token", by_token),
        (
            "admin-token",
            format!("auth_type = \"admin_token\"\nendpoint = \"{endpoint}\"\ntoken = \"{token}\""),
        ),
    ];
    for (way, placement) in ways {
        let mut node = Hypervisor::new("pcpu", way, &placement);
        expect(&node.once(), 0, &[]);
        assert_eq!(region.tree(&node.root()), [way]);
    }
}

#[test]
fn the_role_admin_alone_cannot_reshape_and_the_error_names_role_and_command() {
    let region = Region::shared();
    let berth = region.login(&region.keystone.berth());
    let mut node = Hypervisor::new("eight-gpu-flat", "wrong-role", &berth);
    expect(&node.once(), 0, &[]);
    let root = node.root();
    let claim = json!({"allocations": {&root: {"resources": {"VGPU": 1, "VCPU": 8}}}, "project_id": "p",
        "user_id": "u", "consumer_generation": null, "consumer_type": "INSTANCE"});
    // The guest "single" of the machine.
    let consumer = "/allocations/f2e3fac2-308a-5bb4-a8d7-292d9a96eb01";
    let claimed = region.ask(Method::PUT, consumer).json(&claim).send();
    assert_eq!(claimed.expect("an answer").status.as_u16(), 204);
    let held = || -> Value {
        let answer = region.ask(Method::GET, consumer).send();
        answer.expect("an answer").json()["allocations"].clone()
    };
    let before = held();

    node.edit("vgpu = \"root\"", "vgpu = \"per-gpu\"");
    let admin_only = region.login(&region.keystone.berth_admin_only());
    node.configure(&admin_only, "");
    let manager = node.managed();
    let refused = node
        .start(&["agent"])
        .wait(PATIENCE)
        .expect("the agent ends");
    expect(
        &refused,
        76,
        &["role service", "openstack role add", "ReshapeFailed"],
    );
    assert!(!manager.has_received("READY=1"), "{:?}", manager.received());
    assert!(
        manager.status().contains("role service"),
        "{:?}",
        manager.received()
    );
    assert_eq!(region.tree(&root), ["wrong-role"], "half-made children");
    assert_eq!(held(), before);
    let unit = include_str!("../../systemd/berth-agent.service");
    assert!(
        unit.lines()
            .any(|line| line.starts_with("RestartPreventExitStatus=") && line.contains("76"))
    );

    node.configure(&berth, "");
    expect(&node.once(), 0, &[]);
    assert_eq!(region.tree(&root).len(), 9);
    assert_eq!(held().as_object().map(serde_json::Map::len), Some(2));
}

#[test]
fn a_wrong_password_is_reported_without_the_password() {
    let region = Region::shared();
    let wrong = Credentials::Password {
        username: "berth".to_owned(),
        password: "planted-secret".to_owned(),
    };
    let mut node = Hypervisor::new("pcpu", "wrong-password", &region.login(&wrong));
    let ended = node
        .start(&["agent"])
        .wait(PATIENCE)
        .expect("the agent ends");
    expect(&ended, 78, &["berth", "401", &region.keystone.url()]);
    assert!(!ended.stderr.contains("planted-secret"), "{}", ended.stderr);
}

#[test]
fn the_error_lists_the_catalogs_entries_if_region_or_interface_is_wrong() {
    let region = Region::shared();
    let berth = region.login(&region.keystone.berth());
    let name = region.keystone.region();
    for (line, words) in [
        ("region_name = \"Nowhere\"", vec!["Nowhere", name]),
        ("service_type = \"volume\"", vec!["volume", "placement"]),
    ] {
        let mut node = Hypervisor::new("pcpu", "wrong-region", &format!("{berth}\n{line}"));
        let ended = node
            .start(&["agent"])
            .wait(PATIENCE)
            .expect("the agent ends");
        expect(&ended, 78, &words);
    }
}

#[test]
fn an_unreachable_keystone_is_awaited_at_start() {
    let region = Region::shared();
    let port = free_port().expect("a port");
    let away = login(
        &format!("http://127.0.0.1:{port}/v3"),
        &region.keystone.berth(),
    );
    let mut node = Hypervisor::new("pcpu", "keystone-away", &away);
    let manager = node.managed();
    let mut agent = node.start(&["agent"]);
    let reported = || manager.status().contains(&port.to_string());
    agent
        .wait_until(PATIENCE, reported)
        .expect("it names the service that is down");
    assert!(!manager.has_received("READY=1"));
    assert!(
        manager
            .received()
            .iter()
            .any(|line| line.starts_with("EXTEND_TIMEOUT_USEC="))
    );
    drop(agent);

    let once = node.run(&["agent", "--once", "--deadline", "2s"]);
    expect(&once, 69, &[&port.to_string(), "2s"]);
}

#[test]
fn an_expired_token_is_renewed_and_the_agent_ticks_on() {
    let region = Region::start(KeystoneSettings {
        token_expiration: 10,
    });
    let keystone = FaultProxy::start(&region.keystone.url()).expect("a proxy");
    let placement = FaultProxy::start(&region.placement.url()).expect("a proxy");
    let berth = region.keystone.berth();
    let way = login(&format!("{}/v3", keystone.url()), &berth);
    let way = format!("{way}\nendpoint_override = \"{}\"", placement.url());
    let mut node = Hypervisor::new("pcpu", "short-lived", &way);
    let manager = node.managed();
    let mut agent = node.start(&["agent"]);
    agent
        .wait_until(PATIENCE, || manager.has_received("READY=1"))
        .expect("it is ready");
    // The second token from here on replaces an expired one.
    keystone.forget();
    let logins = || keystone.count("POST", "/v3/auth/tokens");
    agent
        .wait_until(PATIENCE, || logins() >= 2)
        .expect("it logs in again and again");
    let answered = |status: u16| {
        let trace = placement.trace();
        trace
            .iter()
            .filter(|crossing| crossing.status == Some(status))
            .count()
    };
    let before = answered(200);
    agent
        .wait_until(PATIENCE, || answered(200) > before)
        .expect("it ticks on");
    assert_eq!(answered(403), 0);
    assert!(
        manager.status().starts_with("in sync"),
        "{}",
        manager.status()
    );
    let ended = agent.stop(PATIENCE).expect("it ends");
    expect(&ended, 0, &[]);
}

#[test]
fn a_revoked_token_costs_one_more_login_and_nothing_else() {
    let region = Region::shared();
    let keystone = FaultProxy::start(&region.keystone.url()).expect("a proxy");
    let placement = FaultProxy::start(&region.placement.url()).expect("a proxy");
    let way = login(&format!("{}/v3", keystone.url()), &region.keystone.berth());
    let way = format!("{way}\nendpoint_override = \"{}\"", placement.url());
    let mut node = Hypervisor::new("pcpu", "revoked", &way);
    let manager = node.managed();
    let mut agent = node.start(&["agent"]);
    agent
        .wait_until(PATIENCE, || manager.has_received("READY=1"))
        .expect("it is ready");
    assert_eq!(keystone.count("POST", "/v3/auth/tokens"), 1);
    placement.forget();
    // What keystonemiddleware answers to a token that was revoked.
    placement.add_rule(
        ProxyRule::new(ProxyFault::Answer(
            berth_tests::fault_proxy::ErrorAnswer::UNAUTHORIZED,
        ))
        .nth(1),
    );
    agent
        .wait_until(PATIENCE, || placement.trace().len() >= 4)
        .expect("it ticks on");
    assert_eq!(keystone.count("POST", "/v3/auth/tokens"), 2);
    assert!(
        manager.status().starts_with("in sync"),
        "{}",
        manager.status()
    );
    let log = agent.stop(PATIENCE).expect("it ends").stderr;
    assert!(!log.contains("WARN") && !log.contains("ERROR"), "{log}");
}
