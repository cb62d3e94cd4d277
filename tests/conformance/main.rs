//! OpenStack Placement's own test-suite against the Placement that `berth placement serve` serves: all of its tests, in each of
//! the configurations that they ask for, each file on an empty database. A test that does not pass fails this program by its name.

#![cfg(test)]

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use berth_tests::berth::{BerthHome, RunningBerth};
use berth_tests::peer::{GabbiFile, Gabbits, gabbi_files};

const PATIENCE: Duration = Duration::from_secs(60);

/// How the suite's configurations are said in berth.toml, and how many tests each has: one that is not run is no success.
const CONFIGURATIONS: [(&str, usize, &str); 5] = [
    ("default", 857, "enforce_new_defaults = false\n"),
    ("legacy-rbac", 146, "enforce_new_defaults = false\n"),
    ("secure-rbac", 268, "enforce_new_defaults = true\n"),
    ("open-policy", 41, "policy_file = \"@HOME@/policy.yaml\"\n"),
    (
        "cors",
        4,
        "enforce_new_defaults = false\n[cors]\nallowed_origin = [\"http://valid.example.com\"]\n\
         allow_headers = [\"openstack-api-version\"]\n",
    ),
];

/// Everybody may do all: each rule but the one that others are made of.
fn open_policy() -> String {
    let rules = berth_placement::rules().chain([
        "service_api",
        "admin_or_service_api",
        "project_reader_api",
        "admin_or_project_reader_or_service_api",
    ]);
    rules.map(|rule| format!("\"{rule}\": \"@\"\n")).collect()
}

/// A service for one file.
struct Service {
    berth: RunningBerth,
    url: String,
    _home: BerthHome,
}

impl Service {
    fn start(lines: &str, prefix: &str) -> Self {
        let mut home = BerthHome::new().expect("a home");
        let section = "[placement_service]\nlisten = \"127.0.0.1:0\"\n";
        let text = format!("state_path = \"@HOME@/state\"\n{section}{prefix}{lines}");
        home.configure(&text).expect("a configuration");
        home.write("policy.yaml", &open_policy()).expect("a file");
        let config = home.config_file().display().to_string();
        let arguments = ["--config", &config, "placement", "serve"];
        let mut berth = home.start(arguments).expect("it starts");
        let url = berth.wait_for_line(PATIENCE, "Placement at ");
        let url = url.expect("it serves");
        Self {
            berth,
            url,
            _home: home,
        }
    }
}

/// Why tests of this file failed, a line each, and how many passed.
fn run(gabbits: &mut Gabbits, file: &GabbiFile, lines: &str, prefix: &str) -> (usize, Vec<String>) {
    let service = Service::start(lines, prefix);
    let tests = gabbits.run(file, &service.url).expect("the suite runs");
    let failures: Vec<String> = tests
        .iter()
        .filter_map(|test| Some((&test.name, test.failure.as_ref()?)))
        .map(|(name, why)| format!("{}: {name}: {why}", file.file))
        .collect();
    let passed = tests.len() - failures.len();
    let ended = service.berth.stop(PATIENCE).expect("it ends");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    (passed, failures)
}

/// Runs files beside each other, a service and a program for each of some lanes.
fn run_all(files: Vec<(GabbiFile, &str)>, prefix: &str) -> (BTreeMap<String, usize>, Vec<String>) {
    let lanes = thread::available_parallelism().map_or(2, NonZero::get);
    let left = Mutex::new(files);
    let sums = Mutex::new((BTreeMap::new(), Vec::new()));
    thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                let mut gabbits = Gabbits::start().expect("the suite starts");
                let next = || left.lock().unwrap_or_else(PoisonError::into_inner).pop();
                while let Some((file, lines)) = next() {
                    let (passed, failures) = run(&mut gabbits, &file, lines, prefix);
                    let mut sums = sums.lock().unwrap_or_else(PoisonError::into_inner);
                    *sums.0.entry(file.configuration).or_default() += passed;
                    sums.1.extend(failures);
                }
            });
        }
    });
    sums.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn with_lines(file: GabbiFile) -> (GabbiFile, &'static str) {
    let mut known = CONFIGURATIONS.iter();
    let found = known.find(|(name, ..)| *name == file.configuration);
    let (_, _, lines) =
        found.unwrap_or_else(|| panic!("{} is no configuration", file.configuration));
    (file, lines)
}

#[test]
fn every_test_of_the_peers_own_suite_passes_in_every_configuration() {
    let mut files = gabbi_files().expect("the suite");
    // The longest first: nobody waits for one that began last.
    files.sort_by_key(|file| file.tests);
    let (passed, failures) = run_all(files.into_iter().map(with_lines).collect(), "");
    for (configuration, wanted, _) in CONFIGURATIONS {
        let passed = passed.get(configuration).copied().unwrap_or_default();
        println!("{configuration}: {passed} of {wanted}");
    }
    assert!(
        failures.is_empty(),
        "{} failed:\n{}",
        failures.len(),
        failures.join("\n")
    );
    let wanted = CONFIGURATIONS.map(|(name, wanted, _)| (name.to_owned(), wanted));
    assert_eq!(passed, BTreeMap::from(wanted));
}

#[test]
fn behind_a_path_of_its_own_the_service_passes_what_does_not_look_at_links() {
    let files = gabbi_files().expect("the suite").into_iter();
    let chosen = [
        "basic-http",
        "microversion",
        "unicode",
        "inventory",
        "allocations",
        "reshaper",
    ];
    let files = files.filter(|file| chosen.contains(&file.file.as_str()));
    let files: Vec<_> = files.map(with_lines).collect();
    assert_eq!(files.len(), chosen.len());
    let (_, failures) = run_all(files, "path_prefix = \"/placement\"\n");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
