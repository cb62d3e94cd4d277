//! `openstack server` with `berth up`, from a flavor to a running server and its deletion, through kills.

use std::time::{Duration, Instant};
use std::{fs, thread};

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use berth_tests::berth::BerthHome;
use berth_tests::peer::{AcceleratorPlugin, OpenStackShell};
use berth_tests::port::free_port;
use serde_json::{Value, json};

use crate::authority::Authority;
use crate::program::guests::Host;
use crate::program::hypervisor::{Hypervisor, PATIENCE};
use crate::program::placement_api::{Api, way};
use crate::program::{accelerator_service, agents_elsewhere};

pub(crate) const IMAGE: &str = "9a17439a-85d0-4c53-a3d3-0f68a2eac896";

/// Of 512 bytes that are zero.
const CHECKSUM: &str = "076a27c79e5ace2a3d47f9dd2e83e4ff6ea8872b3c2218f66c92b89b55f36560";

/// What the client asks of others: of an image service whether there is such an image, of an identity service its version.
fn other_services() -> String {
    async fn answer(request: Request) -> Response {
        let path = request.uri().path().trim_end_matches('/').to_owned();
        let host = request.headers()["host"].to_str().unwrap_or_default();
        let link = json!([{"rel": "self", "href": format!("http://{host}{path}/")}]);
        let body = match path.trim_start_matches('/').split('/').collect::<Vec<_>>()[..] {
            ["v3"] => json!({"version": {"id": "v3.14", "status": "stable", "links": link}}),
            ["v2"] => json!({"versions": [{"id": "v2.9", "status": "CURRENT", "links": link}]}),
            ["v2", "images", IMAGE] => {
                json!({"id": IMAGE, "name": "zeros", "status": "active"})
            }
            _ => return StatusCode::NOT_FOUND.into_response(),
        };
        ([("content-type", "application/json")], body.to_string()).into_response()
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a socket");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            let router = Router::new().fallback(answer);
            axum::serve(listener, router).await.expect("it serves");
        });
    });
    format!("http://{address}")
}

/// The file of images for a home: one raw image, in the folder that guests may name images of.
pub(crate) fn images_file(home: &BerthHome) -> String {
    let folder = home.path("images");
    fs::create_dir_all(&folder).expect("a folder");
    let image = folder.join("zeros.raw");
    fs::write(&image, [0; 512]).expect("a file");
    let text = format!(
        "[[image]]\nname = \"zeros\"\nid = \"{IMAGE}\"\npath = \"{}\"\nformat = \"raw\"\nchecksum = \"sha256:{CHECKSUM}\"\n",
        image.display()
    );
    let file = home.write("images.toml", &text).expect("a file");
    file.display().to_string()
}

/// An operator with OpenStack's client before a compute API.
pub(crate) struct Operator(pub(crate) OpenStackShell);

impl Operator {
    fn before(compute: &str) -> Self {
        let others = other_services();
        let clouds = json!({"berth": {
            "auth_type": "admin_token", "auth": {"endpoint": compute, "token": "admin"},
            "compute_endpoint_override": compute, "image_endpoint_override": format!("{others}/v2"), "identity_api_version": "3",
            "identity_endpoint_override": format!("{others}/v3"),
        }});
        let shell = OpenStackShell::start(AcceleratorPlugin::OpenStackClient, &clouds);
        Self(shell.expect("the shell starts"))
    }

    #[track_caller]
    pub(crate) fn done(&mut self, words: &str) -> String {
        let all: Vec<&str> = ["--os-cloud", "berth"]
            .into_iter()
            .chain(words.split(' '))
            .collect();
        let output = self.0.run(&all).expect("the shell answers");
        assert_eq!(output.code, 0, "{words}: {} {}", output.err, output.out);
        output.out
    }

    #[track_caller]
    pub(crate) fn json(&mut self, words: &str) -> Value {
        let output = self.done(&format!("{words} -f json"));
        serde_json::from_str(&output).expect("JSON")
    }

    /// Asks until a server is so.
    #[track_caller]
    pub(crate) fn until(&mut self, server: &str, status: &str) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let shown = self.json(&format!("server show {server}"));
            if shown["status"] == status {
                return shown;
            }
            assert!(Instant::now() < end, "{server} is not {status}: {shown}");
            thread::sleep(Duration::from_millis(100));
        }
    }
}

/// A machine on which `berth up` serves the compute API, and an operator.
struct Cloud {
    host: Host,
    operator: Operator,
    _images: BerthHome,
}

impl Cloud {
    fn start(node: &str) -> Self {
        let port = free_port().expect("a port");
        let images = BerthHome::new().expect("a home");
        let file = images_file(&images);
        let folder = images.path("images").display().to_string();
        let listen = format!("127.0.0.1:{port}");
        let environment = [
            ("BERTH__COMPUTE_SERVICE__LISTEN", listen.as_str()),
            ("BERTH__COMPUTE_SERVICE__AUTH_STRATEGY", "noauth2"),
            ("BERTH__COMPUTE_SERVICE__IMAGES_FILE", file.as_str()),
            // A flavor is too large for every host.
            ("BERTH__QUOTA__CORES", "-1"),
        ];
        Self {
            host: Host::start_with_images(node, &environment, Some(&folder)),
            operator: Operator::before(&format!("http://{listen}/v2.1")),
            _images: images,
        }
    }

    /// The reason in a refused server's fault, and what `berth scheduler explain` says of it.
    #[track_caller]
    fn why_there_is_no_host(&mut self, shown: &Value) -> (String, String) {
        const NONE: &str = "No valid host was found: ";
        let message = shown["fault"]["message"].as_str().unwrap_or_default();
        assert!(
            message.starts_with(NONE) && !message.contains("Filter"),
            "{message}"
        );
        // The operator's version.
        let reported = shown["fault"]["details"].as_str().unwrap_or_default();
        let reason = reported.strip_prefix(NONE);
        let reason = reason.unwrap_or_else(|| panic!("{shown}")).to_owned();
        let id = shown["id"].as_str().expect("an id");
        let explain = ["scheduler", "explain", "--request", id];
        let explained = self.host.node.run(&explain);
        // 1: there is no host.
        assert_eq!(explained.code, 1, "{}", explained.stderr);
        let text = explained.stdout;
        assert!(text.contains(NONE), "{text}");
        (reason, text)
    }
}

#[test]
fn openstacks_client_boots_switches_and_deletes_a_server_with_a_device() {
    let mut cloud = Cloud::start("compute-up");
    let group = "resources:PGPU=1";
    cloud
        .host
        .done(&["accelerator", "profile", "create", "gpu", "--group", group]);
    cloud
        .operator
        .done("flavor create tiny --ram 64 --vcpus 1 --disk 0 --property accel:device_profile=gpu");
    let flavor = cloud.operator.json("flavor show tiny");
    assert_eq!(flavor["properties"]["accel:device_profile"], "gpu");
    let made = cloud.operator.json(&format!(
        "server create web --flavor tiny --image {IMAGE} --no-network --property k=v --wait"
    ));
    assert_eq!(
        (&made["name"], &made["status"]),
        (&json!("web"), &json!("ACTIVE")),
        "{made}"
    );
    let shown = cloud.operator.json("server show web");
    assert_eq!(shown["OS-EXT-SRV-ATTR:host"], "compute-up", "{shown}");
    assert_eq!(shown["properties"], json!({"k": "v"}));
    let listed = cloud.operator.json("server list");
    assert_eq!(
        (&listed[0]["Name"], &listed[0]["Status"]),
        (&json!("web"), &json!("ACTIVE"))
    );
    for (command, status) in [
        ("server stop web", "SHUTOFF"),
        ("server start web", "ACTIVE"),
        ("server reboot --hard web", "ACTIVE"),
        ("server pause web", "PAUSED"),
        ("server unpause web", "ACTIVE"),
    ] {
        cloud.operator.done(command);
        cloud.operator.until("web", status);
    }
    let events = cloud.operator.json("server event list web");
    let words: Vec<&Value> = events
        .as_array()
        .into_iter()
        .flatten()
        .map(|event| &event["Action"])
        .collect();
    assert_eq!(
        words,
        ["unpause", "pause", "reboot", "start", "stop", "create"]
    );
    cloud.operator.done("server delete web --wait");
    assert_eq!(cloud.operator.json("server list"), json!([]));
    cloud.operator.done("flavor delete tiny");
    let left = cloud
        .host
        .done(&["accelerator", "request", "list", "-f", "value"]);
    assert_eq!(left, "", "nothing is left of it");
}

#[test]
fn a_server_boots_through_a_kill_and_one_without_a_host_shows_the_reason() {
    let mut cloud = Cloud::start("compute-kills");
    cloud
        .operator
        .done("flavor create tiny --ram 64 --vcpus 1 --disk 0");
    cloud
        .operator
        .done("flavor create huge --ram 64 --vcpus 4000 --disk 0");
    cloud.operator.done(
        "flavor create odd --ram 64 --vcpus 1 --disk 0 --property capabilities:hypervisor_type=xen",
    );
    let image = format!("--image {IMAGE} --no-network");
    cloud
        .operator
        .done(&format!("server create one --flavor tiny {image}"));
    cloud.host.kill_and_start_again();
    cloud.operator.until("one", "ACTIVE");
    cloud
        .operator
        .done(&format!("server create big --flavor huge {image}"));
    let shown = cloud.operator.until("big", "ERROR");
    let (reason, explained) = cloud.why_there_is_no_host(&shown);
    assert!(reason.contains("4000 VCPU"), "{reason}");
    assert!(explained.contains(&reason), "{reason}\n{explained}");
    // Here Placement has a candidate, and a filter says no.
    cloud
        .operator
        .done(&format!("server create odd --flavor odd {image}"));
    let shown = cloud.operator.until("odd", "ERROR");
    let (reason, explained) = cloud.why_there_is_no_host(&shown);
    for reported in [reason, explained] {
        assert!(reported.contains("ComputeCapabilitiesFilter"), "{reported}");
    }
    cloud.operator.done("server delete one big odd");
    cloud.host.kill_and_start_again();
    let end = Instant::now() + PATIENCE;
    while cloud.operator.json("server list") != json!([]) {
        assert!(Instant::now() < end, "they do not go");
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn the_compute_api_alone_boots_a_server_with_remote_services_and_agent() {
    let api = Api::lease();
    let placement = way(&api.placement.url());
    let mut accelerators = accelerator_service::home();
    let (_accelerators, url) = accelerator_service::serve(&mut accelerators);
    let mut home = BerthHome::new().expect("a home");
    let authority = Authority::new(&home.path("pki"), "ours");
    let client = authority.client();
    let images = images_file(&home);
    let mut node = Hypervisor::new("pcpu", "compute-there", &placement);
    let agent_url = agents_elsewhere::listening(&mut node, &authority);
    let listen = format!("127.0.0.1:{}", free_port().expect("a port"));
    let text = format!(
        "state_path = \"@HOME@/state\"\n[placement]\n{placement}\n[cyborg]\n{}\n[compute_service]\nlisten = \"{listen}\"\n\
         images_file = \"{images}\"\n[conductor_service]\nagents = [\"compute-there={agent_url}\"]\n[agent_client]\n\
         cafile = \"{}\"\ncertfile = \"{}\"\nkeyfile = \"{}\"\n",
        way(&url),
        authority.own.certificate.display(),
        client.certificate.display(),
        client.key.display(),
    );
    home.configure(&text).expect("a configuration");
    let config = home.config_file().display().to_string();
    let mut compute = home
        .start(["--config", &config, "compute", "serve"])
        .expect("it starts");
    let url = compute
        .wait_for_line(PATIENCE, "Compute at ")
        .expect("it serves");
    for (key, value) in [
        ("CONDUCTOR__AUTH_TYPE", "admin_token".to_owned()),
        ("CONDUCTOR__ENDPOINT_OVERRIDE", format!("http://{listen}")),
        ("CONDUCTOR__TOKEN", "admin".to_owned()),
        (
            "IMAGE_CACHE__IMAGE_DIRECTORIES",
            home.path("images").display().to_string(),
        ),
    ] {
        node.home.set_env(&format!("BERTH__{key}"), value);
    }
    let mut agent = node.start(&["agent"]);
    node.wait_until_healthy(&mut agent);
    let mut operator = Operator::before(&url);
    let end = Instant::now() + PATIENCE;
    while operator.json("hypervisor list") == json!([]) {
        assert!(Instant::now() < end, "the agent does not tell its state");
        thread::sleep(Duration::from_millis(100));
    }
    operator.done("flavor create tiny --ram 64 --vcpus 1 --disk 0");
    let create = format!("server create far --flavor tiny --image {IMAGE} --no-network --wait");
    assert_eq!(operator.json(&create)["status"], "ACTIVE");
    let shown = operator.json("server show far");
    assert_eq!(shown["OS-EXT-SRV-ATTR:host"], "compute-there", "{shown}");
    operator.done("server delete far --wait");
    assert_eq!(operator.json("server list"), json!([]));
    let ended = compute.stop(PATIENCE).expect("it ends");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    agent.stop(PATIENCE).expect("it ends");
}
