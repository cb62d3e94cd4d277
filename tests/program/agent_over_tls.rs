//! The agent's API from another host: callers with a certificate of the authority are served and named in the log,
//! others are refused, and new files take effect at SIGHUP.

use std::fs;
use std::process::Command;

use crate::authority::{Authority, Pair};
use berth_tests::port::free_port;
use nix::sys::signal::Signal;

use crate::program::hypervisor::{Hypervisor, PATIENCE};
use crate::program::placement_api::{Api, way};

/// Status of the answer to a GET as curl sees it; none where there is no answer.
fn ask(trusted: &Authority, client: Option<&Pair>, url: &str) -> Option<String> {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--output", "/dev/null", "--noproxy", "*"]);
    curl.args(["--write-out", "%{http_code}", "--cacert"]);
    curl.arg(&trusted.own.certificate);
    if let Some(pair) = client {
        curl.arg("--cert").arg(&pair.certificate);
        curl.arg("--key").arg(&pair.key);
    }
    let output = curl.arg(url).output().expect("curl is installed");
    let status = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(status)
}

#[test]
fn another_host_with_a_certificate_is_served_and_new_files_are_loaded_at_sighup() {
    let api = Api::lease();
    let mut node = Hypervisor::new("pcpu", "tls-agent-1", &way(&api.placement.url()));
    let (ours, next) = (
        Authority::new(&node.home.path("pki"), "ours"),
        Authority::new(&node.home.path("pki"), "next"),
    );
    let port = free_port().expect("a port");
    let (server, ca) = (ours.server(), node.home.path("client-ca.pem"));
    fs::copy(&ours.own.certificate, &ca).expect("a file");
    for (key, value) in [
        ("LISTEN", format!("127.0.0.1:{port}")),
        ("TLS_CERT", server.certificate.display().to_string()),
        ("TLS_KEY", server.key.display().to_string()),
        ("CLIENT_CA", ca.display().to_string()),
    ] {
        node.home.set_env(&format!("BERTH__AGENT__{key}"), value);
    }
    node.home.set_env("BERTH__AUDIT__READS", "true");
    assert_eq!(node.run(&["config", "check"]).code, 0);
    let mut agent = node.start(&["agent"]);
    node.wait_until_healthy(&mut agent);

    let url = format!("https://127.0.0.1:{port}/v1/state");
    let client = ours.client();
    assert_eq!(ask(&ours, Some(&client), &url).as_deref(), Some("200"));
    for path in ["/healthz", "/metrics", "/v1/guests", "/v1/devices"] {
        let url = format!("https://127.0.0.1:{port}{path}");
        assert_eq!(
            ask(&ours, Some(&client), &url).as_deref(),
            Some("200"),
            "{path}"
        );
    }
    assert_eq!(ask(&ours, None, &url), None);
    assert_eq!(ask(&ours, Some(&next.client()), &url), None);
    let plain = format!("http://127.0.0.1:{port}/healthz");
    assert_eq!(ask(&ours, None, &plain).as_deref(), Some("400"));
    let named = "CN=conductor,O=Example (DNS:conductor-1";
    agent
        .wait_for_log(PATIENCE, named)
        .expect("who came in is in the log");

    // Invalid files leave the previous ones in force.
    fs::write(&ca, "no certificate").expect("a file");
    agent.signal(Signal::SIGHUP);
    let refused = "holds no certificate";
    agent
        .wait_for_log(PATIENCE, refused)
        .expect("it says what is wrong");
    assert_eq!(ask(&ours, Some(&client), &url).as_deref(), Some("200"));

    fs::copy(&next.own.certificate, &ca).expect("a file");
    agent.signal(Signal::SIGHUP);
    let taken = || ask(&ours, Some(&next.client()), &url).is_some();
    agent
        .wait_until(PATIENCE, taken)
        .expect("the new authority lets in");
    assert_eq!(ask(&ours, Some(&client), &url), None);
    agent.stop(PATIENCE).expect("it ends");
}

#[test]
fn files_that_cannot_be_used_are_named_by_the_check_and_end_the_start() {
    let way = way("http://127.0.0.1:1");
    let mut node = Hypervisor::new("pcpu", "tls-agent-2", &way);
    let ours = Authority::new(&node.home.path("pki"), "ours");
    let others = Authority::new(&node.home.path("pki"), "others");
    let server = ours.server();
    let cases = [
        (server.key.with_extension("gone"), "cannot be read"),
        (others.server().key, "is not the key of the certificate"),
    ];
    for (key, words) in cases {
        for (option, value) in [
            ("LISTEN", "127.0.0.1:0".to_owned()),
            ("TLS_CERT", server.certificate.display().to_string()),
            ("TLS_KEY", key.display().to_string()),
            ("CLIENT_CA", ours.own.certificate.display().to_string()),
        ] {
            node.home.set_env(&format!("BERTH__AGENT__{option}"), value);
        }
        for command in [&["config", "check"][..], &["agent"]] {
            let refused = node.run(command);
            let output = format!("{}{}", refused.stdout, refused.stderr);
            assert_eq!(refused.code, 78, "{command:?}: {output}");
            assert!(output.contains(words), "{command:?}: {output}");
            assert!(
                output.contains(&key.display().to_string()),
                "{command:?}: {output}"
            );
        }
    }
}
