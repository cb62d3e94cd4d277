//! Compares the external dependencies with deny.toml: licences, banned crates, sources. cargo-deny reads the same file;
//! this test needs only cargo.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use berth_tests::peer::checkout;
use berth_tests::scratch::Scratch;
use berth_tests::workspace::{Package, Workspace};
use serde::Deserialize;

/// The one registry that is known without being named in deny.toml, as cargo-deny has it.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

#[derive(Debug, Deserialize)]
struct Deny {
    advisories: Advisories,
    licenses: Licenses,
    bans: Bans,
    sources: Sources,
}

#[derive(Debug, Deserialize)]
struct Advisories {
    yanked: String,
    ignore: Vec<IgnoredAdvisory>,
}

#[derive(Debug, Deserialize)]
struct IgnoredAdvisory {
    id: String,
    reason: String,
}

#[derive(Debug, Deserialize)]
struct Licenses {
    allow: BTreeSet<String>,
    exceptions: Vec<Exception>,
}

#[derive(Debug, Deserialize)]
struct Exception {
    #[serde(rename = "crate")]
    name: String,
    allow: BTreeSet<String>,
}

#[derive(Debug, Deserialize)]
struct Bans {
    wildcards: String,
    deny: Vec<Ban>,
}

#[derive(Debug, Deserialize)]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    /// Who may import it all the same.
    #[serde(default)]
    wrappers: BTreeSet<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    unknown_registry: String,
    unknown_git: String,
}

fn deny() -> Deny {
    let text = fs::read_to_string(checkout().join("deny.toml")).expect("deny.toml is there");
    toml::from_str(&text).expect("deny.toml is as cargo-deny has it")
}

fn workspace() -> Workspace {
    Workspace::read().expect("cargo answers")
}

impl Licenses {
    /// Whether a crate with this SPDX expression may come in. `/` is the old way to write OR.
    fn permit(&self, name: &str, expression: &str) -> bool {
        let exceptions: BTreeMap<_, _> = self
            .exceptions
            .iter()
            .map(|it| (it.name.as_str(), &it.allow))
            .collect();
        let allowed = |license: &str| {
            self.allow.contains(license)
                || exceptions
                    .get(name)
                    .is_some_and(|allow| allow.contains(license))
        };
        let spaced = expression
            .replace('/', " OR ")
            .replace('(', " ( ")
            .replace(')', " ) ");
        let words: Vec<&str> = spaced.split_whitespace().collect();
        let mut rest = words.as_slice();
        any_of(&mut rest, &allowed) && rest.is_empty()
    }
}

fn any_of(words: &mut &[&str], allowed: &dyn Fn(&str) -> bool) -> bool {
    let mut found = all_of(words, allowed);
    while let ["OR", rest @ ..] = words {
        *words = rest;
        found |= all_of(words, allowed);
    }
    found
}

fn all_of(words: &mut &[&str], allowed: &dyn Fn(&str) -> bool) -> bool {
    let mut found = one(words, allowed);
    while let ["AND", rest @ ..] = words {
        *words = rest;
        found &= one(words, allowed);
    }
    found
}

fn one(words: &mut &[&str], allowed: &dyn Fn(&str) -> bool) -> bool {
    match words {
        ["(", rest @ ..] => {
            *words = rest;
            let found = any_of(words, allowed);
            let closed = words.first() == Some(&")");
            *words = words.get(1..).unwrap_or_default();
            found && closed
        }
        // An exception only takes obligations away, but it is a licence of its own all the same.
        [license, "WITH", exception, rest @ ..] => {
            *words = rest;
            allowed(&format!("{license} WITH {exception}"))
        }
        [license, rest @ ..] => {
            *words = rest;
            allowed(license)
        }
        [] => false,
    }
}

/// Crates that deny.toml bans and some crate imports, as `who imports whom`.
fn banned<'a>(deny: &Deny, edges: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let bans: BTreeMap<_, _> = deny
        .bans
        .deny
        .iter()
        .map(|ban| (ban.name.as_str(), &ban.wrappers))
        .collect();
    let offends = |from: &str, to: &str| {
        bans.get(to)
            .is_some_and(|wrappers| !wrappers.contains(from))
    };
    edges
        .filter(|(from, to)| offends(from, to))
        .map(|(from, to)| format!("{from} imports {to}"))
        .collect()
}

#[test]
fn every_licence_is_allowed() {
    let deny = deny();
    let offends = |package: &Package| {
        let license = package.license.as_deref().unwrap_or_default();
        (!deny.licenses.permit(&package.name, license))
            .then(|| format!("{} {}: '{license}'", package.name, package.version))
    };
    let offences: Vec<String> = workspace().packages().filter_map(offends).collect();
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}

#[test]
fn only_libvirts_bindings_use_the_lgpl() {
    let deny = deny();
    for (name, expected) in [("virt", true), ("virt-sys", true), ("serde", false)] {
        assert_eq!(deny.licenses.permit(name, "LGPL-2.1"), expected, "{name}");
    }
}

#[test]
fn an_expression_is_read_as_spdx_means_it() {
    let deny = deny();
    let cases = [
        ("MIT", true),
        ("MIT/Apache-2.0", true),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0 AND MIT", false),
        ("(MIT OR GPL-3.0) AND Unicode-3.0", true),
        ("(MIT AND GPL-3.0) OR GPL-3.0", false),
        ("Apache-2.0 WITH LLVM-exception OR Apache-2.0", true),
        ("GPL-2.0 WITH Classpath-exception-2.0", false),
        ("(MIT", false),
        ("MIT MIT", false),
        ("", false),
    ];
    for (expression, expected) in cases {
        assert_eq!(
            deny.licenses.permit("any", expression),
            expected,
            "{expression}"
        );
    }
}

#[test]
fn no_banned_crate_is_imported_but_by_its_wrappers() {
    let (deny, workspace) = (deny(), workspace());
    let edges: Vec<_> = workspace
        .edges()
        .map(|(from, to)| (from.name.as_str(), to.name.as_str()))
        .collect();
    assert_eq!(banned(&deny, edges.into_iter()), Vec::<String>::new());
    let planted = [
        ("axum", "openssl-sys"),
        ("berth-agent", "reqwest"),
        ("berth-client", "reqwest"),
    ];
    assert_eq!(
        banned(&deny, planted.into_iter()),
        ["axum imports openssl-sys", "berth-agent imports reqwest"]
    );
}

#[test]
fn no_manifest_of_ours_takes_any_version() {
    assert_eq!(deny().bans.wildcards, "deny");
    for member in workspace().members() {
        for dependency in &member.declared {
            assert!(
                dependency.by_path || dependency.requirement != "*",
                "{} takes any version of {}",
                member.name,
                dependency.name
            );
        }
    }
}

#[test]
fn everything_comes_from_the_one_registry() {
    let sources = deny().sources;
    assert_eq!(
        (
            sources.unknown_registry.as_str(),
            sources.unknown_git.as_str()
        ),
        ("deny", "deny")
    );
    for package in workspace().packages() {
        if let Some(source) = &package.source {
            assert_eq!(source, REGISTRY, "{}", package.name);
        }
    }
}

#[test]
fn withdrawn_versions_are_refused_and_each_ignored_advisory_has_a_reason() {
    let advisories = deny().advisories;
    assert_eq!(advisories.yanked, "deny");
    for ignored in advisories.ignore {
        assert!(ignored.reason.len() > 20, "{}", ignored.id);
    }
}

/// Runs the script of `make check` with a cargo of this text in its PATH. Returns its exit code and output.
fn advisories(cargo: &str, copies: Option<&str>) -> (Option<i32>, String) {
    let scratch = Scratch::new().expect("a folder");
    for name in ["cargo", "cargo-deny"] {
        let program = scratch.join(name);
        fs::write(&program, format!("#!/bin/sh\n{cargo}\n")).expect("a program");
        fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).expect("it is ours");
    }
    let home = scratch.join("home");
    fs::create_dir_all(home.join("advisory-dbs").join(copies.unwrap_or_default()))
        .expect("a folder");
    let path = std::env::var("PATH").unwrap_or_default();
    let ran = Command::new(checkout().join("packaging/scripts/advisories.sh"))
        .env("PATH", format!("{}:{path}", scratch.path().display()))
        .env("CARGO_HOME", &home)
        .output()
        .expect("bash is there");
    let output = String::from_utf8_lossy(&ran.stdout).into_owned();
    (ran.status.code(), output)
}

#[test]
fn an_advisory_fails_the_check_and_an_unreachable_database_is_said_and_does_not() {
    let unreachable = "case \"$*\" in *fetch*) exit 1;; esac";
    let vulnerable = "case \"$*\" in *check*) exit 1;; esac";
    for (cargo, copies, code, words) in [
        ("exit 0", None, 0, "none applies"),
        (vulnerable, None, 1, ""),
        (
            unreachable,
            None,
            0,
            "NOT CHECKED: the advisory database cannot be reached",
        ),
        (unreachable, Some("rustsec"), 0, "its copy of "),
        ("exit 1", Some("rustsec"), 1, "its copy of "),
    ] {
        let (ended, output) = advisories(cargo, copies);
        assert_eq!(ended, Some(code), "{cargo}: {output}");
        assert!(output.contains(words), "{cargo}: {output}");
    }
}
