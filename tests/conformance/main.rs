//! OpenStack Placement's own test suite against `berth placement serve`: all of its tests, in each configuration that
//! they need, each file on an empty database. A failed test fails this program by name.

mod bad_input;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use berth_tests::berth::{BerthHome, RunningBerth};
use berth_tests::peer::{
    Database, GabbiFile, Gabbits, MariaDb, PlacementSettings, Postgres, PostgresDatabase,
    RealPlacement, gabbi_files,
};

const PATIENCE: Duration = Duration::from_secs(60);

/// The suite's configurations as options of berth.toml, and the number of tests of each: a test that does not run is a
/// failure.
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

/// A policy that permits everything: each rule except the ones that other rules refer to.
fn open_policy() -> String {
    let rules = berth_placement::rules().into_iter().chain([
        "service_api",
        "admin_or_service_api",
        "project_reader_api",
        "admin_or_project_reader_or_service_api",
    ]);
    rules.map(|rule| format!("\"{rule}\": \"@\"\n")).collect()
}

/// Where a service keeps its rows.
#[derive(Clone, Copy, Debug)]
enum Storage {
    Sqlite,
    MariaDb,
    Postgres,
}

impl Storage {
    fn make(self) -> GabbiDatabase {
        match self {
            Self::Sqlite => GabbiDatabase::Sqlite,
            Self::MariaDb => {
                let server = MariaDb::shared().expect("MariaDB starts");
                GabbiDatabase::MariaDb(server.create().expect("a database"))
            }
            Self::Postgres => {
                let server = Postgres::shared().expect("PostgreSQL starts");
                GabbiDatabase::Postgres(server.create().expect("a database"))
            }
        }
    }
}

/// A database for one file. It ends with the value.
enum GabbiDatabase {
    /// In the service's own folder.
    Sqlite,
    MariaDb(Database),
    Postgres(PostgresDatabase),
}

impl GabbiDatabase {
    /// The line of `[placement_service]` that leads to it.
    fn line(&self) -> String {
        let url = match self {
            Self::Sqlite => return String::new(),
            Self::MariaDb(database) => database.url(),
            Self::Postgres(database) => database.url(),
        };
        format!("connection = \"{url}\"\n")
    }
}

/// How the service of a run is, whatever its file asks for.
#[derive(Clone, Copy)]
struct ServiceSettings {
    storage: Storage,
    /// Lines of `[placement_service]`.
    lines: &'static str,
}

/// A service for one file.
struct GabbiService {
    berth: RunningBerth,
    url: String,
    _home: BerthHome,
    /// Last: the service ends before its rows go.
    _rows: GabbiDatabase,
}

impl GabbiService {
    fn start(lines: &str, manner: ServiceSettings) -> Self {
        let rows = manner.storage.make();
        let mut home = BerthHome::new().expect("a home");
        let section = "[placement_service]\nlisten = \"127.0.0.1:0\"\n";
        let (connection, own) = (rows.line(), manner.lines);
        let text = format!("state_path = \"@HOME@/state\"\n{section}{connection}{own}{lines}");
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
            _rows: rows,
        }
    }
}

/// Why tests of this file failed, a line each, and how many passed, of a Placement at this URL.
fn outcome(gabbits: &mut Gabbits, file: &GabbiFile, url: &str) -> (usize, Vec<String>) {
    let tests = gabbits.run(file, url).expect("the suite runs");
    let failures: Vec<String> = tests
        .iter()
        .filter_map(|test| Some((&test.name, test.failure.as_ref()?)))
        .map(|(name, why)| format!("{}: {name}: {why}", file.file))
        .collect();
    (tests.len() - failures.len(), failures)
}

/// The same of a service of its own.
fn run(
    gabbits: &mut Gabbits,
    file: &GabbiFile,
    lines: &str,
    manner: ServiceSettings,
) -> (usize, Vec<String>) {
    let service = GabbiService::start(lines, manner);
    let outcome = outcome(gabbits, file, &service.url);
    let ended = service.berth.stop(PATIENCE).expect("it ends");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    outcome
}

/// Runs files concurrently in several lanes, each with its own service and program.
fn run_all(
    files: Vec<(GabbiFile, &str)>,
    manner: ServiceSettings,
) -> (BTreeMap<String, usize>, Vec<String>) {
    let lanes = thread::available_parallelism().map_or(2, NonZero::get);
    let left = Mutex::new(files);
    let sums = Mutex::new((BTreeMap::new(), Vec::new()));
    thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                let mut gabbits = Gabbits::start().expect("the suite starts");
                let next = || left.lock().unwrap_or_else(PoisonError::into_inner).pop();
                while let Some((file, lines)) = next() {
                    let (passed, failures) = run(&mut gabbits, &file, lines, manner);
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

/// These files of the suite.
fn files(names: &[&str]) -> Vec<GabbiFile> {
    let files = gabbi_files().expect("the suite").into_iter();
    let found: Vec<_> = files
        .filter(|file| names.contains(&file.file.as_str()))
        .collect();
    assert_eq!(found.len(), names.len(), "the suite has other files");
    found
}

/// Runs these files of the suite on a database.
fn every_test_passes_on(storage: Storage, mut files: Vec<GabbiFile>) {
    // The longest file first, so that no long one starts last.
    files.sort_by_key(|file| file.tests);
    let mut wanted = BTreeMap::new();
    for file in &files {
        *wanted.entry(file.configuration.clone()).or_default() += file.tests;
    }
    let manner = ServiceSettings { storage, lines: "" };
    let (passed, failures) = run_all(files.into_iter().map(with_lines).collect(), manner);
    println!("{storage:?}: {passed:?} passed");
    let count = failures.len();
    assert!(count == 0, "{count} failed:\n{}", failures.join("\n"));
    assert_eq!(passed, wanted);
}

#[test]
fn every_test_of_the_peers_own_suite_passes_on_sqlite() {
    let files = gabbi_files().expect("the suite");
    let mut listed = BTreeMap::new();
    for file in &files {
        *listed.entry(file.configuration.as_str()).or_default() += file.tests;
    }
    let known = CONFIGURATIONS.into_iter();
    let known: BTreeMap<&str, usize> = known.map(|(name, tests, _)| (name, tests)).collect();
    assert_eq!(listed, known);
    every_test_passes_on(Storage::Sqlite, files);
}

/// The statements are the same on each database, except those that `servers` tests on all of them (`databases::*`). So
/// `make test` runs the files with the most writes, and `make soak` all.
#[test]
fn the_tests_of_the_peers_own_suite_that_write_most_pass_on_postgresql() {
    let written = [
        "allocations",
        "allocations-1.28",
        "allocations-post",
        "inventory",
        "reshaper",
        "resource-provider",
        "traits",
        "usage",
    ];
    every_test_passes_on(Storage::Postgres, files(&written));
}

#[test]
#[cfg(feature = "soak")]
fn every_test_of_the_peers_own_suite_passes_on_postgresql() {
    every_test_passes_on(Storage::Postgres, gabbi_files().expect("the suite"));
}

#[test]
#[cfg(feature = "soak")]
fn every_test_of_the_peers_own_suite_passes_on_mariadb() {
    every_test_passes_on(Storage::MariaDb, gabbi_files().expect("the suite"));
}

#[test]
fn below_a_path_prefix_the_service_passes_tests_that_ignore_links() {
    let files = files(&[
        "basic-http",
        "microversion",
        "unicode",
        "inventory",
        "allocations",
        "reshaper",
    ]);
    let manner = ServiceSettings {
        storage: Storage::Sqlite,
        lines: "path_prefix = \"/placement\"\n",
    };
    let (_, failures) = run_all(files.into_iter().map(with_lines).collect(), manner);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// A file for each tree that is planted: what is found in them is found by the peer. Only a change of this program, or of
/// the peer's version, changes the result, so `make test` tries some of the trees.
#[test]
fn objects_created_over_the_api_equal_the_peers_own_fixtures() {
    let mut names = vec![
        "allocation-candidates-mappings-numa",
        "basic-http",
        "same-subtree-deep",
        "with-allocations",
    ];
    if cfg!(feature = "soak") {
        names.extend([
            "allocation-candidates",
            "allocation-candidates-any-traits-groups",
            "allocation-candidates-bug-1792503",
            "allocation-candidates-member-of",
            "granular",
        ]);
    }
    let files = files(&names);
    let mut gabbits = Gabbits::start().expect("the suite starts");
    for file in files {
        let real = RealPlacement::lease(PlacementSettings::default()).expect("Placement starts");
        let (_, failures) = outcome(&mut gabbits, &file, &real.url());
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    }
}
