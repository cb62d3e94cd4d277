//! `berth identity serve` in place of Keystone: for Berth's own agent and services, for OpenStack's client, and for
//! OpenStack's Placement with keystonemiddleware.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use berth_tests::berth::{BerthHome, RunningBerth, program};
use berth_tests::exchange::HttpCall;
use berth_tests::peer::{
    AcceleratorPlugin, Auth, OpenStackShell, PlacementSettings, PolicyDefaults, RealPlacement,
};
use berth_tests::port::free_port;
use serde_json::{Value, json};

use crate::program::hypervisor::{Hypervisor, PATIENCE};

/// That of every user here: what OpenStack's services of these tests log in with.
pub(crate) const PASSWORD: &str = "test-only";

/// The hash of it, as `berth identity hash-password` prints it.
pub(crate) fn hash() -> &'static str {
    static HASH: OnceLock<String> = OnceLock::new();
    HASH.get_or_init(|| hashed(PASSWORD))
}

fn hashed(password: &str) -> String {
    let mut berth = Command::new(program().expect("it is built"))
        .args(["identity", "hash-password"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stdin = berth.stdin.take().expect("a pipe");
    writeln!(stdin, "{password}").expect("it reads");
    drop(stdin);
    let output = berth.wait_with_output().expect("it ends");
    assert!(output.status.success());
    String::from_utf8(output.stdout)
        .expect("text")
        .trim()
        .to_owned()
}

/// The users of a small cloud, as OpenStack's services want them.
fn users() -> String {
    let mut text = String::from(
        "[[project]]\nname = \"admin\"\n[[project]]\nname = \"service\"\n[[project]]\nname = \"tenant\"\n",
    );
    let user = |name: &str, project: &str, roles: &str| {
        format!(
            "[[user]]\nname = \"{name}\"\npassword_hash = \"{}\"\ndefault_project = \"{project}\"\n\
             [[role_assignment]]\nuser = \"{name}\"\nproject = \"{project}\"\nroles = {roles}\n",
            hash()
        )
    };
    text += &user("admin", "admin", "[\"admin\"]");
    text += "[[role_assignment]]\nuser = \"admin\"\nsystem = \"all\"\nroles = [\"admin\"]\n";
    text += &user("berth", "service", "[\"admin\", \"service\"]");
    text += &user("placement", "service", "[\"admin\", \"service\"]");
    text + &user("alice", "tenant", "[\"member\"]")
}

fn write_users(home: &BerthHome, text: &str) {
    let next = home.write("identity.new", text).expect("a file");
    fs::set_permissions(&next, fs::Permissions::from_mode(0o600)).expect("a mode");
    fs::rename(next, home.path("identity.toml")).expect("it is replaced");
}

/// The Identity service, and the built-in Placement that asks it.
struct Cloud {
    home: BerthHome,
    identity: RunningBerth,
    /// With `/v3`.
    url: String,
    placement: RunningBerth,
    placement_url: String,
}

impl Cloud {
    /// Further services of the catalog, as `[identity_service] catalog` has them.
    fn start(catalog: &str) -> Self {
        let mut home = BerthHome::new().expect("a home");
        let (identity, placement) = (free_port().expect("a port"), free_port().expect("a port"));
        let text = format!(
            "state_path = \"@HOME@/state\"\n[identity_service]\nlisten = \"127.0.0.1:{identity}\"\n\
             users_file = \"@HOME@/identity.toml\"\ncatalog = [\"placement=http://127.0.0.1:{placement}\"{catalog}]\n\
             [placement_service]\nlisten = \"127.0.0.1:{placement}\"\nauth_strategy = \"keystone\"\n\
             [keystone_authtoken]\nauth_url = \"http://127.0.0.1:{identity}/v3\"\nusername = \"placement\"\n\
             password = \"{PASSWORD}\"\nuser_domain_name = \"Default\"\nproject_name = \"service\"\n\
             project_domain_name = \"Default\"\ntoken_cache_time = 0\n"
        );
        home.configure(&text).expect("a configuration");
        write_users(&home, &users());
        let (identity, url) = serve(&mut home, "identity", "Identity at ");
        let (placement, placement_url) = serve(&mut home, "placement", "Placement at ");
        Self {
            home,
            identity,
            url,
            placement,
            placement_url,
        }
    }

    fn login(&self, user: &str, project: &str, password: &str) -> String {
        format!(
            "auth_type = \"password\"\nauth_url = \"{}\"\nusername = \"{user}\"\npassword = \"{password}\"\n\
             user_domain_name = \"Default\"\nproject_name = \"{project}\"\nproject_domain_name = \"Default\"",
            self.url
        )
    }

    fn token(&self, user: &str, project: &str) -> String {
        let user = json!({"name": user, "domain": {"name": "Default"}, "password": PASSWORD});
        let scope = json!({"project": {"name": project, "domain": {"name": "Default"}}});
        let identity = json!({"methods": ["password"], "password": {"user": user}});
        let body = json!({"auth": {"identity": identity, "scope": scope}});
        let answer = HttpCall::post(format!("{}/auth/tokens", self.url))
            .json(&body)
            .send();
        let answer = answer.expect("an answer");
        assert_eq!(answer.status.as_u16(), 201, "{}", answer.text());
        let token = answer.headers.get("x-subject-token").expect("a token");
        token.to_str().expect("text").to_owned()
    }

    /// What Placement answers to a microversioned request with this token.
    fn providers(&self, url: &str, token: &str) -> (u16, Value) {
        let ask = HttpCall::get(format!("{url}/resource_providers"))
            .header("x-auth-token", token)
            .header("openstack-api-version", "placement 1.39");
        let answer = ask.send().expect("an answer");
        (answer.status.as_u16(), answer.json())
    }
}

fn serve(home: &mut BerthHome, service: &str, line: &str) -> (RunningBerth, String) {
    let config = home.config_file().display().to_string();
    let berth = home.start(["--config", &config, service, "serve"]);
    let mut berth = berth.expect("it starts");
    let url = berth.wait_for_line(PATIENCE, line).expect("it serves");
    (berth, url)
}

#[test]
fn an_agent_logs_in_finds_placement_in_the_catalog_and_reports() {
    let cloud = Cloud::start("");
    let mut node = Hypervisor::new("pcpu", "node", &cloud.login("berth", "service", PASSWORD));
    let outcome = node.once();
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let token = cloud.token("admin", "admin");
    let (status, body) = cloud.providers(&cloud.placement_url, &token);
    assert_eq!(
        (status, &body["resource_providers"][0]["name"]),
        (200, &json!("node"))
    );

    let wrong = cloud.login("berth", "service", "planted-secret");
    let mut node = Hypervisor::new("pcpu", "other", &wrong);
    let refused = node.once();
    assert_eq!(refused.code, 78, "{}", refused.stderr);
    assert!(refused.stderr.contains("401"), "{}", refused.stderr);
    assert!(
        !refused.stderr.contains("planted-secret"),
        "{}",
        refused.stderr
    );
    let reported = cloud.identity.stderr();
    assert!(
        reported.contains("login refused") && !reported.contains("planted-secret"),
        "{reported}"
    );
}

#[test]
fn a_token_outlives_a_kill_and_not_a_change_of_its_user() {
    let mut cloud = Cloud::start("");
    let (admin, member) = (
        cloud.token("admin", "admin"),
        cloud.token("alice", "tenant"),
    );
    assert_eq!(cloud.providers(&cloud.placement_url, &member).0, 403);
    assert_eq!(cloud.providers(&cloud.placement_url, "nobodys").0, 401);
    cloud.identity.kill();
    assert_eq!(
        cloud.providers(&cloud.placement_url, &admin).0,
        503,
        "the token cannot be validated"
    );
    let (identity, _) = serve(&mut cloud.home, "identity", "Identity at ");
    cloud.identity = identity;
    assert_eq!(cloud.providers(&cloud.placement_url, &admin).0, 200);

    write_users(&cloud.home, "[[user]]\nname = 7\n");
    let log = "the new users file is invalid";
    let url = cloud.placement_url.clone();
    let request = || {
        HttpCall::get(format!("{url}/resource_providers"))
            .header("x-auth-token", &admin)
            .send()
    };
    let reported = || {
        drop(request());
        cloud.identity.stderr().contains(log)
    };
    wait_until(reported);
    assert_eq!(
        cloud.providers(&cloud.placement_url, &admin).0,
        200,
        "the users before it stay"
    );
    let without = users().replace(
        "name = \"admin\"\npassword_hash",
        "name = \"root\"\npassword_hash",
    );
    write_users(
        &cloud.home,
        &without.replace("user = \"admin\"", "user = \"root\""),
    );
    wait_until(|| request().is_ok_and(|answer| answer.status.as_u16() == 401));
    let ended = cloud.identity.stop(PATIENCE).expect("it ends");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    drop(cloud.placement);
}

fn wait_until(mut ready: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + PATIENCE;
    while !ready() {
        assert!(std::time::Instant::now() < end, "it does not come");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn commands_check_the_users_file_and_name_its_errors() {
    let mut home = BerthHome::new().expect("a home");
    home.configure("[identity_service]\nusers_file = \"@HOME@/identity.toml\"\n")
        .expect("a configuration");
    let config = home.config_file().display().to_string();
    let run = |home: &mut BerthHome, words: &[&str]| {
        let words = [&["--config", &config, "identity"], words].concat();
        home.run(words).expect("it ends")
    };
    let missing = run(&mut home, &["serve"]);
    assert_eq!(missing.code, 78, "{}", missing.stderr);
    assert!(
        missing.stderr.contains("identity.toml"),
        "{}",
        missing.stderr
    );
    write_users(&home, &users());
    let checked = run(&mut home, &["check"]);
    assert_eq!(checked.code, 0, "{}", checked.stderr);
    assert!(
        checked.stdout.contains("users 4, projects 3, domains 1"),
        "{}",
        checked.stdout
    );
    let listed = run(&mut home, &["user", "list", "-f", "json"]);
    let listed: Value = serde_json::from_str(&listed.stdout).expect("JSON");
    let alice = listed["items"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|it| it["name"] == "alice");
    let alice = alice.expect("she is there");
    assert_eq!(
        (&alice["roles"], &alice["domain"]),
        (&json!("tenant: member"), &json!("Default"))
    );
    write_users(&home, &users().replace("[\"member\"]", "[\"membre\"]"));
    let wrong = run(&mut home, &["check"]);
    assert_eq!(wrong.code, 78, "{}", wrong.stderr);
    for words in [
        "identity.toml:",
        "role_assignment[4].roles[0]",
        "did you mean \"member\"?",
    ] {
        assert!(wrong.stderr.contains(words), "{words}: {}", wrong.stderr);
    }
    fs::set_permissions(
        home.path("identity.toml"),
        fs::Permissions::from_mode(0o666),
    )
    .expect("a mode");
    let open = run(&mut home, &["check"]);
    assert_eq!(open.code, 78, "{}", open.stderr);
    assert!(open.stderr.contains("chmod go-w"), "{}", open.stderr);
}

/// An entry of clouds.yaml.
fn entry(url: &str, user: &str, scope: Value, password: &str) -> Value {
    let mut auth = json!({"auth_url": url, "username": user, "password": password, "user_domain_name": "Default"});
    for (key, value) in scope.as_object().into_iter().flatten() {
        auth[key] = value.clone();
    }
    json!({"auth": auth, "region_name": "RegionOne"})
}

fn project(name: &str) -> Value {
    json!({"project_name": name, "project_domain_name": "Default"})
}

#[test]
fn openstacks_client_works_with_it_as_with_keystone() {
    let cloud = Cloud::start("");
    let token = cloud.token("admin", "admin");
    let made = HttpCall::post(format!("{}/resource_providers", cloud.placement_url))
        .header("x-auth-token", &token)
        .header("openstack-api-version", "placement 1.39")
        .json(&json!({"name": "node-7"}));
    assert_eq!(made.send().expect("an answer").status.as_u16(), 200);
    let clouds = json!({
        "admin": entry(&cloud.url, "admin", project("admin"), PASSWORD),
        "rooted": entry(cloud.url.trim_end_matches("/v3"), "admin", project("admin"), PASSWORD),
        "system": entry(&cloud.url, "admin", json!({"system_scope": "all"}), PASSWORD),
        "alice": entry(&cloud.url, "alice", project("tenant"), PASSWORD),
        "wrong": entry(&cloud.url, "alice", project("tenant"), "wrong"),
        "elsewhere": entry(&cloud.url, "alice", project("admin"), PASSWORD),
    });
    let shell = OpenStackShell::start(AcceleratorPlugin::OpenStackClient, &clouds);
    let mut shell = shell.expect("the shell starts");
    let mut json = |cloud: &str, words: &str| {
        let words: Vec<&str> = ["--os-cloud", cloud]
            .into_iter()
            .chain(words.split(' '))
            .chain(["-f", "json"])
            .collect();
        let output = shell.run(&words).expect("the shell answers");
        assert_eq!(output.code, 0, "{words:?}: {}", output.err);
        output.json()
    };
    let names = |list: &Value, column: &str| -> Vec<String> {
        let rows = list.as_array().expect("a list").iter();
        let mut names: Vec<String> = rows
            .map(|row| row[column].as_str().expect("text").to_owned())
            .collect();
        names.sort();
        names
    };
    for cloud in ["admin", "rooted"] {
        let issued = json(cloud, "token issue");
        assert!(
            issued["id"].as_str().is_some_and(|id| id.len() == 43),
            "{issued}"
        );
    }
    assert_eq!(json("system", "token issue")["system"], "all");
    assert_eq!(
        names(&json("admin", "catalog list"), "Type"),
        ["identity", "placement"]
    );
    assert_eq!(json("admin", "catalog show placement")["type"], "placement");
    assert_eq!(
        names(&json("admin", "project list"), "Name"),
        ["admin", "service", "tenant"]
    );
    assert_eq!(names(&json("alice", "project list"), "Name"), ["tenant"]);
    assert_eq!(json("admin", "project show tenant")["domain_id"], "default");
    assert_eq!(
        names(&json("admin", "user list"), "Name"),
        ["admin", "alice", "berth", "placement"]
    );
    assert_eq!(json("admin", "user show alice")["name"], "alice");
    assert_eq!(
        json("admin", "user show alice --domain Default")["domain_id"],
        "default"
    );
    assert_eq!(names(&json("admin", "domain list"), "Name"), ["Default"]);
    assert_eq!(
        names(&json("admin", "role list"), "Name"),
        ["admin", "manager", "member", "reader", "service"]
    );
    assert_eq!(json("admin", "role show member")["name"], "member");
    assert_eq!(
        names(
            &json(
                "admin",
                "role assignment list --names --user alice --project tenant"
            ),
            "Role"
        ),
        ["member"]
    );
    assert_eq!(
        names(&json("admin", "service list"), "Type"),
        ["identity", "placement"]
    );
    assert_eq!(
        json("admin", "endpoint list").as_array().map(Vec::len),
        Some(6)
    );
    assert_eq!(
        names(
            &json(
                "admin",
                "endpoint list --service placement --interface public"
            ),
            "Service Type"
        ),
        ["placement"]
    );
    assert_eq!(
        names(&json("admin", "region list"), "Region"),
        ["RegionOne"]
    );
    assert_eq!(
        names(&json("admin", "resource provider list"), "name"),
        ["node-7"]
    );

    let mut refused = |cloud: &str, words: &str, reason: &str| {
        let words: Vec<&str> = ["--os-cloud", cloud]
            .into_iter()
            .chain(words.split(' '))
            .collect();
        let output = shell.run(&words).expect("the shell answers");
        assert_eq!(output.code, 1, "{words:?}: {}", output.out);
        assert!(output.err.contains(reason), "{words:?}: {}", output.err);
    };
    refused("wrong", "token issue", "HTTP 401");
    refused("elsewhere", "token issue", "HTTP 401");
    refused("alice", "user list", "403");
    refused("alice", "resource provider list", "403");
    refused("admin", "user create eve", "identity.toml");
    refused(
        "admin",
        "service create volume",
        "[identity_service] catalog",
    );
    refused("admin", "user show nobody-at-all", "nobody-at-all");
}

#[test]
fn openstacks_placement_believes_its_tokens_by_keystonemiddleware() {
    let cloud = Cloud::start("");
    let settings = PlacementSettings {
        auth: Auth::Keystone {
            url: cloud.url.clone(),
        },
        policy_defaults: PolicyDefaults::New,
        ..PlacementSettings::default()
    };
    let theirs = RealPlacement::start(settings).expect("Placement starts");
    let callers = [
        ("an operator", cloud.token("admin", "admin")),
        ("a service", cloud.token("berth", "service")),
        ("a member", cloud.token("alice", "tenant")),
        ("nobody", "nobodys".to_owned()),
    ];
    for (who, token) in callers {
        let (ours, _) = cloud.providers(&cloud.placement_url, &token);
        let (real, _) = cloud.providers(&theirs.url(), &token);
        assert_eq!(ours, real, "{who}");
        assert_eq!(
            real == 200,
            ["an operator", "a service"].contains(&who),
            "{who}: {real}"
        );
    }
}
