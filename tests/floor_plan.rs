//! Compares the table "Who may import whom" in ARCHITECTURE.md with the workspace: no crate imports what its row forbids, no row and no
//! manifest names a crate that the code does not use, and test code does not ship.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use berth_tests::peer::checkout;
use berth_tests::workspace::{Dependency, DependencyKind, Workspace};

const HEADING: &str = "## Who may import whom";
const PURE: [&str; 3] = ["core/model", "core/nova", "core/wire"];

/// Dependencies that no source file names, with the reason why the manifest needs them.
const UNNAMED: [(&str, &str, &str); 1] = [(
    "tests",
    "berth-identity",
    "tests/databases includes the API tests of services/identity by path",
)];

/// Packages with a library of another name.
const LIBRARY_NAMES: [(&str, &str); 1] = [("md-5", "md5")];

#[derive(Debug, PartialEq)]
enum Ours {
    Everything { but: BTreeSet<String> },
    These(BTreeSet<String>),
}

#[derive(Debug)]
struct Row {
    ours: Ours,
    never: Vec<String>,
}

/// The two tables under the heading: rows by folder, and the words of the column *never*.
struct FloorPlan {
    rows: BTreeMap<String, Row>,
    words: BTreeMap<String, BTreeSet<String>>,
}

impl FloorPlan {
    fn read(text: &str) -> Self {
        let section = text
            .split(HEADING)
            .nth(1)
            .expect("ARCHITECTURE.md has the heading");
        let section = section.split("\n## ").next().unwrap_or_default();
        let mut tables = tables(section).into_iter();
        let rows = tables
            .next()
            .expect("a table of crates")
            .into_iter()
            .map(|cells| {
                let [folder, ours, never] = cells.as_slice() else {
                    panic!("three cells: {cells:?}")
                };
                (
                    folder.clone(),
                    Row {
                        ours: ours_of(ours),
                        never: list(never),
                    },
                )
            });
        let rows = rows.collect();
        let words = tables
            .next()
            .expect("a table of words")
            .into_iter()
            .map(|cells| {
                let [word, crates] = cells.as_slice() else {
                    panic!("two cells: {cells:?}")
                };
                (word.clone(), list(crates).into_iter().collect())
            });
        Self {
            rows,
            words: words.collect(),
        }
    }

    /// The row of a crate: its own, or that of its folder (`drivers/*`).
    fn row(&self, folder: &str) -> Option<&Row> {
        let of_folder = || {
            let (parent, _) = folder.rsplit_once('/')?;
            self.rows.get(&format!("{parent}/*"))
        };
        self.rows.get(folder).or_else(of_folder)
    }

    /// What a row's owner does that the row forbids. `folders`: crate name to folder.
    fn offences(
        &self,
        folder: &str,
        declared: &[Dependency],
        folders: &BTreeMap<String, String>,
    ) -> Vec<String> {
        let Some(row) = self.row(folder) else {
            return vec![format!("{folder} has no row")];
        };
        let offends = |dependency: &Dependency| match folders.get(&dependency.name) {
            // The crate's own library, with a feature for its tests.
            Some(target) if target == folder => None,
            Some(target) if target == "tests" => Some("nothing imports the tests".to_owned()),
            Some(target) if is_test_code(target) && is_test_code(folder) => None,
            Some(target) if is_test_code(target) && dependency.kind == DependencyKind::Dev => None,
            Some(target) if is_test_code(target) => Some("test code does not ship".to_owned()),
            Some(target) if !row.allows(target) => Some("not among its own".to_owned()),
            target => row
                .never
                .iter()
                .find(|word| self.bans(word, dependency, target))
                .cloned(),
        };
        declared
            .iter()
            .filter_map(|it| Some(format!("{folder} imports {}: {}", it.name, offends(it)?)))
            .collect()
    }

    /// The crates that the row names and the manifest does not.
    fn unused(
        &self,
        folder: &str,
        declared: &[Dependency],
        folders: &BTreeMap<String, String>,
    ) -> Vec<String> {
        let Some(Row {
            ours: Ours::These(names),
            ..
        }) = self.rows.get(folder)
        else {
            return Vec::new();
        };
        let targets: Vec<&String> = declared
            .iter()
            .filter_map(|dependency| folders.get(&dependency.name))
            .collect();
        names
            .iter()
            .filter(|name| !targets.iter().any(|target| is_ours(name, target)))
            .map(|name| format!("{folder} does not import {name}, which its row allows"))
            .collect()
    }

    fn bans(&self, word: &str, dependency: &Dependency, target: Option<&String>) -> bool {
        // A test may use what the crate may not.
        if dependency.kind == DependencyKind::Dev {
            return false;
        }
        match (self.words.get(word), target) {
            (Some(crates), _) => crates.contains(&dependency.name),
            (None, Some(target)) => {
                is_named(word, target) || target.starts_with(&format!("{word}/"))
            }
            (None, None) => dependency.name == word,
        }
    }
}

impl Row {
    fn allows(&self, target: &str) -> bool {
        match &self.ours {
            Ours::Everything { but } => !but.iter().any(|name| is_named(name, target)),
            Ours::These(names) => names.iter().any(|name| is_ours(name, target)),
        }
    }
}

/// Test crates of their own, in folders of `tests`, and the tests themselves.
fn is_test_code(folder: &str) -> bool {
    folder == "tests" || folder.starts_with("tests/")
}

/// A folder is named whole or by its last part.
fn is_named(name: &str, folder: &str) -> bool {
    folder == name || folder.rsplit('/').next() == Some(name)
}

/// A name in the column *ours*: of a crate, or of a folder for all crates in it.
fn is_ours(name: &str, folder: &str) -> bool {
    is_named(name, folder)
        || folder
            .rsplit_once('/')
            .is_some_and(|(parent, _)| parent == name)
}

fn ours_of(cell: &str) -> Ours {
    match cell.strip_prefix("everything") {
        Some(rest) => Ours::Everything {
            but: list(rest.trim().trim_start_matches("but"))
                .into_iter()
                .collect(),
        },
        None => Ours::These(list(cell).into_iter().collect()),
    }
}

fn list(cell: &str) -> Vec<String> {
    cell.split(',')
        .map(str::trim)
        .filter(|it| !it.is_empty() && *it != "-")
        .map(str::to_owned)
        .collect()
}

/// The tables of a text, without their heads; backticks are dropped.
fn tables(text: &str) -> Vec<Vec<Vec<String>>> {
    let mut found: Vec<Vec<Vec<String>>> = Vec::new();
    let mut inside = false;
    for line in text.lines().map(str::trim) {
        if let Some(line) = line.strip_prefix('|') {
            if !inside {
                found.push(Vec::new());
            }
            let line = line.strip_suffix('|').unwrap_or(line).replace('`', "");
            let cells = line.split('|').map(|cell| cell.trim().to_owned()).collect();
            found.last_mut().expect("one was begun").push(cells);
        }
        inside = line.starts_with('|');
    }
    found
        .into_iter()
        .map(|rows| rows.into_iter().skip(2).collect())
        .collect()
}

fn plan() -> FloorPlan {
    FloorPlan::read(
        &fs::read_to_string(checkout().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is there"),
    )
}

fn workspace() -> Workspace {
    Workspace::read().expect("cargo answers")
}

fn folders(workspace: &Workspace) -> BTreeMap<String, String> {
    workspace
        .members()
        .map(|it| (it.name.clone(), it.folder.clone()))
        .collect()
}

#[test]
fn every_crate_imports_only_what_its_row_allows() {
    let (plan, workspace) = (plan(), workspace());
    let folders = folders(&workspace);
    let offences: Vec<String> = workspace
        .members()
        .flat_map(|it| plan.offences(&it.folder, &it.declared, &folders))
        .collect();
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}

#[test]
fn every_row_names_only_crates_that_its_manifest_names() {
    let (plan, workspace) = (plan(), workspace());
    let folders = folders(&workspace);
    let unused: Vec<String> = workspace
        .members()
        .flat_map(|member| plan.unused(&member.folder, &member.declared, &folders))
        .collect();
    assert!(unused.is_empty(), "{}", unused.join("\n"));
}

#[test]
fn every_dependency_is_used_by_a_source_file() {
    let workspace = workspace();
    let packages: Vec<&Path> = workspace
        .members()
        .map(|member| Path::new(&member.folder))
        .collect();
    let mut unused = Vec::new();
    for member in workspace.members() {
        let text = sources(Path::new(&member.folder), &packages);
        let is_unnamed = |name: &str| {
            UNNAMED
                .iter()
                .any(|(folder, unnamed, _)| *folder == member.folder && *unnamed == name)
        };
        let of_member = member.declared.iter().filter(|dependency| {
            let library = LIBRARY_NAMES
                .iter()
                .find(|(package, _)| *package == dependency.name)
                .map_or(dependency.source_name.as_str(), |(_, library)| library);
            !is_unnamed(&dependency.name) && !uses(&text, library)
        });
        unused.extend(of_member.map(|dependency| {
            let (folder, name) = (&member.folder, &dependency.name);
            format!("{folder} depends on {name}, which none of its source files names")
        }));
    }
    assert!(unused.is_empty(), "{}", unused.join("\n"));
}

/// All Rust sources of a package, without those of other packages in its folders.
fn sources(folder: &Path, packages: &[&Path]) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(checkout().join(folder))
        .expect("a folder of a package")
        .flatten()
    {
        let path = entry.path();
        let below = folder.join(entry.file_name());
        if path.is_dir() {
            if !packages.contains(&below.as_path()) {
                text.push_str(&sources(&below, packages));
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&fs::read_to_string(&path).expect("a source file"));
        }
    }
    text
}

/// Whether a path in the sources begins with this crate: `name::`, `use name;` or `use name as`, comments left out.
fn uses(text: &str, name: &str) -> bool {
    let in_a_path = |line: &str| {
        line.match_indices(name).any(|(at, _)| {
            let (before, after) = (&line[..at], &line[at + name.len()..]);
            let is_use = before.trim_end().ends_with("use")
                && (after.starts_with(';') || after.starts_with(" as "));
            // `::name` is the crate as well, `module::name` is not.
            let before = before.strip_suffix("::").unwrap_or(before);
            let is_inner = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
            !is_inner && (after.starts_with("::") || is_use)
        })
    };
    text.lines()
        .map(str::trim_start)
        .any(|line| !line.starts_with("//") && in_a_path(line))
}

#[test]
fn a_path_that_begins_with_a_crate_uses_it() {
    for (text, expected) in [
        ("use http::Method;", true),
        ("    fn of(request: &http::Request) {", true),
        ("#[derive(Debug, reqwest_http::Error)]", false),
        ("use crate::http::Method;", false),
        ("// use http::Method;", false),
        ("use ::http::Method;", true),
        ("use http as wire;", true),
        ("use berth_http::Method;", false),
        ("let http = 1;", false),
    ] {
        assert_eq!(uses(text, "http"), expected, "{text}");
    }
}

#[test]
fn a_crate_is_named_by_its_last_folder() {
    for (name, folder) in folders(&workspace()) {
        let last = folder.rsplit('/').next().unwrap_or_default();
        let prefix = match folder.rsplit_once('/') {
            Some(("agent", _)) => "berth-agent",
            Some(("services/scheduler", _)) => "berth-scheduler",
            _ => "berth",
        };
        assert_eq!(name, format!("{prefix}-{}", last.replace('_', "-")));
    }
}

#[test]
fn the_core_brings_no_runtime_socket_database_or_logger_with_it() {
    let (plan, workspace) = (plan(), workspace());
    let unwanted: BTreeSet<&String> = ["runtime", "HTTP", "SQL", "logging"]
        .iter()
        .flat_map(|word| &plan.words[*word])
        .collect();
    for (name, folder) in folders(&workspace)
        .iter()
        .filter(|(_, folder)| PURE.contains(&folder.as_str()))
    {
        let brought = workspace.brought_in_by(name);
        let found: Vec<_> = brought.iter().filter(|it| unwanted.contains(it)).collect();
        assert!(found.is_empty(), "{folder} brings {found:?}");
    }
    // The question can be answered with yes.
    assert!(workspace.brought_in_by("berth-store").contains("tokio"));
}

#[test]
fn the_core_reads_no_clock_file_environment_or_socket() {
    for folder in PURE {
        let found = impurities(&checkout().join(folder).join("src"), &WORLD);
        assert!(found.is_empty(), "{}", found.join("\n"));
    }
    assert!(
        !impurities(&checkout().join("tests/src"), &WORLD).is_empty(),
        "the question can be answered with yes"
    );
}

/// What reaches for the world.
const WORLD: [&str; 7] = [
    "std::fs",
    "std::env",
    "std::net",
    "std::process",
    "thread::sleep",
    "Instant::now",
    "SystemTime::now",
];

/// What writes through a link, or makes a folder whose mode depends on the umask.
const CARELESS_WRITES: [&str; 5] = [
    "fs::write(",
    "File::create(",
    "OpenOptions::new()",
    "DirBuilder::new()",
    "create_dir_all(",
];

/// Where these are right, with the reason.
const CAREFUL: [(&str, &str); 5] = [
    ("core/files/src", "the functions that all others call"),
    (
        "agent/images/src/atomic_file.rs",
        "it sets O_NOFOLLOW itself, with other flags",
    ),
    (
        "agent/instances/src/live_console.rs",
        "a terminal of the host; it sets O_NOFOLLOW itself, with other flags",
    ),
    ("drivers/net/src/tap.rs", "a setting of the kernel"),
    (
        "drivers/sysfs/src",
        "attributes of the kernel, and the trees of its tests",
    ),
];

#[test]
fn product_code_writes_files_through_no_link() {
    let mut found = Vec::new();
    for (_, folder) in folders(&workspace()) {
        let sources = checkout().join(&folder).join("src");
        if !is_test_code(&folder) && folder != "tests" {
            found.extend(impurities(&sources, &CARELESS_WRITES));
        }
    }
    let is_careful = |line: &String| {
        CAREFUL
            .iter()
            .any(|(place, _)| line.contains(&format!("/{place}")))
    };
    let (careful, careless): (Vec<_>, Vec<_>) = found.into_iter().partition(is_careful);
    assert!(
        careless.is_empty(),
        "use berth_files (replace, open_options, open_lock, make_folder, make_folders, own_folder):\n{}",
        careless.join("\n")
    );
    assert!(!careful.is_empty(), "the question can be answered with yes");
}

/// Lines outside tests with one of these words, as `file:line: text`.
fn impurities(folder: &Path, words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of sources").flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("test") {
            continue;
        }
        if path.is_dir() {
            found.extend(impurities(&path, words));
        } else if path.extension().is_some_and(|it| it == "rs") {
            let text = fs::read_to_string(&path).expect("a source file");
            let product = text.split("#[cfg(test)]").next().unwrap_or_default();
            let lines = product
                .lines()
                .enumerate()
                .filter(|(_, line)| words.iter().any(|word| line.contains(word)));
            found.extend(
                lines.map(|(number, line)| format!("{}:{}: {line}", path.display(), number + 1)),
            );
        }
    }
    found
}

/// The check itself: a small plan, and imports that break it.
#[test]
fn a_dependency_that_its_row_forbids_is_a_violation() {
    let plan = FloorPlan::read(
        "# A\n## Who may import whom\n\n| crate | ours | never |\n|---|---|---|\n| `core/model` | - | SQL |\n\
         | `agent` | model, drivers/virt | `drivers` |\n| `cli` | everything but tests | |\n\
         \n| word | crates |\n|---|---|\n| SQL | sqlx, rusqlite |\n\n## Next\n\n| x |\n",
    );
    let folders: BTreeMap<String, String> = [
        "core/model",
        "agent",
        "cli",
        "drivers/virt",
        "drivers/fake",
        "tests",
        "tests/fuzz",
    ]
    .map(|folder| {
        (
            format!("berth-{}", folder.rsplit('/').next().unwrap_or_default()),
            folder.to_owned(),
        )
    })
    .into();
    let cases = [
        ("core/model", "serde", DependencyKind::Normal, 0),
        ("core/model", "sqlx", DependencyKind::Normal, 1),
        ("core/model", "sqlx", DependencyKind::Build, 1),
        ("core/model", "sqlx", DependencyKind::Dev, 0),
        ("core/model", "berth-agent", DependencyKind::Dev, 1),
        ("agent", "berth-model", DependencyKind::Normal, 0),
        ("agent", "berth-fake", DependencyKind::Normal, 1),
        ("agent", "berth-virt", DependencyKind::Normal, 1),
        ("cli", "berth-fake", DependencyKind::Normal, 0),
        ("cli", "berth-tests", DependencyKind::Dev, 1),
        ("cli", "berth-fuzz", DependencyKind::Dev, 0),
        ("cli", "berth-fuzz", DependencyKind::Normal, 1),
        ("core/unheard-of", "serde", DependencyKind::Normal, 1),
    ];
    for (folder, name, kind, expected) in cases {
        let dependency = Dependency {
            name: name.to_owned(),
            kind,
            requirement: "^1".to_owned(),
            by_path: false,
            source_name: name.replace('-', "_"),
        };
        let offences = plan.offences(folder, &[dependency], &folders);
        assert_eq!(
            offences.len(),
            expected,
            "{folder} {name} {kind:?}: {offences:?}"
        );
    }
}
