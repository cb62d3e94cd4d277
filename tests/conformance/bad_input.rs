//! Bad input to `berth placement serve` from independent tools: schemathesis, by the OpenAPI document, and libFuzzer
//! (`tests/fuzz`), guided by coverage. Also a thousand connections that send nothing. `make soak` does more of the
//! former two.
//!
//!   BERTH_SCHEMATHESIS_EXAMPLES=4   the number of generated requests per operation and run, in addition to the fixed ones
//!   BERTH_SCHEMATHESIS_RUNS=1       the number of runs by the document, one after another with one service
//!   BERTH_FUZZER=FILE               the fuzzer's binary; built if this is not set
//!   BERTH_FUZZ_SEED=1               the fuzzer's seed
//!   BERTH_FUZZ_RUNS=100000          the number of inputs for each target of the fuzzer
//!   BERTH_FUZZ_KEEP=DIR             a directory for inputs with new coverage; they are dropped if this is not set
//!   BERTH_BAD_INPUT_REPORT=FILE     a line for each run: what, requests or inputs, KiB resident before and after, violations

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, process};

use berth_tests::exchange::{HttpCall, address_of};
use berth_tests::peer::{Schemathesis, checkout, output, report_bad_input};
use berth_tests::scratch::Scratch;
use serde_json::json;

use super::{GabbiService, PATIENCE, ServiceSettings, Storage};

/// How much more memory the service may have after the last run than after the first: what they made is in
/// its database and in its snapshot.
const GROWTH_KIB: u64 = 32 << 10;

/// How many inputs the fuzzer makes up for each of its targets; `make soak` has it make up millions.
const RUNS: u64 = 20_000;

/// What schemathesis looks for.
struct SearchedDefect {
    /// The microversion; any that it makes up where there is none.
    version: Option<&'static str>,
    checks: &'static str,
    phases: &'static str,
}

/// The checks by the document, with bodies of this microversion.
const AS_DOCUMENTED: SearchedDefect = SearchedDefect {
    version: Some("1.39"),
    checks: CHECKS,
    phases: "coverage,fuzzing,stateful",
};

/// What no microversion may do.
const AT_ANY_VERSION: SearchedDefect = SearchedDefect {
    version: None,
    checks: "not_a_server_error",
    phases: "fuzzing,stateful",
};

const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,\
     unsupported_method,negative_data_rejection,allow_header_conformance";

const TARGETS: [(&str, &str); 5] = [
    ("candidates", "query"),
    ("lists", "query"),
    ("allocations", "body"),
    ("reshapes", "body"),
    ("policies", "policy"),
];

fn number(name: &str, otherwise: u64) -> u64 {
    env::var(name).map_or(otherwise, |text| text.parse().expect(name))
}

fn service(storage: Storage) -> GabbiService {
    let manner = ServiceSettings { storage, lines: "" };
    let service = GabbiService::start("enforce_new_defaults = false\n", manner);
    for n in 1..=6 {
        let uuid = format!("00000000-0000-0000-0000-{n:012x}");
        let parent = (n > 3).then(|| format!("00000000-0000-0000-0000-{:012x}", n - 3));
        let body =
            json!({"name": format!("host{n}"), "uuid": uuid, "parent_provider_uuid": parent});
        let url = format!("{}/resource_providers", service.url);
        let answer = admin(HttpCall::post(url))
            .json(&body)
            .send()
            .expect("an answer");
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    service
}

fn admin(ask: HttpCall) -> HttpCall {
    ask.header("x-auth-token", "admin")
        .header("openstack-api-version", "placement 1.39")
}

/// One run of schemathesis: how many requests it made. Its findings fail the test.
fn schemathesis(service: &GabbiService, seed: u64, sought: &SearchedDefect) -> u64 {
    let mut headers = vec!["X-Auth-Token: admin".to_owned()];
    if let Some(version) = sought.version {
        headers.push(format!("OpenStack-API-Version: placement {version}"));
    }
    let run = Schemathesis {
        document: "placement.json",
        url: &service.url,
        headers: &headers,
        checks: sought.checks,
        phases: sought.phases,
        examples: number("BERTH_SCHEMATHESIS_EXAMPLES", 4),
        seed,
        hooks: ("bad_input", "conformance"),
        environment: &[],
    };
    run.run().unwrap_or_else(|error| panic!("{error}"))
}

fn answers(service: &GabbiService) {
    let ask = admin(HttpCall::get(format!("{}/resource_classes", service.url)));
    assert_eq!(ask.send().expect("it lives").status, 200);
}

/// Some runs by the document over one service, then one at any microversion.
fn bad_requests(storage: Storage) {
    let runs = number("BERTH_SCHEMATHESIS_RUNS", 1);
    let mut service = service(storage);
    let mut sizes = Vec::new();
    let mut requests = 0;
    for seed in 1..=runs {
        requests += schemathesis(&service, seed, &AS_DOCUMENTED);
        sizes.push(service.berth.resident_kib());
    }
    requests += schemathesis(&service, runs + 1, &AT_ANY_VERSION);
    sizes.push(service.berth.resident_kib());
    answers(&service);
    assert!(!service.berth.has_ended());
    let (first, last) = (sizes[0], sizes[sizes.len() - 1]);
    let grown = last > first + GROWTH_KIB;
    let violations = u8::from(grown);
    report_bad_input(&format!(
        "schemathesis, {storage:?}\t{requests}\t{first}\t{last}\t{violations}"
    ));
    assert!(!grown, "memory after each run, in KiB: {sizes:?}");
    let ended = service.berth.stop(PATIENCE).expect("it ends");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
}

#[test]
fn generated_requests_are_answered_as_documented() {
    bad_requests(Storage::Sqlite);
}

/// The SQL path, where a text goes to another program: `make soak`.
#[test]
#[ignore = "make soak: minutes"]
fn on_a_server_it_is_the_same() {
    for storage in [Storage::Postgres, Storage::MariaDb] {
        bad_requests(storage);
    }
}

/// The fuzzer, built to count where it has been. Where that is done already it takes a second.
fn fuzzer() -> PathBuf {
    if let Some(program) = env::var_os("BERTH_FUZZER") {
        return program.into();
    }
    let mut build = Command::new(checkout().join("tests/fuzz/build.sh"));
    // This program is in TARGET/debug/deps.
    let here = env::current_exe().expect("this program");
    let target = here.ancestors().nth(3).expect("a target directory");
    build.env("CARGO_TARGET_DIR", target);
    // Cargo's variables for a test would make build scripts that depend on them, and all their dependents, run again.
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy();
        if [
            "CARGO_PKG_",
            "CARGO_MANIFEST_",
            "CARGO_CRATE_",
            "CARGO_BIN_",
        ]
        .iter()
        .any(|it| name.starts_with(it))
        {
            build.env_remove(&*name);
        }
    }
    output(&mut build)
        .expect("the fuzzer is built")
        .trim()
        .into()
}

fn fuzz(program: &Path, target: &str, words: &str, runs: u64) {
    let tests = checkout().join("tests/fuzz");
    let scratch = Scratch::new().expect("a directory");
    let found = env::var_os("BERTH_FUZZ_KEEP").map_or_else(|| scratch.join("new"), PathBuf::from);
    let found = found.join(target);
    fs::create_dir_all(&found).expect("a directory");
    let corpus = tests.join("corpus").join(target);
    let seeds = fs::read_dir(&corpus).expect("a corpus").count() as u64;
    assert!(seeds > 5, "{target}");
    let ran = Command::new(program)
        .env("BERTH_FUZZ", target)
        .args([
            format!("-runs={}", runs + seeds),
            "-max_len=4096".to_owned(),
        ])
        // A hang is an input that takes a minute, on any machine.
        .args([
            "-timeout=60",
            "-rss_limit_mb=2048",
            "-print_final_stats=1",
            "-verbosity=0",
        ])
        .arg(format!("-seed={}", number("BERTH_FUZZ_SEED", 1)))
        .arg(format!(
            "-dict={}",
            tests.join(format!("{words}.dict")).display()
        ))
        .arg(format!("-artifact_prefix={}/", scratch.path().display()))
        .args([&found, &corpus])
        .output()
        .expect("the fuzzer runs");
    let printed = String::from_utf8_lossy(&ran.stderr);
    if !ran.status.success() {
        report_bad_input(&format!("fuzz, {target}\t0\t0\t0\t1"));
        let inputs = fs::read_dir(scratch.path()).expect("a directory").flatten();
        for input in inputs.filter(|entry| entry.path().is_file()) {
            let bytes = fs::read(input.path()).expect("the input");
            println!("{:?}: {}", input.file_name(), bytes.escape_ascii());
        }
        panic!("{target}:\n{printed}");
    }
    let stat = |name: &str| {
        let line = printed.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|text| text.trim().parse::<u64>().ok())
            .unwrap_or_default()
    };
    let tried = stat("stat::number_of_executed_units:");
    let peak = stat("stat::peak_rss_mb:") << 10;
    assert!(tried >= runs, "{target}: {tried} of {runs}\n{printed}");
    report_bad_input(&format!("fuzz, {target}\t{tried}\t0\t{peak}\t0"));
}

#[test]
#[cfg_attr(not(feature = "soak"), ignore = "make soak runs it")]
fn no_generated_input_breaks_its_parser() {
    let program = fuzzer();
    let runs = number("BERTH_FUZZ_RUNS", RUNS);
    for (target, words) in TARGETS {
        fuzz(&program, target, words, runs);
    }
}

#[test]
#[cfg_attr(not(feature = "soak"), ignore = "make soak runs it")]
fn no_generated_request_breaks_the_scheduler() {
    let runs = number("BERTH_FUZZ_RUNS", RUNS);
    fuzz(&fuzzer(), "requests", "request", runs);
}

#[test]
fn a_thousand_idle_connections_block_no_client() {
    // More than a process may open by itself on many machines.
    let mut more = Command::new("prlimit");
    more.args(["--pid", &process::id().to_string(), "--nofile=4096:"]);
    output(&mut more).expect("prlimit, of util-linux");
    let service = service(Storage::Sqlite);
    let address = address_of(&service.url).expect("an address");
    answers(&service);
    let before = service.berth.resident_kib();
    let mut idle = Vec::new();
    for n in 0..1_000 {
        let mut stream = TcpStream::connect(address).expect("it takes connections");
        // One in three has begun to ask.
        if n % 3 == 0 {
            stream
                .write_all(b"GET /traits HTTP/1.1\r\nhost: ")
                .expect("it reads");
        }
        idle.push(stream);
    }
    for _ in 0..20 {
        answers(&service);
    }
    let after = service.berth.resident_kib();
    assert!(after < before + GROWTH_KIB, "{before} KiB, then {after}");
    drop(idle);
    answers(&service);
    let ended = service.berth.stop(PATIENCE).expect("it ends");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
}
