//! The one listener of `berth up` and `berth controller`: OpenStack's client, unchanged, with the `clouds.yaml` that it
//! wrote.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use berth_tests::berth::BerthHome;
use berth_tests::exchange::HttpCall;
use berth_tests::port::free_port;
use serde_json::{Value, json};

use crate::authority::Authority;
use crate::program::agents_elsewhere;
use crate::program::cloud::{Cloud, SERVED, images, operator, password, served};
use crate::program::compute::{IMAGE, Operator};
use crate::program::guests::Host;
use crate::program::host_accounts;
use crate::program::hypervisor::{Hypervisor, PATIENCE};

/// Whether a host with this state has the served image for its guests' disks.
fn has_served(state: &Path) -> bool {
    let entries = fs::read_dir(state.join("instances/_base"));
    let mut files = entries.into_iter().flatten().flatten();
    files.any(|file| fs::read(file.path()).is_ok_and(|bytes| bytes == served()))
}

#[test]
fn openstacks_client_lists_shows_and_saves_images_and_boots_from_the_bytes_of_one() {
    let cloud = Cloud::start("front-images", &[]);
    let mut operator = operator(&cloud.state());
    let listed = operator.json("image list --sort-column Name");
    let names: Vec<&Value> = listed
        .as_array()
        .into_iter()
        .flatten()
        .map(|image| &image["Name"])
        .collect();
    assert_eq!(names, ["served", "zeros"], "{listed}");
    let found = operator.json("image list --property os_distro=debian");
    assert_eq!(found[0]["ID"], SERVED, "{found}");
    let shown = operator.json("image show served");
    assert_eq!(
        (&shown["id"], &shown["size"], &shown["min_ram"]),
        (&json!(SERVED), &json!(1 << 20), &json!(32)),
        "{shown}"
    );
    assert_eq!(shown["properties"]["os_distro"], "debian", "{shown}");
    let saved = cloud.state().join("saved.raw");
    operator.done(&format!("image save --file {} served", saved.display()));
    assert!(fs::read(saved).expect("a file") == served());
    for command in ["image set --name other served", "image delete served"] {
        let words: Vec<&str> = ["--os-cloud", "berth"]
            .into_iter()
            .chain(command.split(' '))
            .collect();
        let refused = operator.0.run(&words).expect("the shell answers");
        assert!(
            refused.code != 0 && refused.err.contains("images.toml and start berth again"),
            "{refused:?}"
        );
    }
    operator.done("flavor create tiny --ram 64 --vcpus 1 --disk 0");
    operator.done("flavor create small --ram 16 --vcpus 1 --disk 0");
    let create = "server create web --flavor tiny --image served --no-network --wait";
    let made = operator.json(create);
    assert_eq!(made["status"], "ACTIVE", "{made}");
    assert!(has_served(&cloud.state()));
    let words = "--os-cloud berth server create no --flavor small --image served --no-network";
    let words: Vec<&str> = words.split(' ').collect();
    let refused = operator.0.run(&words).expect("the shell answers");
    assert!(refused.code != 0, "it needs more memory: {refused:?}");
    // The catalog has no network service, so the client asks the compute API for the network.
    let words = "--os-cloud berth server create no --flavor tiny --image served --network blue";
    let words: Vec<&str> = words.split(' ').collect();
    let refused = operator.0.run(&words).expect("the shell answers");
    assert!(
        refused.code != 0
            && refused.err.contains("This cloud has no network service")
            && refused.err.contains("openstack server create --nic auto"),
        "{refused:?}"
    );
}

#[test]
fn openstacks_client_sets_shows_lists_and_deletes_the_quotas_of_a_project() {
    let cloud = Cloud::start("front-quotas", &[]);
    let mut operator = operator(&cloud.state());
    let limits = |operator: &mut Operator| {
        let shown = operator.json("quota show --compute admin");
        let rows = shown.as_array().into_iter().flatten();
        let row = |row: &Value| (row["Resource"].to_string(), row["Limit"].as_i64());
        let limits: BTreeMap<_, _> = rows.map(row).collect();
        ["\"instances\"", "\"cores\"", "\"ram\""].map(|key| limits[key])
    };
    let defaults = [Some(10), Some(20), Some(51_200)];
    assert_eq!(limits(&mut operator), defaults);
    operator.done("quota set --instances 1 --ram -1 admin");
    assert_eq!(limits(&mut operator), [Some(1), Some(20), Some(-1)]);
    let listed = operator.json("quota list --compute");
    assert_eq!(listed[0]["Instances"], 1, "{listed}");
    operator.done("flavor create tiny --ram 64 --vcpus 1 --disk 0");
    operator.done("server create one --flavor tiny --image zeros --no-network");
    let words = "--os-cloud berth server create two --flavor tiny --image zeros --no-network";
    let words: Vec<&str> = words.split(' ').collect();
    let refused = operator.0.run(&words).expect("the shell answers");
    let sentence = "Quota exceeded for instances: Requested 1, but already used 1 of 1 instances";
    assert!(
        refused.code != 0 && refused.err.contains(sentence),
        "{refused:?}"
    );
    operator.done("quota delete --compute admin");
    assert_eq!(limits(&mut operator), defaults);
    operator.done("server create two --flavor tiny --image zeros --no-network");
}

#[test]
fn openstacks_client_changes_limits_by_their_unified_names_and_quota_sets_have_the_same() {
    let classes = ("BERTH__QUOTA__RESOURCE_CLASSES", "VGPU=-1");
    let cloud = Cloud::start("front-limits", &[classes]);
    let mut operator = operator(&cloud.state());
    let registered = operator.json("registered limit list --service compute");
    let rows = registered.as_array().into_iter().flatten();
    let row = |row: &Value| {
        let name = row["Resource Name"].as_str().expect("a name").to_owned();
        (name, row["Default Limit"].as_i64().expect("a number"))
    };
    let defaults: BTreeMap<String, i64> = rows.map(row).collect();
    let expected = [
        ("class:MEMORY_MB", 51_200),
        ("class:VCPU", 20),
        ("class:VGPU", -1),
        ("server_group_members", 10),
        ("server_groups", 10),
        ("server_injected_file_content_bytes", 0),
        ("server_injected_file_path_bytes", 0),
        ("server_injected_files", 0),
        ("server_key_pairs", 100),
        ("server_metadata_items", 128),
        ("servers", 10),
    ];
    let expected = expected.map(|(name, limit)| (name.to_owned(), limit));
    assert_eq!(defaults, expected.into());
    let id = registered[0]["ID"].as_str().expect("an id");
    let shown = operator.json(&format!("registered limit show {id}"));
    assert_eq!(shown["default_limit"], registered[0]["Default Limit"]);

    let of_project = "--service compute --project admin --resource-limit";
    let made = operator.json(&format!("limit create {of_project} 8 class:VGPU"));
    assert_eq!(made["resource_limit"], 8, "{made}");
    operator.done(&format!("limit create {of_project} 1 class:VCPU"));
    let token = cloud.token();
    let project = made["project_id"].as_str().expect("an id").to_owned();
    let url = format!("{}/compute/v2.1/os-quota-sets/{project}", cloud.base);
    let quotas = || cloud.asked(&token, HttpCall::get(&url))["quota_set"].clone();
    let set = quotas();
    assert_eq!(
        (&set["class:VGPU"], &set["cores"]),
        (&json!(8), &json!(1)),
        "{set}"
    );
    operator.done("flavor create pair --ram 64 --vcpus 2 --disk 0");
    let mut refused = |words: &str| {
        let words: Vec<&str> = ["--os-cloud", "berth"]
            .into_iter()
            .chain(words.split(' '))
            .collect();
        let refused = operator.0.run(&words).expect("the shell answers");
        assert_ne!(refused.code, 0, "{words:?}");
        refused.err
    };
    let error = refused("server create one --flavor pair --image zeros --no-network");
    assert!(error.contains("Quota exceeded for cores"), "{error}");
    let error = refused(&format!("limit create {of_project} 9 class:VGPU"));
    assert!(error.contains("409"), "{error}");
    let error = refused(&format!("limit create {of_project} 9 class:PGPU"));
    assert!(error.contains("[quota]"), "{error}");
    let error = refused(&format!(
        "limit create {of_project} 9 server_injected_files"
    ));
    assert!(error.contains("no effect"), "{error}");
    let error = refused(&format!("registered limit set --default-limit 9 {id}"));
    assert!(error.contains("[quota]"), "{error}");

    let listed = operator.json("limit list --project admin --resource-name class:VGPU");
    let id = listed[0]["ID"].as_str().expect("an id").to_owned();
    assert_eq!(
        (listed[0]["ID"].as_str(), listed[1].is_null()),
        (made["id"].as_str(), true)
    );
    let changed = operator.json(&format!("limit set --resource-limit 0 {id}"));
    assert_eq!(changed["resource_limit"], 0, "{changed}");
    assert_eq!(quotas()["class:VGPU"], 0);
    operator.done("quota set --cores 7 --instances 3 admin");
    let mut limits = |words: &str| -> BTreeMap<String, i64> {
        let listed = operator.json(words);
        let rows = listed.as_array().into_iter().flatten();
        rows.map(|row| {
            let name = row["Resource Name"].as_str().expect("a name").to_owned();
            (name, row["Resource Limit"].as_i64().expect("a number"))
        })
        .collect()
    };
    let expected = [("class:VCPU", 7), ("class:VGPU", 0), ("servers", 3)];
    let expected = expected.map(|(name, limit)| (name.to_owned(), limit));
    assert_eq!(limits("limit list"), expected.into());
    operator.done(&format!("limit delete {id}"));
    assert_eq!(quotas()["class:VGPU"], -1, "the default applies again");
}

#[test]
fn without_an_images_file_the_error_explains_how_to_add_images() {
    let listen = format!("127.0.0.1:{}", free_port().expect("a port"));
    let environment = [("BERTH__API__LISTEN", listen.as_str())];
    let host = Host::start_with("front-bare", &environment);
    let mut operator = operator(&host.node.home.state_dir());
    assert_eq!(operator.json("image list"), json!([]));
    let printed = host.up.stdout();
    assert!(
        printed.contains("[compute_service] images_file"),
        "{printed}"
    );
}

/// Every link of a document.
fn links(document: &Value, found: &mut Vec<String>) {
    match document {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(text) if key == "href" && !text.contains("docs.openstack") => {
                        found.push(text.clone());
                    }
                    other => links(other, found),
                }
            }
        }
        Value::Array(elements) => elements.iter().for_each(|it| links(it, found)),
        _ => {}
    }
}

/// The head and the body of the answer to a request with this `Host`, which also claims to be forwarded.
fn answer_to(url: &str, host: &str) -> (String, String) {
    let output = Command::new("curl")
        .args(["-s", "-i", "-m", "30", "-H", &format!("Host: {host}")])
        .args(["-H", "X-Forwarded-Host: evil.example"])
        .args(["-H", "X-Forwarded-Proto: https", url])
        .output()
        .expect("curl runs");
    let answer = String::from_utf8_lossy(&output.stdout).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
    (head.to_owned(), body.to_owned())
}

#[test]
fn links_name_the_listener_whatever_host_a_request_names() {
    let cloud = Cloud::start("front-links", &[]);
    let base = &cloud.base;
    for host in ["localhost", "evil.example"] {
        for path in [
            "/",
            "/identity",
            "/identity/v3",
            "/compute",
            "/compute/v2.1/",
            "/accelerator",
            "/accelerator/v2",
            "/image",
            "/image/v2",
        ] {
            let (_, body) = answer_to(&format!("{base}{path}"), host);
            let document: Value = serde_json::from_str(&body).expect("JSON");
            let mut found = Vec::new();
            links(&document, &mut found);
            let below = format!("{base}{}", path.trim_end_matches('/'));
            assert!(!found.is_empty(), "{path}: {document}");
            for link in found {
                let rest = link.strip_prefix(&below);
                assert!(
                    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
                    "{path}: {link}"
                );
            }
        }
        // A request without a token is refused, and the answer names the Identity service.
        for path in ["/placement/resource_providers", "/identity/v3/users"] {
            let (head, _) = answer_to(&format!("{base}{path}"), host);
            assert!(head.starts_with("HTTP/1.1 401"), "{path}: {head}");
            let head = head.to_lowercase();
            assert!(head.contains("www-authenticate: keystone uri"), "{head}");
            assert!(head.contains("/identity/v3"), "{path}: {head}");
            assert!(!head.contains("evil"), "{path}: {head}");
        }
    }
    let root = HttpCall::get(format!("{base}/placement")).send();
    assert_eq!(
        root.expect("it answers").json()["versions"][0]["id"],
        "v1.0"
    );
    let nowhere = HttpCall::get(format!("{base}/resource_providers")).send();
    assert_eq!(nowhere.expect("it answers").status, 404);
}

#[test]
fn the_first_user_is_the_same_after_every_start_and_repaired_if_a_file_is_lost() {
    let mut cloud = Cloud::start("front-user", &[]);
    let state = cloud.state();
    let first = password(&state);
    for file in ["clouds.yaml", "identity.toml"] {
        let mode = fs::metadata(state.join(file))
            .expect("a file")
            .permissions();
        assert_eq!(mode.mode() & 0o777, 0o600, "{file}");
        let text = fs::read_to_string(state.join(file)).expect("text");
        assert_eq!(text.contains(&first), file == "clouds.yaml");
    }
    cloud.host.kill_and_start_again();
    assert_eq!(password(&state), first);
    operator(&state).done("token issue");
    for (lost, is_same) in [("identity.toml", true), ("clouds.yaml", false)] {
        cloud.host.up.kill();
        fs::remove_file(state.join(lost)).expect("a file");
        cloud.host.kill_and_start_again();
        assert_eq!(password(&state) == first, is_same, "{lost}");
        operator(&state).done("resource provider list");
    }
}

/// Users of an operator's own.
fn users(home: &BerthHome) -> PathBuf {
    let hash = crate::program::identity::hash();
    let text = format!(
        "[[project]]\nname = \"admin\"\n[[user]]\nname = \"root\"\npassword_hash = \"{hash}\"\n\
         [[user]]\nname = \"auditor\"\npassword_hash = \"{hash}\"\n\
         [[role_assignment]]\nuser = \"root\"\nproject = \"admin\"\nroles = [\"admin\"]\n\
         [[role_assignment]]\nuser = \"auditor\"\nproject = \"admin\"\nroles = [\"reader\"]\n"
    );
    let file = home.write("users.toml", &text).expect("a file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("a mode");
    file
}

#[test]
fn an_operators_users_replace_the_first_user_with_the_rights_of_their_roles() {
    let home = BerthHome::new().expect("a home");
    let file = users(&home).display().to_string();
    let users_file = [("BERTH__IDENTITY_SERVICE__USERS_FILE", file.as_str())];
    let cloud = Cloud::start("front-operators", &users_file);
    assert!(!cloud.state().join("identity.toml").exists());
    let clouds = fs::read_to_string(cloud.state().join("clouds.yaml")).expect("it was written");
    assert!(clouds.contains("no password") && clouds.contains(&file));
    let mut operator = operator(&cloud.state());
    let as_user = |user: &str| {
        format!(
            "--os-username {user} --os-password {} --os-project-name admin",
            crate::program::identity::PASSWORD
        )
    };
    let (root, auditor) = (as_user("root"), as_user("auditor"));
    operator.done(&format!(
        "{root} flavor create tiny --ram 64 --vcpus 1 --disk 0"
    ));
    let flavors = operator.json(&format!("{auditor} flavor list"));
    assert_eq!(flavors[0]["Name"], "tiny");
    let words = format!("--os-cloud berth {auditor} flavor create big --ram 64 --vcpus 1 --disk 0");
    let words: Vec<&str> = words.split(' ').collect();
    let refused = operator.0.run(&words).expect("the shell answers");
    assert!(
        refused.code != 0 && refused.err.contains("403"),
        "{refused:?}"
    );
}

#[test]
fn a_controller_boots_a_server_on_the_host_of_an_agent_in_another_process() {
    let mut home = BerthHome::new().expect("a home");
    let authority = Authority::new(&home.path("pki"), "ours");
    let client = authority.client();
    let images = images(&home);
    let listen = format!("127.0.0.1:{}", free_port().expect("a port"));
    let mut node = Hypervisor::new("pcpu", "front-there", "");
    let agent_url = agents_elsewhere::listening(&mut node, &authority);
    let text = format!(
        "state_path = \"@HOME@/state\"\n[agent]\nadmin_socket = \"@HOME@/agent.sock\"\n\
         [compute_service]\nimages_file = \"{images}\"\n\
         [conductor_service]\nagents = [\"front-there={agent_url}\"]\n[agent_client]\n\
         cafile = \"{}\"\ncertfile = \"{}\"\nkeyfile = \"{}\"\n",
        authority.own.certificate.display(),
        client.certificate.display(),
        client.key.display(),
    );
    home.configure(&text).expect("a configuration");
    let config = home.config_file().display().to_string();
    // A port of its own, which BerthHome gives to every run, is not the controller's default.
    let mut controller = home
        .start(["--config", &config, "controller", "--listen", &listen])
        .expect("it starts");
    let base = controller
        .wait_for_line(PATIENCE, "All APIs at ")
        .expect("it serves");
    assert_eq!(base, format!("http://{listen}"));
    host_accounts::give_account(&mut home, &base, ("front-there", &mut node));
    let folder = home.path("images").display().to_string();
    node.home
        .set_env("BERTH__IMAGE_CACHE__IMAGE_DIRECTORIES", folder);
    let mut agent = node.start(&["agent"]);
    node.wait_until_healthy(&mut agent);
    let mut operator = operator(&home.state_dir());
    let end = Instant::now() + PATIENCE;
    while operator.json("hypervisor list") == json!([]) {
        let log = agent.stderr();
        assert!(Instant::now() < end, "its state is not reported: {log}");
        thread::sleep(Duration::from_millis(100));
    }
    operator.done("flavor create tiny --ram 64 --vcpus 1 --disk 0");
    let create = format!("server create far --flavor tiny --image {IMAGE} --no-network --wait");
    assert_eq!(operator.json(&create)["status"], "ACTIVE");
    let shown = operator.json("server show far");
    assert_eq!(shown["OS-EXT-SRV-ATTR:host"], "front-there", "{shown}");
    let providers = operator.json("resource provider list");
    assert_eq!(providers[0]["name"], "front-there", "{providers}");
    let create = "server create fetched --flavor tiny --image served --no-network --wait";
    assert_eq!(operator.json(create)["status"], "ACTIVE");
    assert!(has_served(&node.home.state_dir()));
    // A controller's host has no agent that could say more.
    let listed = ["--config", &config, "guest", "list", "-f", "value"];
    let listed = home.run(listed).expect("it runs");
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    assert_eq!(
        listed.stdout.matches("front-there").count(),
        2,
        "{listed:?}"
    );
    assert!(
        listed.stderr.contains("admin_socket does not answer"),
        "{listed:?}"
    );
    operator.done("server delete far fetched --wait");
    let ended = controller.stop(PATIENCE).expect("it ends");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    agent.stop(PATIENCE).expect("it ends");
}
