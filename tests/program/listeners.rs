//! Who may use the listeners of `berth up`: over TCP callers with a token, over the sockets the operators of this host.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use berth_tests::port::free_port;
use tempfile::TempDir;

use crate::program::hypervisor::{Hypervisor, PATIENCE};

/// The user `nobody`, who is no operator.
const NOBODY: &str = "65534";

/// What curl gets as that user: its exit code and the HTTP status, 0 without an answer.
#[track_caller]
fn as_nobody(arguments: &[&str]) -> (i32, u16) {
    let output = Command::new("setpriv")
        .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"])
        .args([
            "curl",
            "-s",
            "-m",
            "30",
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
        ])
        .args(arguments)
        .output()
        .expect("setpriv and curl run");
    let (out, error) = (output.stdout, String::from_utf8_lossy(&output.stderr));
    assert!(!error.contains("setpriv"), "the tests run as root: {error}");
    let status = String::from_utf8_lossy(&out).trim().parse();
    (output.status.code().unwrap_or(-1), status.unwrap_or(0))
}

/// The TCP ports on which a process listens.
fn listening(pid: u32) -> BTreeSet<u16> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs");
    let sockets: BTreeSet<String> = files
        .flatten()
        .filter_map(|file| fs::read_link(file.path()).ok())
        .filter_map(|link| {
            let link = link.display().to_string();
            let inode = link.strip_prefix("socket:[")?.strip_suffix(']')?;
            Some(inode.to_owned())
        })
        .collect();
    let table = |name: &str| {
        let file = format!("/proc/{pid}/net/{name}");
        fs::read_to_string(file).unwrap_or_default()
    };
    let (four, six) = (table("tcp"), table("tcp6"));
    let ports = four.lines().chain(six.lines()).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // 0A is LISTEN.
        let is_own = *fields.get(3)? == "0A" && sockets.contains(*fields.get(9)?);
        let (_, port) = fields.get(1)?.split_once(':')?;
        is_own.then(|| u16::from_str_radix(port, 16).ok()).flatten()
    });
    ports.collect()
}

fn set_mode(path: &std::path::Path, mode: u32) {
    let mode = fs::Permissions::from_mode(mode);
    fs::set_permissions(path, mode).expect("it is ours");
}

/// A folder for sockets that every user can look into.
fn open_folder(node: &mut Hypervisor) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    set_mode(folder.path(), 0o755);
    let socket = folder.path().join("agent.sock");
    node.home.set_env("BERTH__AGENT__ADMIN_SOCKET", socket);
    folder
}

#[track_caller]
fn local_commands_work(node: &mut Hypervisor) {
    for command in [
        &["agent", "status"][..],
        &["provider", "tree"],
        &["reshape", "plan"],
        &["placement", "explain", "resources=VCPU:1"],
        &["accelerator", "device", "list"],
        &["guest", "list"],
    ] {
        let ended = node.run(command);
        assert_eq!(ended.code, 0, "{command:?}: {}", ended.stderr);
    }
    let doctor = node.run(&["doctor"]).stdout;
    let reachable = doctor
        .lines()
        .find(|line| line.contains("placement-reachable"));
    let reachable = reachable.unwrap_or_else(|| panic!("{doctor}"));
    assert!(
        reachable.starts_with("ok") && reachable.contains("placement.sock"),
        "{reachable}"
    );
}

#[test]
fn another_user_of_the_host_gets_nothing_from_up_without_a_token() {
    let api = free_port().expect("a port");
    let mut node = Hypervisor::new("accelerators", "listeners-1", "");
    node.home
        .set_env("BERTH__API__LISTEN", format!("127.0.0.1:{api}"));
    let folder = open_folder(&mut node);
    let mut up = node.start(&["up"]);
    node.wait_until_healthy(&mut up);
    let mut ports = listening(up.pid());
    assert!(ports.remove(&api), "{ports:?}");
    for begin in ["VNC consoles at ", "Serial consoles at "] {
        let url = up.wait_for_line(PATIENCE, begin).expect("a proxy");
        let url = url.trim_start_matches(begin).trim();
        let (_, port) = url.rsplit_once(':').expect("a port");
        assert!(ports.remove(&port.parse().expect("a port")), "{ports:?}");
        let websocket = [
            "-H",
            "Connection: upgrade",
            "-H",
            "Upgrade: websocket",
            "-H",
            "Sec-WebSocket-Version: 13",
            "-H",
            "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==",
        ];
        for query in ["", "?token=admin"] {
            let url = format!("{url}/{query}");
            let asked = [&websocket[..], &[url.as_str()]].concat();
            assert_eq!(as_nobody(&asked), (0, 403), "{url}");
        }
    }
    // The other one is that of [agent] metrics_listen.
    assert_eq!(ports.len(), 1, "{ports:?}");
    for path in [
        "/placement/resource_providers",
        "/accelerator/v2/devices",
        "/compute/v2.1/servers",
        "/identity/v3/users",
        "/image/v2/images",
        "/compute/internal/v1/hosts/a/state",
    ] {
        let url = format!("http://127.0.0.1:{api}{path}");
        assert_eq!(as_nobody(&[&url]), (0, 401), "{path}");
        let token = "X-Auth-Token: admin";
        assert_eq!(as_nobody(&["-H", token, &url]), (0, 401), "{path}");
    }
    for (socket, path) in [
        ("agent.sock", "/v1/state"),
        ("placement.sock", "/resource_providers"),
        ("accelerator.sock", "/v2/devices"),
        ("conductor.sock", "/v1/guests"),
    ] {
        let file = folder.path().join(socket);
        let mode = fs::metadata(&file).expect("a socket").permissions().mode();
        assert_eq!(mode & 0o777, 0o660, "{socket}");
        let (at, url) = (
            file.display().to_string(),
            format!("http://localhost{path}"),
        );
        let ask = ["--unix-socket", &at, "-H", "X-Auth-Token: admin", &url];
        // 7 is curl's code for a connection that fails.
        assert_eq!(as_nobody(&ask), (7, 0), "{socket}");
        // The kernel tells the user even of a caller who can connect.
        set_mode(&file, 0o666);
        assert_eq!(as_nobody(&ask), (0, 403), "{socket}");
        set_mode(&file, 0o660);
    }
    local_commands_work(&mut node);
    let ended = up.stop(PATIENCE).expect("it ends");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    for socket in ["placement.sock", "accelerator.sock", "conductor.sock"] {
        assert!(!folder.path().join(socket).exists(), "{socket}");
    }
}

#[test]
fn a_listener_without_authentication_refuses_the_host_name_of_a_web_page() {
    let address = || format!("127.0.0.1:{}", free_port().expect("a port"));
    let [placement, accelerators, compute, conductor, events] = std::array::from_fn(|_| address());
    let mut node = Hypervisor::new("accelerators", "listeners-2", "");
    node.home.open_to_everybody(&[
        ("PLACEMENT_SERVICE", &placement),
        ("ACCELERATOR_SERVICE", &accelerators),
        ("COMPUTE_SERVICE", &compute),
        ("CONDUCTOR_SERVICE", &conductor),
    ]);
    node.home.set_env("BERTH__AGENT__EVENTS_LISTEN", &events);
    node.home
        .set_env("BERTH__AGENT__EVENTS_AUTH_STRATEGY", "noauth2");
    let mut up = node.start(&["up"]);
    node.wait_until_healthy(&mut up);
    let own = [&placement, &accelerators, &compute, &conductor, &events];
    let is_own = |port: &u16| own.iter().any(|it| it.ends_with(&format!(":{port}")));
    let ports = listening(up.pid());
    let metrics = ports.iter().find(|port| !is_own(port)).expect("metrics");
    let metrics = format!("127.0.0.1:{metrics}");
    for (address, path) in [
        (&placement, "/resource_providers"),
        (&accelerators, "/v2/devices"),
        (&compute, "/v2.1/servers"),
        (&conductor, "/v1/guests"),
        (&events, "/v2.1"),
        (&metrics, "/metrics"),
    ] {
        let url = format!("http://{address}{path}");
        for (host, status) in [
            (address.as_str(), 200),
            ("localhost", 200),
            ("attacker.example", 421),
            ("127.0.0.1.attacker.example", 421),
        ] {
            let host = format!("Host: {host}");
            let ask = ["-H", "X-Auth-Token: admin", "-H", &host, &url];
            assert_eq!(as_nobody(&ask), (0, status), "{url} {host}");
        }
    }
    // Each of the five was opened by the operator's word, and the log warns of it.
    let ended = up.stop(PATIENCE).expect("it ends");
    let warning = "every user and process of this host may use it";
    assert_eq!(ended.stderr.matches(warning).count(), 5, "{}", ended.stderr);
}

#[test]
fn listen_none_opens_no_port_in_any_section() {
    let mut node = Hypervisor::new("accelerators", "listeners-3", "");
    for option in [
        "API__LISTEN",
        "PLACEMENT_SERVICE__LISTEN",
        "ACCELERATOR_SERVICE__LISTEN",
        "COMPUTE_SERVICE__LISTEN",
        "CONDUCTOR_SERVICE__LISTEN",
        "IDENTITY_SERVICE__LISTEN",
        "AGENT__LISTEN",
        "AGENT__EVENTS_LISTEN",
        "AGENT__METRICS_LISTEN",
    ] {
        node.home.set_env(&format!("BERTH__{option}"), "none");
    }
    let mut up = node.start(&["up"]);
    up.wait_for_line(PATIENCE, "next:").expect("it is ready");
    assert_eq!(listening(up.pid()), BTreeSet::new());
    local_commands_work(&mut node);
    up.stop(PATIENCE).expect("it ends");
    let users = format!(
        "[[user]]\nname = \"alice\"\npassword_hash = \"{}\"\n",
        crate::program::identity::hash()
    );
    let users = node.home.write("users.toml", &users).expect("a file");
    set_mode(&users, 0o600);
    node.home
        .set_env("BERTH__IDENTITY_SERVICE__USERS_FILE", users);
    for (service, section) in [
        ("placement", "placement_service"),
        ("accelerator", "accelerator_service"),
        ("identity", "identity_service"),
    ] {
        let ended = node.run(&[service, "serve"]);
        assert_eq!(ended.code, 78, "{service}: {}", ended.stderr);
        let words = format!("set [{section}] listen, or give --listen");
        assert!(ended.stderr.contains(&words), "{}", ended.stderr);
    }
}

#[test]
fn an_address_without_a_word_about_who_may_use_it_is_refused() {
    for section in [
        "placement_service",
        "accelerator_service",
        "compute_service",
    ] {
        let mut node = Hypervisor::new("pcpu", "listeners-4", "");
        let variable = format!("BERTH__{}__LISTEN", section.to_uppercase());
        node.home.set_env(&variable, "127.0.0.1:0");
        for command in [&["up"][..], &["controller", "--listen", "127.0.0.1:0"]] {
            let ended = node.run(command);
            assert_eq!(ended.code, 78, "{section} {command:?}: {}", ended.stderr);
            let output: Vec<&str> = ended.stderr.split_whitespace().collect();
            let output = output.join(" ");
            for words in [
                format!(
                    "[{section}] listen is 127.0.0.1:0, and auth_strategy does not say who may use it"
                ),
                format!("write auth_strategy = \"keystone\" in [{section}], or \"noauth2\""),
            ] {
                assert!(output.contains(&words), "{command:?}: {output}");
            }
        }
    }
    let mut node = Hypervisor::new("pcpu", "listeners-5", "");
    node.home
        .set_env("BERTH__AGENT__EVENTS_LISTEN", "127.0.0.1:0");
    let ended = node.run(&["up"]);
    assert_eq!(ended.code, 78, "{}", ended.stderr);
    let words = "events_auth_strategy = \"noauth2\"";
    assert!(ended.stderr.contains(words), "{}", ended.stderr);
}
