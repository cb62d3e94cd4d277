//! `[accelerator_service] policy_file`: an operator's rules take effect, invalid ones are refused at the start, and the
//! language is oslo.policy's.

use std::process::Command;

use berth_http::policy::{PolicyRule, parse};
use berth_http::{Caller, Policy, TokenScope};
use berth_tests::berth::BerthHome;
use berth_tests::exchange::HttpCall;
use berth_tests::peer::{checkout, installed, output};
use berth_tests::scratch::Scratch;
use http::Method;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::program::accelerator_service::{home, serve};
use crate::program::cloud::Cloud;

const CONFIGURATION: &str = "state_path = \"@HOME@/state\"\n[accelerator_service]\nlisten = \"127.0.0.1:0\"\n\
                             policy_file = \"@HOME@/policy.yaml\"\n";

#[test]
fn an_operators_rules_decide_and_the_others_stay() {
    let mut home = home();
    home.configure(CONFIGURATION).expect("a configuration");
    let rules = "\"profile_keepers\": \"role:ops or role:vendor and not user_id:mallory\"\n\
                 \"cyborg:device_profile:create\": \"rule:profile_keepers\"\n\
                 \"project_reader_api\": \"role:auditor and project_id:%(project_id)s\"\n";
    home.write("policy.yaml", rules).expect("a file");
    let config = home.config_file().display().to_string();
    let list = ["--config", &config, "accelerator", "policy", "-f", "json"];
    let listed = home.run(list).expect("it runs");
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    let listed: Value = serde_json::from_str(&listed.stdout).expect("JSON");
    let row = |name: &str| {
        let mut rows = listed["items"].as_array().into_iter().flatten();
        rows.find(|row| row["rule"] == name).cloned()
    };
    assert_eq!(
        row("cyborg:device_profile:create"),
        Some(
            json!({"rule": "cyborg:device_profile:create", "check": "rule:profile_keepers", "origin": "file"})
        )
    );
    assert_eq!(
        row("cyborg:device:enable"),
        Some(
            json!({"rule": "cyborg:device:enable", "check": "rule:admin_api", "origin": "default"})
        )
    );
    let (berth, url) = serve(&mut home);
    let mut number = 0;
    let mut create = |user: &str, roles: &str| {
        number += 1;
        let profile = json!([{"name": format!("dp{number}"), "groups": [{"resources:FPGA": "1"}]}]);
        let ask = HttpCall::post(format!("{url}/device_profiles")).json(&profile);
        let ask = ask.header("x-auth-token", user).header("x-roles", roles);
        ask.send().expect("an answer").status.as_u16()
    };
    for (user, roles, status) in [
        ("carol:p1", "ops", 201),
        ("carol:p1", "vendor", 201),
        ("mallory:p1", "vendor", 403),
        ("root:p1", "admin", 403),
    ] {
        assert_eq!(create(user, roles), status, "{user} {roles}");
    }
    let see = |method: Method, path: &str, roles: &str| {
        let ask = HttpCall::new(method, format!("{url}{path}")).header("x-auth-token", "carol:p1");
        let answer = ask.header("x-roles", roles).send();
        answer.expect("an answer").status.as_u16()
    };
    assert_eq!(see(Method::GET, "/device_profiles", "auditor"), 200);
    assert_eq!(see(Method::GET, "/device_profiles", "reader"), 403);
    assert_eq!(see(Method::GET, "/devices", "auditor"), 403);
    assert_eq!(see(Method::GET, "/devices", "manager"), 200);
    drop(berth);
}

#[test]
fn rules_that_cannot_be_meant_are_refused_by_config_check_and_at_the_start() {
    let mut home = home();
    home.configure(CONFIGURATION).expect("a configuration");
    let config = home.config_file().display().to_string();
    for (rules, words) in [
        (None, "policy.yaml cannot be read"),
        (
            Some("\"cyborg:arq:craete\": \"role:admin\""),
            "line 1: cyborg:arq:craete: there is no such rule, and no other refers to it; did you mean cyborg:arq:create?",
        ),
        (
            Some("\n\"cyborg:arq:create\": \"role:admin or\""),
            "line 2: cyborg:arq:create: it ends where a check is expected",
        ),
        (
            Some("\"cyborg:arq:create\": \"rule:admin_ap\""),
            "there is no rule:admin_ap; did you mean admin_api?",
        ),
        (
            Some("\"admin_api\": \"rule:is_admin\""),
            "it refers to itself: admin_api -> is_admin -> admin_api",
        ),
        (
            Some("- a"),
            "names of rules, each with a text, are expected",
        ),
    ] {
        if let Some(rules) = rules {
            home.write("policy.yaml", rules).expect("a file");
        }
        for command in [["config", "check"], ["accelerator", "serve"]] {
            let words_of = [&["--config", &config], &command[..]].concat();
            let refused = home.run(words_of).expect("it runs");
            assert_eq!(refused.code, 78, "{rules:?}: {}", refused.stderr);
            let output = refused
                .stderr
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ");
            assert!(output.contains(words), "{rules:?}: {output}");
            assert!(output.contains("policy_file"), "{output}");
        }
    }
    home.write("policy.yaml", "").expect("a file");
    let good = home.run(["--config", &config, "config", "check"]);
    assert_eq!(good.expect("it runs").code, 0);
}

/// The text of a rule, as people write them: with blanks and brackets where none are needed, in capitals, and in no order.
fn text() -> impl Strategy<Value = String> {
    let leaf = proptest::sample::select(vec![
        "@",
        "!",
        "role:admin",
        "role:Member",
        "role:%(project_id)s",
        "rule:keepers",
        "rule:nobody",
        "is_admin:True",
        "is_admin:False",
        "project_id:%(project_id)s",
        "project_id:p1",
        "user_id:%(user_id)s",
        "user_id:alice",
        "roles:member",
        "'p1':%(project_id)s",
        "True:%(user_id)s",
        "\"alice\":%(user_id)s",
        "user_id:a%%b",
        "system_scope:all",
    ]);
    leaf.prop_map(str::to_owned)
        .prop_recursive(4, 16, 3, |inner| {
            let word = proptest::sample::select(vec![" and ", " or ", " AND ", "  or  "]);
            prop_oneof![
                inner.clone().prop_map(|rule| format!("not {rule}")),
                inner.clone().prop_map(|rule| format!("({rule})")),
                inner.clone().prop_map(|rule| format!("( {rule} )")),
                (inner.clone(), word, inner)
                    .prop_map(|(one, word, other)| format!("{one}{word}{other}")),
            ]
        })
}

fn whom() -> impl Strategy<Value = (Caller, String)> {
    let roles =
        proptest::sample::subsequence(vec!["admin", "member", "MEMBER", "reader", "p1"], 0..=3);
    let user = proptest::sample::select(vec!["alice", "bob", "True", "a%b"]);
    let project = || proptest::sample::select(vec!["p1", "p2"]);
    (roles, user, project(), project()).prop_map(|(roles, user, own, target)| {
        let caller = Caller {
            user_id: user.to_owned(),
            scope: TokenScope::Project(own.to_owned()),
            roles: roles.into_iter().map(str::to_owned).collect(),
            ..Caller::default()
        };
        (caller, target.to_owned())
    })
}

#[test]
fn rules_are_evaluated_as_by_oslo_policy() {
    let named = [("keepers", "role:keeper or role:member"), ("nobody", "!")];
    let mut runner = TestRunner::deterministic();
    let mut cases = Vec::new();
    let mut decisions = Vec::new();
    for _ in 0..1000 {
        let drawn = (text(), whom()).new_tree(&mut runner).expect("a case");
        let (text, (caller, project)) = drawn.current();
        // `not` applies to one check; before another operator the text is invalid, in oslo.policy as here.
        let Ok(rule) = parse(&text) else { continue };
        let rules = named.map(|(name, text)| (name, parse(text).expect("a rule")));
        let defaults = rules.into_iter().chain([("asked", rule)]);
        let policy = Policy::new(defaults.collect::<Vec<(_, PolicyRule)>>());
        decisions.push(policy.authorize(&caller, "asked", Some(&project)).is_ok());
        cases.push(json!({
            "rules": {"asked": text, (named[0].0): named[0].1, (named[1].0): named[1].1}, "rule": "asked",
            "creds": {"roles": caller.roles, "user_id": caller.user_id, "project_id": caller.project_id(),
                "is_admin": caller.has_role("admin"), "system_scope": null},
            "target": {"project_id": project, "user_id": caller.user_id},
        }));
    }
    assert!(
        cases.len() > 900,
        "too few of the texts were rules: {}",
        cases.len()
    );
    let scratch = Scratch::new().expect("a directory");
    let file = scratch.join("cases.json");
    std::fs::write(&file, json!(cases).to_string()).expect("a file");
    let mut python = Command::new(installed().expect("the peers").join("venv/bin/python"));
    python
        .arg(checkout().join("tests/peers/oslo_rules.py"))
        .arg(&file);
    let answered = output(&mut python).expect("oslo.policy answers");
    let answered: Vec<Option<bool>> = serde_json::from_str(&answered).expect("JSON");
    assert_eq!(answered.len(), decisions.len());
    for ((case, theirs), ours) in cases.iter().zip(answered).zip(decisions) {
        assert_eq!(theirs, Some(ours), "{case}");
    }
}

#[test]
fn an_operators_rules_decide_at_the_compute_api_too() {
    let rules = BerthHome::new().expect("a home");
    let file = rules
        .write(
            "compute-policy.yaml",
            "\"os_compute_api:os-flavor-manage:create\": \"role:flavor_keeper\"\n",
        )
        .expect("a file")
        .display()
        .to_string();
    let cloud = Cloud::start(
        "policy-up",
        &[("BERTH__COMPUTE_SERVICE__POLICY_FILE", &file)],
    );
    let token = cloud.token();
    let flavor = json!({"flavor": {"name": "tiny", "ram": 64, "vcpus": 1, "disk": 0}});
    let ask = HttpCall::post(format!("{}/compute/v2.1/flavors", cloud.base)).json(&flavor);
    let answer = ask.header("x-auth-token", &token).send();
    let answer = answer.expect("an answer");
    assert_eq!(answer.status.as_u16(), 403, "{}", answer.text());
    let rule = "os_compute_api:os-flavor-manage:create";
    assert!(answer.text().contains(rule), "{}", answer.text());
    // What the file does not name stays.
    let group = json!({"server_group": {"name": "apart", "policies": ["anti-affinity"]}});
    let groups = format!("{}/compute/v2.1/os-server-groups", cloud.base);
    let ask = HttpCall::post(groups).json(&group);
    let answer = ask.header("x-auth-token", &token).send();
    assert_eq!(answer.expect("an answer").status.as_u16(), 200);
}
