//! The services over TLS, with the certificates of `berth tls init`: a controller and a host, reloads, and clients that are refused.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use berth_tests::berth::{BerthHome, RunningBerth};
use berth_tests::exchange::HttpCall;
use berth_tests::port::free_port;
use berth_tests::wait::wait_until;
use nix::sys::signal::Signal;
use serde_json::json;

use crate::program::cloud::{images, operator};
use crate::program::compute::IMAGE;
use crate::program::host_accounts::new_account;
use crate::program::hypervisor::{Hypervisor, PATIENCE};

/// A folder with the authority of a cloud.
struct Authority(PathBuf);

impl Authority {
    fn new(home: &mut BerthHome, words: &[&str]) -> Self {
        let this = Self(home.path("tls"));
        this.command(home, "init", words);
        this
    }

    fn command(&self, home: &mut BerthHome, command: &str, words: &[&str]) -> String {
        let folder = self.0.display().to_string();
        let all = [&["tls", command, "--directory", &folder], words].concat();
        let done = home.run(all).expect("it runs");
        assert_eq!(done.code, 0, "{words:?}: {}", done.stderr);
        done.stdout
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Whether this user of the default domain gets a token.
    fn logs_in(&self, base: &str, name: &str, password: &str) -> bool {
        let domain = json!({"name": "Default"});
        let user = json!({"name": name, "domain": domain, "password": password});
        let methods = json!({"methods": ["password"], "password": {"user": user}});
        let body = json!({"auth": {"identity": methods}}).to_string();
        let mut curl = Command::new("curl");
        curl.args([
            "--silent",
            "--noproxy",
            "*",
            "--fail",
            "--output",
            "/dev/null",
        ]);
        curl.args(["--cacert", &self.file("ca.pem"), "--data", &body]);
        curl.args(["--header", "Content-Type: application/json"]);
        let url = format!("{base}/identity/v3/auth/tokens");
        curl.arg(url).status().expect("curl is installed").success()
    }

    /// Status and body of the answer that curl gets with a certificate; none where there is no answer.
    fn ask(&self, folder: &Path, client: Option<&str>, url: &str) -> Option<(String, String)> {
        let mut curl = Command::new("curl");
        curl.args([
            "--silent",
            "--noproxy",
            "*",
            "--write-out",
            "\n%{http_code}",
        ]);
        curl.args(["--cacert", &self.file("ca.pem")]);
        if let Some(name) = client {
            curl.arg("--cert").arg(folder.join(format!("{name}.pem")));
            curl.arg("--key").arg(folder.join(format!("{name}.key")));
        }
        let output = curl.arg(url).output().expect("curl is installed");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let (body, status) = printed.rsplit_once('\n')?;
        let answered = output.status.success();
        answered.then(|| (status.to_owned(), body.to_owned()))
    }
}

/// A controller behind TLS, and the URL that it prints.
fn controller(
    home: &mut BerthHome,
    authority: &Authority,
    agent: &str,
    more: &str,
) -> (RunningBerth, String) {
    let listen = format!("127.0.0.1:{}", free_port().expect("a port"));
    let images = images(home);
    let file = |name: &str| authority.file(name);
    let (ca, certificate, key) = (file("ca.pem"), file("ctl.pem"), file("ctl.key"));
    let text = format!(
        "state_path = \"@HOME@/state\"\n[agent]\nadmin_socket = \"@HOME@/agent.sock\"\n\
         [api]\ntls_cert = \"{certificate}\"\ntls_key = \"{key}\"\ncafile = \"{ca}\"\n{more}\
         [compute_service]\nimages_file = \"{images}\"\n[conductor_service]\nagents = [\"{agent}\"]\n\
         [agent_client]\ncafile = \"{ca}\"\ncertfile = \"{certificate}\"\nkeyfile = \"{key}\"\n"
    );
    home.configure(&text).expect("a configuration");
    let config = home.config_file().display().to_string();
    let words = ["--config", &config, "controller", "--listen", &listen];
    let mut running = home.start(words).expect("it starts");
    let base = running.wait_for_line(PATIENCE, "All APIs at ");
    let base = base.expect("it serves");
    assert_eq!(base, format!("https://{listen}"));
    (running, base)
}

#[test]
fn a_controller_and_an_agent_run_over_the_certificates_of_tls_init() {
    let mut home = BerthHome::new().expect("a home");
    let words = ["--controller", "ctl", "--host", "tls-there,127.0.0.1"];
    let authority = Authority::new(&mut home, &words);
    let mut node = Hypervisor::new("pcpu", "tls-there", "");
    let address = format!("127.0.0.1:{}", free_port().expect("a port"));
    let agent_url = format!("https://{address}");
    let agents = format!("tls-there={agent_url}");
    let (mut controller, base) = controller(&mut home, &authority, &agents, "");
    let password = new_account(&mut home, &base, ("tls-there", &mut node));
    for (key, value) in [
        ("LISTEN", address.clone()),
        ("TLS_CERT", authority.file("tls-there.pem")),
        ("TLS_KEY", authority.file("tls-there.key")),
        ("CLIENT_CA", authority.file("ca.pem")),
        ("CLIENT_CRL", authority.file("revoked.pem")),
        ("ALLOWED_CLIENTS", "DNS:ctl".to_owned()),
    ] {
        node.home.set_env(&format!("BERTH__AGENT__{key}"), value);
    }
    for section in ["PLACEMENT", "CYBORG", "CONDUCTOR", "GLANCE"] {
        let key = format!("BERTH__{section}__CAFILE");
        node.home.set_env(&key, authority.file("ca.pem"));
    }
    wait_until("the account of the host", || {
        match authority.logs_in(&base, "host/tls-there", &password) {
            true => Ok(()),
            false => Err("it cannot log in"),
        }
    });
    let folder = home.path("images").display().to_string();
    node.home
        .set_env("BERTH__IMAGE_CACHE__IMAGE_DIRECTORIES", folder);
    let checked = node.run(&["config", "check", "--deny-warnings"]);
    assert_eq!(checked.code, 0, "{}", checked.stderr);
    let mut agent = node.start(&["agent"]);
    node.wait_until_healthy(&mut agent);

    // OpenStack's client trusts the authority that clouds.yaml names, and every link in the catalog is HTTPS.
    let mut operator = operator(&home.state_dir());
    let end = Instant::now() + PATIENCE;
    while operator.json("hypervisor list") == json!([]) {
        let log = agent.stderr();
        assert!(Instant::now() < end, "its state is not reported: {log}");
        thread::sleep(Duration::from_millis(100));
    }
    let catalog = operator.json("catalog list").to_string();
    assert!(
        catalog.contains(&base) && !catalog.contains("http://"),
        "{catalog}"
    );
    operator.done("flavor create tiny --ram 64 --vcpus 1 --disk 0");
    let create = format!("server create far --flavor tiny --image {IMAGE} --no-network --wait");
    assert_eq!(operator.json(&create)["status"], "ACTIVE");
    operator.done("server delete far --wait");

    let plain = HttpCall::get(base.replace("https", "http")).send();
    let plain = plain.expect("an answer");
    assert_eq!(plain.status, 400);
    assert!(plain.text().contains("https://"), "{}", plain.text());

    // A host is no client of another one, and neither is another client of the authority.
    let url = format!("{agent_url}/v1/state");
    let own = authority.0.clone();
    let ask = |folder: &Path, client: &str| authority.ask(folder, Some(client), &url);
    let status = |answer: Option<(String, String)>| answer.map(|(status, _)| status);
    assert_eq!(status(ask(&own, "ctl")).as_deref(), Some("200"));
    assert_eq!(ask(&own, "tls-there"), None);
    authority.command(&mut home, "init", &["--controller", "other"]);
    let (refused, body) = ask(&own, "other").expect("an answer");
    assert_eq!(refused, "403", "{body}");
    assert!(body.contains("allowed_clients"), "{body}");

    // A stolen certificate is refused once it is revoked.
    let stolen = home.path("stolen");
    fs::create_dir(&stolen).expect("a folder");
    for file in ["ctl.pem", "ctl.key"] {
        fs::copy(own.join(file), stolen.join(file)).expect("a file");
    }
    authority.command(&mut home, "revoke", &["ctl"]);
    agent.signal(Signal::SIGHUP);
    let refused = || ask(&stolen, "ctl").is_none();
    agent.wait_until(PATIENCE, refused).expect("it is revoked");
    // Without the files the controller keeps what it has.
    controller.signal(Signal::SIGHUP);
    controller
        .wait_for_log(PATIENCE, "TLS certificate reload failed")
        .expect("it says so");
    let index = authority.ask(&own, None, &base);
    assert_eq!(status(index).as_deref(), Some("200"));
    authority.command(&mut home, "init", &["--controller", "ctl"]);
    controller.signal(Signal::SIGHUP);
    controller
        .wait_for_log(PATIENCE, "TLS certificate reloaded")
        .expect("it says so");
    let index = authority.ask(&own, None, &base);
    assert_eq!(status(index).as_deref(), Some("200"));
    assert_eq!(status(ask(&own, "ctl")).as_deref(), Some("200"));
    let ended = controller.stop(PATIENCE).expect("it ends");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    agent.stop(PATIENCE).expect("it ends");
}

#[test]
fn an_address_of_other_hosts_is_refused_without_tls_at_the_start_and_by_the_check() {
    let keystone = "[keystone_authtoken]\nauth_url = \"http://127.0.0.1:1/v3\"\nusername = \"u\"\npassword = \"p\"\n\
                    project_name = \"service\"\nuser_domain_name = \"Default\"\nproject_domain_name = \"Default\"\n";
    let everywhere = "0.0.0.0:0";
    for (section, command) in [
        ("api", &["controller"][..]),
        ("placement_service", &["placement", "serve"]),
        ("accelerator_service", &["accelerator", "serve"]),
    ] {
        let mut home = BerthHome::new().expect("a home");
        let strategy = match section {
            "api" => "public_endpoint = \"https://cloud.example.org\"",
            _ => "auth_strategy = \"keystone\"",
        };
        let text = format!("state_path = \"@HOME@/state\"\n[{section}]\n{strategy}\n");
        home.configure(&format!("{text}{keystone}"))
            .expect("a configuration");
        let config = home.config_file().display().to_string();
        let refused = |home: &mut BerthHome, command: &[&str]| {
            let all = [&["--config", &config], command].concat();
            let refused = home.run(all).expect("it runs");
            assert_eq!(refused.code, 78, "{command:?}: {}", refused.stderr);
            let ways_out = ["berth tls init", "insecure_http = true", section];
            for words in ["without TLS"].iter().chain(&ways_out) {
                assert!(refused.stderr.contains(words), "{}", refused.stderr);
            }
        };
        refused(
            &mut home,
            &[command, &["--listen", everywhere][..]].concat(),
        );
        let key = format!("BERTH__{}__LISTEN", section.to_uppercase());
        home.set_env(&key, everywhere);
        refused(&mut home, command);
        refused(&mut home, &["config", "check", "--offline"]);
    }
}
