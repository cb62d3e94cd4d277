//! Corrupt input other than the configuration: machine files, state files, Placement's answers. The program must name
//! the problem, never panic, and never print a secret.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use berth_tests::berth::Outcome;
use berth_tests::fault_proxy::{FaultProxy, ProxyFault, ProxyRule};

use serde_json::json;

use crate::program::hypervisor::{Hypervisor, PATIENCE};
use crate::program::placement_api::{Api, way};

/// What a panic says, or what looks like one.
const PANICS: [&str; 4] = ["panicked", "RUST_BACKTRACE", "this is a bug", "E0002"];

#[track_caller]
fn no_panic(text: &str) {
    for word in PANICS {
        assert!(!text.contains(word), "{text}");
    }
}

#[track_caller]
fn expect(outcome: &Outcome, codes: &[i32], words: &[&str], of: &str) {
    let stderr = &outcome.stderr;
    assert!(
        codes.contains(&outcome.code),
        "{of}: {}\n{stderr}",
        outcome.code
    );
    no_panic(stderr);
    for word in words {
        assert!(stderr.contains(word), "{of}: {word}: {stderr}");
    }
}

#[test]
fn an_invalid_machine_file_is_78_and_names_file_and_key() {
    let good =
        "[[node]]\nname = \"n\"\nmemory_mib = 1024\ndisk = 10\ncpus = { online = \"0-3\" }\n";
    let gpu = |line: &str| format!("{good}[[node.gpu]]\naddress = \"0000:04:00.0\"\n{line}\n");
    let guest = |line: &str| {
        format!(
            "{good}[[node.guest]]\nuuid = \"f2e3fac2-308a-5bb4-a8d7-292d9a96eb01\"\nname = \"g\"\nvcpus = 1\nmemory_mib = 1\ndisk_gib = 1\n{line}\n"
        )
    };
    let cases: &[(String, &str)] = &[
        (String::new(), "node"),
        ("\u{0}".to_owned(), "machine.toml"),
        ("[[node".to_owned(), "machine.toml"),
        ("node = 3".to_owned(), "node"),
        (good.replace("memory_mib = 1024", ""), "memory_mib"),
        (good.replace("1024", "-1"), "memory_mib"),
        (good.replace("1024", "\"much\""), "memory_mib"),
        (good.replace("1024", "99999999999999999999"), "machine.toml"),
        (good.replace("disk = 10", "disk = 1.5"), "disk"),
        (good.replace("\"0-3\"", "\"3-0\""), "cpus"),
        (good.replace("\"0-3\"", "\"0-99999999999\""), "cpus"),
        (good.replace("name = \"n\"", "name = \"\""), "name"),
        (good.replace("name = \"n\"", "nmae = \"n\""), "nmae"),
        (format!("{good}{good}"), "name"),
        (format!("{good}colour = \"red\"\n"), "colour"),
        (format!("[model]\nvgpu = \"everywhere\"\n{good}"), "vgpu"),
        (gpu("types = { a = 1 }\nenabled = \"b\""), "enabled"),
        (gpu("types = { a = -1 }"), "types"),
        (gpu("").replace("04:00.0", "zz:00.0"), "address"),
        (
            format!(
                "{}{}",
                gpu(""),
                "[[node.gpu]]\naddress = \"0000:04:00.0\"\n"
            ),
            "address",
        ),
        (guest("").replace("f2e3", "wxyz"), "uuid"),
        (guest("mdevs = [{ uuid = \"x\" }]"), "mdevs"),
        (guest("cpu_policy = \"greedy\""), "cpu_policy"),
        (guest("vcpus_typo = 1"), "vcpus_typo"),
        (
            format!("{good}[[node.custom]]\nclass = \"no class\"\ntotal = 1\n"),
            "class",
        ),
        ("a = [".repeat(20_000), "machine.toml"),
    ];
    let mut node = Hypervisor::new("pcpu", "node-1", &way("http://127.0.0.1:9"));
    for (text, key) in cases {
        node.home.write("machine.toml", text).expect("a file");
        let plan = node.run(&["agent", "--once", "--deadline", "1s"]);
        expect(
            &plan,
            &[78],
            &["machine.toml", key],
            text.get(..120).unwrap_or(text),
        );
    }
    fs::remove_file(node.home.path("machine.toml")).expect("it was there");
    for command in [&["agent"][..], &["up"], &["reshape", "plan"]] {
        expect(&node.run(command), &[78], &["machine.toml"], "no file");
    }
}

#[test]
fn a_damaged_state_file_is_named_with_its_remedy() {
    let api = Api::lease();
    let mut node = Hypervisor::new("pcpu", "damaged-1", &api.way());
    let file = node.home.state_dir().join("compute_id");
    for content in [
        "",
        "\n",
        "no uuid",
        "\u{0}\u{0}",
        "f2e3fac2-308a-5bb4-a8d7-292d9a96eb0",
        &"7".repeat(1 << 20),
    ] {
        fs::write(&file, content).expect("a file");
        expect(
            &node.once(),
            &[78],
            &["compute_id", "UUID"],
            content.get(..40).unwrap_or(content),
        );
    }
    fs::remove_file(&file).expect("it was there");
    fs::create_dir(&file).expect("a folder in its place");
    expect(&node.once(), &[74], &["compute_id"], "a folder");
    fs::remove_dir(&file).expect("it was there");

    let file = node.home.state_dir().join("disabled.json");
    for content in ["", "{", "[1]", "\u{0}", "{\"reason\": 3}"] {
        fs::write(&file, content).expect("a file");
        expect(
            &node.once(),
            &[74],
            &["disabled.json", "berth agent disable"],
            content,
        );
    }
    fs::remove_file(&file).expect("it was there");
    assert_eq!(
        api.get("/resource_providers")["resource_providers"],
        serde_json::json!([])
    );
    expect(&node.once(), &[0], &[], "all fixed");
}

#[test]
fn truncated_answers_of_placement_are_retried_at_the_start() {
    let api = Api::lease();
    for (fault, name) in [
        (ProxyFault::Garbage, "garbage-1"),
        (ProxyFault::Truncate, "truncated-1"),
    ] {
        let proxy = FaultProxy::start(&api.placement.url()).expect("a proxy");
        proxy.add_rule(ProxyRule::new(fault));
        let mut node = Hypervisor::new("pcpu", name, &way(&proxy.url()));
        let manager = node.managed();
        let mut agent = node.start(&["agent"]);
        let tried = || proxy.trace().len() >= 3 && manager.status().contains("keeps retrying");
        agent.wait_until(PATIENCE, tried).expect("it tries again");
        assert!(!manager.has_received("READY=1"));
        proxy.heal();
        assert_eq!(node.run(&["agent", "tick"]).code, 0);
        let ready = || manager.has_received("READY=1");
        agent.wait_until(PATIENCE, ready).expect("it is ready");
        no_panic(&agent.stderr());
    }
}

#[test]
fn corrupt_answers_of_placement_do_not_end_a_running_agent() {
    let api = Api::lease();
    let proxy = FaultProxy::start(&api.placement.url()).expect("a proxy");
    let mut node = Hypervisor::new("pcpu", "spoilt-1", &way(&proxy.url()));
    let manager = node.managed();
    let mut agent = node.start(&["agent"]);
    for (fault, words) in [
        (ProxyFault::Garbage, "JSON"),
        (ProxyFault::Truncate, "before the answer was complete"),
        (ProxyFault::Endless, "larger than"),
    ] {
        let well = || manager.status().starts_with("in sync");
        agent.wait_until(PATIENCE, well).expect("it is well");
        proxy.add_rule(ProxyRule::new(fault));
        let is_reported = || manager.status().contains(words);
        agent
            .wait_until(PATIENCE, is_reported)
            .expect("it says what is wrong");
        proxy.heal();
        assert_eq!(node.run(&["agent", "tick"]).code, 0);
    }
    assert_eq!(manager.count("READY=1"), 1);
    no_panic(&agent.stderr());
    // A start that gets an endless answer reports it, and continues when it is over.
    agent.stop(PATIENCE).expect("it ends");
    proxy.add_rule(ProxyRule::new(ProxyFault::Endless));
    let mut agent = node.start(&["agent"]);
    let is_reported = || manager.status().contains("larger than");
    agent
        .wait_until(PATIENCE, is_reported)
        .expect("it says why");
    assert_eq!(manager.count("READY=1"), 1, "the unit stays activating");
    proxy.heal();
    let ready = || manager.count("READY=1") == 2;
    agent.wait_until(PATIENCE, ready).expect("it is ready");
    assert_eq!(agent.stop(PATIENCE).expect("it ends").code, 0);
}

/// Answers every request with the same bytes.
struct ScriptedServer {
    url: String,
    answer: Arc<Mutex<String>>,
    asked: Arc<Mutex<usize>>,
}

impl ScriptedServer {
    fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let (answer, asked) = (Arc::new(Mutex::new(String::new())), Arc::new(Mutex::new(0)));
        let (answers, count) = (Arc::clone(&answer), Arc::clone(&asked));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { continue };
                // All requests of these tests fit; what is cut off is not looked at.
                let _ = stream.read(&mut [0; 65_536]);
                let text = answers
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .clone();
                *count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
                // Who asked may have given up.
                let _ = stream.write_all(text.as_bytes());
            }
        });
        Self {
            url: format!("http://{address}"),
            answer,
            asked,
        }
    }

    fn respond(&self, status: &str, headers: &str, body: &str) {
        let length = body.len();
        let text = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}"
        );
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }

    fn asked(&self) -> usize {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[test]
fn malformed_answers_of_placement_are_survived_or_refused_with_a_message() {
    let liar = ScriptedServer::start();
    let mut node = Hypervisor::new("pcpu", "lied-to-1", &way(&liar.url));
    let provider = |generation: &str| {
        format!(
            "{{\"resource_providers\": [{{\"uuid\": \"x\", \"name\": \"lied-to-1\", \"generation\": {generation}}}]}}"
        )
    };
    let uuid = "f2e3fac2-308a-5bb4-a8d7-292d9a96eb01";
    let deep = "[".repeat(100_000);
    let bodies = [
        String::new(),
        "null".to_owned(),
        "[]".to_owned(),
        "3".to_owned(),
        "{\"resource_providers\": 3}".to_owned(),
        "{\"resource_providers\": [3]}".to_owned(),
        "{\"resource_providers\": [{}]}".to_owned(),
        provider("0"),
        provider("-1").replace("\"x\"", &format!("\"{uuid}\"")),
        provider("1e99").replace("\"x\"", &format!("\"{uuid}\"")),
        provider("\"1\"").replace("\"x\"", &format!("\"{uuid}\"")),
        "<html>It works!</html>".to_owned(),
        deep,
    ];
    for body in &bodies {
        liar.respond("200 OK", "", body);
        let once = node.run(&["agent", "--once", "--deadline", "1s"]);
        let of = body.get(..80).unwrap_or(body);
        expect(&once, &[69, 78], &["lacement"], of);
    }
    let document = |code: &str| {
        let error = json!({"status": 0, "title": "t", "detail": "said here", "request_id": "r", "code": code});
        json!({"errors": [error]}).to_string()
    };
    for (status, code, words) in [
        (
            "400 Bad Request",
            69,
            ["BERTH-E0310", "said here", "berth doctor"],
        ),
        (
            "401 Unauthorized",
            78,
            ["BERTH-E0302", "does not accept the token", "noauth2"],
        ),
        ("403 Forbidden", 78, ["BERTH-E0307", "said here", "noauth2"]),
        (
            "405 Method Not Allowed",
            78,
            ["BERTH-E0309", "said here", "endpoint list"],
        ),
        (
            "413 Content Too Large",
            78,
            ["BERTH-E0309", "said here", "LimitRequestBody"],
        ),
        (
            "302 Found",
            78,
            ["BERTH-E0309", "said here", "endpoint_override"],
        ),
    ] {
        liar.respond(status, "", &document("placement.undefined_code"));
        for command in [&["agent", "--once"][..], &["agent"], &["provider", "tree"]] {
            let mut expected = vec!["Placement"];
            expected.extend(words);
            expect(&node.run(command), &[code], &expected, status);
        }
    }
    let old = document("placement.undefined_code");
    let old = old.replace(
        "\"title\"",
        "\"max_version\": \"1.10\", \"min_version\": \"1.0\", \"title\"",
    );
    liar.respond("406 Not Acceptable", "", &old);
    let words = ["BERTH-E0308", "1.0 to 1.10", "Rocky"];
    expect(&node.run(&["agent", "--once"]), &[78], &words, "too old");
    for (status, headers) in [
        ("302 Found", format!("location: {}\r\n", liar.url)),
        ("204 No Content", String::new()),
        ("418 I'm a teapot", String::new()),
        ("404 Not Found", String::new()),
        ("600 Beyond", String::new()),
        ("not a number", String::new()),
    ] {
        liar.respond(status, &headers, "");
        let before = liar.asked();
        let once = node.run(&["agent", "--once", "--deadline", "1s"]);
        expect(&once, &[69, 78], &["lacement"], status);
        assert!(liar.asked() - before < 20, "{status}: asked too often");
    }
    assert!(
        node.state_files()
            .iter()
            .all(|(name, _)| name != "compute_id")
    );
}

#[test]
fn a_secret_of_the_configuration_is_never_printed_or_stored() {
    const SECRETS: [&str; 3] = ["planted-password", "planted-token", "planted-credential"];
    let liar = ScriptedServer::start();
    let url = &liar.url;
    let ways = [
        format!(
            "auth_type = \"password\"\nauth_url = \"{url}/v3\"\nusername = \"u\"\npassword = \"planted-password\"\n\
             user_domain_name = \"Default\"\nproject_name = \"p\"\nproject_domain_name = \"Default\""
        ),
        format!("auth_type = \"admin_token\"\nendpoint = \"{url}\"\ntoken = \"planted-token\""),
        format!("auth_type = \"v3token\"\nauth_url = \"{url}/v3\"\ntoken = \"planted-token\""),
        format!(
            "auth_type = \"v3applicationcredential\"\nauth_url = \"{url}/v3\"\napplication_credential_id = \"i\"\n\
             application_credential_secret = \"planted-credential\""
        ),
    ];
    // The server repeats its input, as some servers do in their error pages.
    let echo = "{\"error\": {\"message\": \"no user with planted-password, planted-token, planted-credential\"}}";
    for way in ways {
        let mut node = Hypervisor::new("pcpu", "secret-1", &way);
        let manager = node.managed();
        let mut log = String::new();
        for status in ["500 Oops", "503 Away", "200 OK"] {
            liar.respond(status, "", "{}");
            for command in [
                &[
                    "--log-level",
                    "trace",
                    "agent",
                    "--once",
                    "--deadline",
                    "1s",
                ][..],
                &["config", "show", "--origin"],
                &["config", "show", "-f", "json"],
                &["reshape", "plan"],
                &["doctor"],
            ] {
                let outcome = node.run(command);
                log.push_str(&outcome.stdout);
                log.push_str(&outcome.stderr);
            }
        }
        liar.respond("500 Oops", "", echo);
        let mut agent = node.start(&["--log-level", "trace", "agent"]);
        let reported = || node.ask("/metrics").is_some() && !manager.status().is_empty();
        agent.wait_until(PATIENCE, reported).expect("it runs");
        for path in ["/metrics", "/healthz"] {
            log.push_str(&node.ask(path).expect("an answer").text());
        }
        for command in [&["agent", "status"][..], &["config", "diff"]] {
            log.push_str(&node.run(command).stdout);
        }
        let ended = agent.stop(PATIENCE).expect("it ends");
        for (name, content) in node.state_files() {
            log.push_str(&name);
            log.push_str(&String::from_utf8_lossy(&content));
        }
        let own = [
            log,
            ended.stdout,
            ended.stderr,
            manager.received().join("\n"),
        ]
        .concat();
        // The server repeats the secrets; the program masks its own ones, and cannot know the others.
        for secret in SECRETS.iter().filter(|secret| way.contains(**secret)) {
            assert!(!own.contains(secret), "{way}: {own}");
        }
        no_panic(&own);
    }
}
