//! Hosts with accounts of their own: agents that log in to a controller, and what it writes into its audit file.

use std::fs;
use std::path::Path;

use berth_tests::berth::BerthHome;
use berth_tests::exchange::{HttpAnswer, HttpCall};
use berth_tests::port::free_port;
use berth_tests::wait::wait_until;
use http::Method;
use serde_json::{Value, json};

use crate::program::cloud::password;
use crate::program::hypervisor::{Hypervisor, PATIENCE};

/// Makes the account of a host on a controller, and lets the host's agent log in with it. Returns its password.
pub(crate) fn give_account(
    controller: &mut BerthHome,
    base: &str,
    (name, node): (&str, &mut Hypervisor),
) -> String {
    let password = new_account(controller, base, (name, node));
    // The identity service looks for changes of the file once a second.
    wait_until(&format!("the account of {name}"), || {
        let answer = log_in(base, &format!("host/{name}"), &password, "service");
        match answer.status.as_u16() {
            201 => Ok(()),
            other => Err(other),
        }
    });
    password
}

/// Like [`give_account`], but the identity service may not know the account yet.
pub(crate) fn new_account(
    controller: &mut BerthHome,
    base: &str,
    (name, node): (&str, &mut Hypervisor),
) -> String {
    let config = controller.config_file().display().to_string();
    let users = controller.state_dir().join("identity.toml");
    let (users, url) = (users.display().to_string(), format!("{base}/identity/v3"));
    let words = [
        "--config",
        &config,
        "identity",
        "host-account",
        name,
        "--users",
        &users,
        "--auth-url",
        &url,
    ];
    let made = controller.run(words).expect("it runs");
    assert_eq!(made.code, 0, "{}", made.stderr);
    let options: toml::Table = made.stdout.parse().expect("TOML for the agent");
    let mut password = String::new();
    for (section, keys) in &options {
        let section = section.to_uppercase();
        for (key, value) in keys.as_table().into_iter().flatten() {
            let value = value.as_str().expect("a text");
            if key == "password" {
                value.clone_into(&mut password);
            }
            let key = format!("BERTH__{section}__{}", key.to_uppercase());
            node.home.set_env(&key, value);
        }
    }
    password
}

fn log_in(base: &str, user: &str, password: &str, project: &str) -> HttpAnswer {
    let domain = json!({"name": "Default"});
    let user = json!({"name": user, "domain": domain, "password": password});
    let body = json!({"auth": {
        "identity": {"methods": ["password"], "password": {"user": user}},
        "scope": {"project": {"name": project, "domain": domain}},
    }});
    let call = HttpCall::post(format!("{base}/identity/v3/auth/tokens")).json(&body);
    call.send().expect("it answers")
}

fn token(base: &str, user: &str, password: &str, project: &str) -> String {
    let answer = log_in(base, user, password, project);
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.header("x-subject-token").to_owned()
}

fn records(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("a record"))
        .collect()
}

#[test]
fn two_hosts_report_with_accounts_of_their_own_and_neither_speaks_for_the_other() {
    let mut home = BerthHome::new().expect("a home");
    let log = home.path("log");
    fs::create_dir(&log).expect("a folder");
    let file = log.join("audit.log");
    let text = format!(
        "state_path = \"@HOME@/state\"\n[agent]\nadmin_socket = \"@HOME@/agent.sock\"\n\
         [audit]\nfile = \"{}\"\nrequired = true\n",
        file.display()
    );
    home.configure(&text).expect("a configuration");
    let config = home.config_file().display().to_string();
    let listen = format!("127.0.0.1:{}", free_port().expect("a port"));
    let mut controller = home
        .start(["--config", &config, "controller", "--listen", &listen])
        .expect("it starts");
    let base = controller
        .wait_for_line(PATIENCE, "All APIs at ")
        .expect("it serves");
    let mut one = Hypervisor::new("accelerators", "account-one", "");
    let mut two = Hypervisor::new("accelerators", "account-two", "");
    let first = give_account(&mut home, &base, ("account-one", &mut one));
    give_account(&mut home, &base, ("account-two", &mut two));
    let (mut agent_one, mut agent_two) = (one.start(&["agent"]), two.start(&["agent"]));
    one.wait_until_healthy(&mut agent_one);
    two.wait_until_healthy(&mut agent_two);

    let admin = token(&base, "admin", &password(&home.state_dir()), "admin");
    let ask = |token: &str, method: Method, path: &str, body: Option<Value>| {
        let call = HttpCall::new(method, format!("{base}{path}")).header("x-auth-token", token);
        let call = match &body {
            Some(body) => call.json(body),
            None => call,
        };
        call.send().expect("it answers")
    };
    let up = || {
        let services = ask(&admin, Method::GET, "/compute/v2.1/os-services", None).json();
        let services = services["services"].as_array().cloned().unwrap_or_default();
        let up = services.iter().filter(|it| it["state"] == "up");
        up.count()
    };
    wait_until("both hosts are up", || match up() {
        2 => Ok(()),
        other => Err(other),
    });
    let devices = |host: &str| {
        let listed = ask(&admin, Method::GET, "/accelerator/v2/devices", None).json();
        let devices = listed["devices"].as_array().cloned().unwrap_or_default();
        devices.iter().filter(|it| it["hostname"] == host).count()
    };
    wait_until("both hosts' devices are reported", || {
        match (devices("account-one"), devices("account-two")) {
            (one, two) if one > 0 && two > 0 => Ok(()),
            other => Err(other),
        }
    });

    // Whoever has one host has its account, and nothing of the other host.
    let thief = token(&base, "host/account-one", &first, "service");
    let list = ask(
        &admin,
        Method::GET,
        "/placement/resource_providers?name=account-two",
        None,
    );
    let root = list.json()["resource_providers"][0]["uuid"].clone();
    let root = root.as_str().expect("the root provider of the other host");
    for (method, path, body) in [
        (
            Method::PUT,
            "/compute/internal/v1/hosts/account-two/seen".to_owned(),
            Some(json!({"state": "x"})),
        ),
        (
            Method::PUT,
            "/compute/internal/v1/hosts/evil/seen".to_owned(),
            Some(json!({"state": "x"})),
        ),
        (
            Method::PUT,
            "/accelerator/internal/v1/hosts/account-two/devices".to_owned(),
            Some(json!({"devices": [], "guests": []})),
        ),
        (
            Method::DELETE,
            format!("/placement/resource_providers/{root}"),
            None,
        ),
        (
            Method::POST,
            "/compute/v2.1/flavors".to_owned(),
            Some(json!({"flavor": {"name": "f", "ram": 1, "vcpus": 1, "disk": 0}})),
        ),
    ] {
        let refused = ask(&thief, method.clone(), &path, body);
        assert_eq!(refused.status, 403, "{method} {path}: {}", refused.text());
    }
    assert!(devices("account-two") > 0 && up() == 2);

    // All of it is in the file, without a password or a token.
    let records = records(&file);
    let of_thief = |path: &str, outcome: &str| {
        records.iter().any(|it| {
            it["requestPath"] == path
                && it["outcome"] == outcome
                && it["initiator"]["name"] == "host/account-one"
                && it["initiator"]["host"]["address"] == "127.0.0.1"
        })
    };
    let path = "/compute/internal/v1/hosts/account-two/seen";
    let of_other = format!("/placement/resource_providers/{root}");
    assert!(of_thief(path, "failure"), "{records:#?}");
    assert!(
        of_thief(&of_other, "pending") && of_thief(&of_other, "failure"),
        "{records:#?}"
    );
    assert!(
        of_thief("/identity/v3/auth/tokens", "success"),
        "{records:#?}"
    );
    let refused = records
        .iter()
        .find(|it| it["requestPath"] == path && it["outcome"] == "failure");
    let reason = &refused.expect("the refusal")["reason"];
    assert_eq!(reason["policyId"], "berth:host_state:update", "{reason}");
    let text = fs::read_to_string(&file).expect("the file");
    assert!(!text.contains(&first) && !text.contains(&thief));
    assert!(
        controller.stderr().contains("\"requestMethod\":\"POST\""),
        "the log has them, too"
    );

    // Without its record nothing is changed, while hosts stay up: heartbeats need none.
    fs::remove_dir_all(&log).expect("the folder is removed");
    let flavor = || Some(json!({"flavor": {"name": "small", "ram": 64, "vcpus": 1, "disk": 0}}));
    let refused = ask(&admin, Method::POST, "/compute/v2.1/flavors", flavor());
    assert_eq!(refused.status, 503, "{}", refused.text());
    let listed = ask(&admin, Method::GET, "/compute/v2.1/flavors", None).json();
    assert_eq!(
        listed["flavors"],
        json!([]),
        "reads go on, and there is no flavor"
    );
    assert_eq!(up(), 2);
    fs::create_dir(&log).expect("the folder is back");
    let made = ask(&admin, Method::POST, "/compute/v2.1/flavors", flavor());
    assert_eq!(made.status, 200, "{}", made.text());
    agent_one.stop(PATIENCE).expect("it ends");
    agent_two.stop(PATIENCE).expect("it ends");
    controller.stop(PATIENCE).expect("it ends");
}

#[test]
fn a_shared_service_account_is_refused_with_the_account_to_use_and_a_policy_file_admits_it() {
    let mut home = BerthHome::new().expect("a home");
    let policy = home
        .write("policy.yaml", "berth:host_state:update: role:service\n")
        .expect("a file");
    let with_policy = format!(
        "[compute_service]\npolicy_file = \"{}\"\n",
        policy.display()
    );
    for (more, status) in [("", 403), (with_policy.as_str(), 409)] {
        let text = format!(
            "state_path = \"@HOME@/state\"\n[agent]\nadmin_socket = \"@HOME@/agent.sock\"\n{more}"
        );
        home.configure(&text).expect("a configuration");
        let config = home.config_file().display().to_string();
        let listen = format!("127.0.0.1:{}", free_port().expect("a port"));
        let mut controller = home
            .start(["--config", &config, "controller", "--listen", &listen])
            .expect("it starts");
        let base = controller
            .wait_for_line(PATIENCE, "All APIs at ")
            .expect("it serves");
        // The first user has the role service in this project, as the shared accounts of older clouds have.
        let shared = token(&base, "admin", &password(&home.state_dir()), "service");
        let call = HttpCall::put(format!("{base}/compute/internal/v1/hosts/gpu-01/seen"));
        let call = call
            .header("x-auth-token", &shared)
            .json(&json!({"state": "x"}));
        let answer = call.send().expect("it answers");
        assert_eq!(answer.status, status, "{}", answer.text());
        let names_the_way = answer.text().contains("log in as host/gpu-01")
            && answer.text().contains("policy_file");
        assert_eq!(names_the_way, status == 403, "{}", answer.text());
        controller.stop(PATIENCE).expect("it ends");
    }
}
