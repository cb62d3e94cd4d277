//! `berth placement serve` for other hosts: behind the real Keystone, next to OpenStack's own Placement; an operator's
//! rules; and conditions that prevent it from serving.

use berth_tests::berth::{BerthHome, RunningBerth};
use berth_tests::exchange::{HttpAnswer, HttpCall};
use berth_tests::peer::{Credentials, KeystoneSettings};
use http::Method;
use serde_json::{Value, json};

use crate::program::hypervisor::{Hypervisor, PATIENCE};
use crate::program::keystone::Region;

const SECTION: &str =
    "state_path = \"@HOME@/state\"\n[placement_service]\nlisten = \"127.0.0.1:0\"\n";

fn home(lines: &str) -> BerthHome {
    let home = BerthHome::new().expect("a home");
    home.configure(&format!("{SECTION}{lines}"))
        .expect("a configuration");
    home
}

fn serve(home: &mut BerthHome) -> (RunningBerth, String) {
    let config = home.config_file().display().to_string();
    let berth = home.start(["--config", &config, "placement", "serve"]);
    let mut berth = berth.expect("it starts");
    let url = berth
        .wait_for_line(PATIENCE, "Placement at ")
        .expect("it serves");
    (berth, url)
}

/// A service with callers that send tokens of the region's Keystone.
fn behind(region: &Region, cached: u32) -> (BerthHome, RunningBerth, String) {
    let lines = format!(
        "auth_strategy = \"keystone\"\n[keystone_authtoken]\ntoken_cache_time = {cached}\n"
    );
    let mut home = home(&lines);
    for (option, value) in region.account(&region.keystone.berth()) {
        home.set_env(&format!("BERTH__KEYSTONE_AUTHTOKEN__{option}"), value);
    }
    let (berth, url) = serve(&mut home);
    (home, berth, url)
}

fn ask(
    url: &str,
    (method, path, body): &(Method, String, Value),
    token: Option<&str>,
) -> HttpAnswer {
    let ask = HttpCall::new(method.clone(), format!("{url}{path}"));
    let ask = ask.header("openstack-api-version", "placement 1.39");
    let ask = match body {
        Value::Null => ask,
        body => ask.json(body),
    };
    let ask = match token {
        Some(token) => ask.header("x-auth-token", token),
        None => ask,
    };
    ask.send().expect("an answer")
}

#[test]
fn behind_keystone_it_admits_the_same_callers_as_openstacks_own_placement() {
    let region = Region::shared();
    let keystone = &region.keystone;
    let (_home, berth, ours) = behind(region, 300);
    let theirs = region.placement_url();
    let token = |who: &Credentials| keystone.token(who).expect("a token");
    let revoked = token(&keystone.berth());
    keystone.revoke(&revoked).expect("it is revoked");
    let callers = [
        ("admin and service", Some(token(&keystone.berth()))),
        ("admin", Some(token(&keystone.berth_admin_only()))),
        ("member", Some(token(&keystone.tenant()))),
        (
            "member and service",
            Some(token(&keystone.tenant_service())),
        ),
        (
            "application credential",
            Some(token(&keystone.application_credential())),
        ),
        ("revoked", Some(revoked)),
        ("unknown", Some("no-such-token".to_owned())),
        ("empty", Some(String::new())),
        ("nobody", None),
    ];
    let tenant = keystone.tenant_project();
    let get = |path: &str| (Method::GET, path.to_owned(), Value::Null);
    let requests = [
        get("/"),
        get("/resource_providers?name=none"),
        get("/traits?name=startswith:CUSTOM_NONE"),
        get(&format!("/usages?project_id={tenant}")),
        get("/usages?project_id=another"),
        get("/nothing"),
        (Method::POST, "/reshaper".to_owned(), json!({})),
        (
            Method::POST,
            "/resource_providers".to_owned(),
            json!({"nobody": "wants this"}),
        ),
        (
            Method::DELETE,
            "/resource_providers".to_owned(),
            Value::Null,
        ),
    ];
    for (who, token) in &callers {
        for request in &requests {
            let [ours, theirs] = [&ours, &theirs].map(|url| ask(url, request, token.as_deref()));
            let what = format!("{who}: {} {}", request.0, request.1);
            assert_eq!(ours.status, theirs.status, "{what}: {}", ours.text());
            if ours.status.as_u16() == 401 {
                assert_eq!(ours.json(), theirs.json(), "{what}");
                assert!(!ours.json().is_null(), "{what}");
                let header = "www-authenticate";
                assert_eq!(ours.header(header), theirs.header(header), "{what}");
            }
            if ours.status.as_u16() == 403 {
                let title = |answer: &HttpAnswer| answer.json()["errors"][0]["title"].clone();
                assert_eq!(title(&ours), title(&theirs), "{what}");
            }
        }
    }
    let ended = berth.stop(PATIENCE).expect("it ends");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    for (_, token) in callers.iter().filter(|(who, _)| *who != "empty") {
        let token = token.as_deref().unwrap_or("no token at all");
        assert!(!ended.stderr.contains(token), "a token is in the log");
    }
}

#[test]
fn a_token_is_valid_until_it_or_its_cache_entry_expires() {
    let region = Region::start(KeystoneSettings {
        token_expiration: 5,
    });
    let keystone = &region.keystone;
    let (_home, mut berth, url) = behind(&region, 300);
    let list = (Method::GET, "/resource_providers".to_owned(), Value::Null);
    // On a busy machine a token may expire on its way.
    let mut token = String::new();
    let accepted = || {
        token = keystone.token(&keystone.berth()).expect("a token");
        ask(&url, &list, Some(&token)).status.as_u16() == 200
    };
    berth
        .wait_until(PATIENCE, accepted)
        .expect("it accepts a token");
    let turned_away = || ask(&url, &list, Some(&token)).status.as_u16() == 401;
    berth.wait_until(PATIENCE, turned_away).expect("it expires");
    drop(berth);

    let region = Region::shared();
    let keystone = &region.keystone;
    // Nothing is remembered: a revoked token is turned away at once.
    let (_home, _berth, url) = behind(region, 0);
    let token = keystone.token(&keystone.berth()).expect("a token");
    assert_eq!(ask(&url, &list, Some(&token)).status.as_u16(), 200);
    keystone.revoke(&token).expect("it is revoked");
    assert_eq!(ask(&url, &list, Some(&token)).status.as_u16(), 401);
}

#[test]
fn an_outage_of_keystone_is_reported_and_survived() {
    let mut region = Region::start(KeystoneSettings::default());
    let (_home, mut berth, url) = behind(&region, 300);
    let list = (Method::GET, "/resource_providers".to_owned(), Value::Null);
    let token = region
        .keystone
        .token(&region.keystone.berth())
        .expect("a token");
    region.keystone.kill();
    assert_eq!(ask(&url, &list, Some(&token)).status.as_u16(), 503);
    assert_eq!(ask(&url, &list, None).status.as_u16(), 401);
    region.keystone.restart().expect("it starts again");
    let served = || ask(&url, &list, Some(&token)).status.as_u16() == 200;
    berth.wait_until(PATIENCE, served).expect("it serves again");
}

#[test]
fn behind_keystone_berth_up_needs_no_token_of_its_own_and_others_do() {
    let region = Region::shared();
    let berth = region.keystone.berth();
    let mut node = Hypervisor::new("pcpu", "up-keystone", &region.login(&berth));
    for (option, value) in region.account(&berth) {
        let variable = format!("BERTH__KEYSTONE_AUTHTOKEN__{option}");
        node.home.set_env(&variable, value);
    }
    for (option, value) in [
        ("LISTEN", "127.0.0.1:0"),
        ("AUTH_STRATEGY", "keystone"),
        ("PATH_PREFIX", "/placement"),
    ] {
        let variable = format!("BERTH__PLACEMENT_SERVICE__{option}");
        node.home.set_env(&variable, value);
    }
    let mut up = node.start(&["up"]);
    let url = up
        .wait_for_line(PATIENCE, "Placement at ")
        .expect("it serves");
    assert!(url.ends_with("/placement"), "{url}");
    let token = region.keystone.token(&berth).expect("a token");
    let list = (
        Method::GET,
        "/resource_providers?name=up-keystone".to_owned(),
        Value::Null,
    );
    let reported = || {
        let listed = ask(&url, &list, Some(&token)).json();
        listed["resource_providers"]
            .as_array()
            .is_some_and(|found| found.len() == 1)
    };
    up.wait_until(PATIENCE, reported)
        .expect("it reports the host");
    for token in [None, Some("admin")] {
        let status = ask(&url, &list, token).status.as_u16();
        assert_eq!(status, 401, "{token:?}");
    }
    // A command follows [placement], and its catalog names another service.
    node.home
        .set_env("BERTH__PLACEMENT__ENDPOINT_OVERRIDE", url.clone());
    let tree = node.run(&["provider", "tree"]);
    assert_eq!(tree.code, 0, "{}", tree.stderr);
    assert!(tree.stdout.contains("up-keystone"), "{}", tree.stdout);
    let ended = up.stop(PATIENCE).expect("it ends");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(!ended.stdout.contains("token"), "{}", ended.stdout);
}

#[test]
fn the_rules_of_an_operator_decide_and_are_listed() {
    let mut home = home("policy_file = \"@HOME@/policy.yaml\"\n");
    let rules = "watchers: role:auditor or rule:admin_or_service_api\n\
                 placement:resource_providers:list: rule:watchers\n";
    home.write("policy.yaml", rules).expect("a file");
    let config = home.config_file().display().to_string();
    let list = ["--config", &config, "placement", "policy", "-f", "json"];
    let listed = home.run(list).expect("it runs");
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    let listed: Value = serde_json::from_str(&listed.stdout).expect("JSON");
    let items = listed["items"].as_array().expect("a list");
    let row = |name: &str| items.iter().find(|row| row["rule"] == name).cloned();
    assert_eq!(
        row("placement:resource_providers:list"),
        Some(
            json!({"rule": "placement:resource_providers:list", "check": "rule:watchers", "origin": "file"})
        )
    );
    assert_eq!(
        row("placement:reshaper:reshape"),
        Some(
            json!({"rule": "placement:reshaper:reshape", "check": "rule:service_api", "origin": "default"})
        )
    );
    let (_berth, url) = serve(&mut home);
    for (roles, path, status) in [
        ("auditor", "/resource_providers", 200),
        ("service", "/resource_providers", 200),
        ("member", "/resource_providers", 403),
        ("auditor", "/traits", 403),
    ] {
        let ask = HttpCall::get(format!("{url}{path}")).header("x-auth-token", "carol:p1");
        let ask = ask.header("openstack-api-version", "placement 1.39");
        let answer = ask.header("x-roles", roles).send().expect("an answer");
        assert_eq!(answer.status.as_u16(), status, "{roles} {path}");
    }
}

#[test]
fn errors_that_prevent_serving_are_clear() {
    for (lines, words, code, message) in [
        (
            "",
            &["--listen", "0.0.0.0:0"][..],
            78,
            &["not loopback", "auth_strategy"][..],
        ),
        (
            "auth_strategy = \"keystone\"\n",
            &[],
            78,
            &["auth_url", "keystone_authtoken"],
        ),
        (
            "policy_file = \"@HOME@/none.yaml\"\n",
            &[],
            78,
            &["none.yaml", "cannot be read"],
        ),
        (
            "policy_file = \"@HOME@/policy.yaml\"\n",
            &[],
            78,
            &["placement:usage", "did you mean placement:usages?"],
        ),
    ] {
        let mut home = home(lines);
        home.write("policy.yaml", "placement:usage: \"@\"\n")
            .expect("a file");
        let config = home.config_file().display().to_string();
        let all = [&["--config", &config, "placement", "serve"], words].concat();
        let outcome = home.run(all).expect("it runs");
        assert_eq!(outcome.code, code, "{lines}: {}", outcome.stderr);
        let text = outcome
            .stderr
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        for word in message {
            assert!(text.contains(word), "{word}: {text}");
        }
        if lines.starts_with("policy_file") {
            let check = ["--config", &config, "config", "check"];
            let checked = home.run(check).expect("it runs");
            assert_eq!(checked.code, 78, "{}", checked.stderr);
            assert!(checked.stderr.contains("placement_service.policy_file"));
        }
    }
}
