//! Cargo's metadata of this workspace: its crates, their dependencies, and external crates. Used by the tests that
//! compare the code with ARCHITECTURE.md and deny.toml.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use crate::peer::checkout;

/// Why cargo's answer could not be had.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// Cargo would not run.
    #[error("cargo metadata could not be run: {0}")]
    Run(#[from] io::Error),
    #[error("cargo metadata failed: {0}")]
    Refused(String),
    /// Cargo's answer is not what it used to be.
    #[error("cargo metadata answered something else than expected: {0}")]
    Answer(#[from] serde_json::Error),
}

/// What a dependency is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DependencyKind {
    /// The library or program itself; cargo says null.
    Normal,
    Build,
    Dev,
}

/// One crate of the whole graph.
#[derive(Clone, Debug)]
pub struct Package {
    /// Name in its manifest.
    pub name: String,
    pub version: String,
    /// SPDX expression, where it has one.
    pub license: Option<String>,
    /// Where it comes from; `None` is this workspace.
    pub source: Option<String>,
    /// Folder below the checkout, for a crate of this workspace (else empty): `core/model`.
    pub folder: String,
    /// What its manifest names.
    pub declared: Vec<Dependency>,
}

/// A line of a manifest.
#[derive(Clone, Debug)]
pub struct Dependency {
    pub name: String,
    pub kind: DependencyKind,
    /// The versions it takes; `*` takes any.
    pub requirement: String,
    /// Named by path, inside the workspace.
    pub by_path: bool,
    /// The name that Rust sources use: `serde_json` for serde-json, or the name that the manifest renames it to.
    pub source_name: String,
}

/// The whole graph for this machine's platform.
#[derive(Clone, Debug)]
pub struct Workspace {
    packages: BTreeMap<String, Package>,
    edges: BTreeMap<String, Vec<(String, BTreeSet<DependencyKind>)>>,
}

impl Workspace {
    /// Asks cargo about the checkout that the tests were built from.
    pub fn read() -> Result<Self, WorkspaceError> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        // Without a platform cargo would fetch what only others need.
        let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let output = Command::new(cargo)
            .args([
                "metadata",
                "--format-version",
                "1",
                "--filter-platform",
                &platform,
            ])
            .current_dir(checkout())
            .output()?;
        if !output.status.success() {
            return Err(WorkspaceError::Refused(
                String::from_utf8_lossy(&output.stderr).into_owned(),
            ));
        }
        Ok(raw::Metadata::into_workspace(serde_json::from_slice(
            &output.stdout,
        )?))
    }

    pub fn packages(&self) -> impl Iterator<Item = &Package> {
        self.packages.values()
    }

    /// The crates of this workspace.
    pub fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages().filter(|package| package.source.is_none())
    }

    /// All dependencies between crates of the workspace, of any kind.
    pub fn edges(&self) -> impl Iterator<Item = (&Package, &Package)> {
        let resolved = |id: &String| self.packages.get(id);
        self.edges.iter().flat_map(move |(from, to)| {
            to.iter()
                .filter_map(move |(to, _)| Some((resolved(from)?, resolved(to)?)))
        })
    }

    /// All that a crate brings into the program that imports it, itself left out: names.
    #[must_use]
    pub fn brought_in_by(&self, name: &str) -> BTreeSet<String> {
        let start = self
            .packages
            .iter()
            .find(|(_, package)| package.name == name)
            .map(|(id, _)| id);
        let mut open: Vec<&String> = start.into_iter().collect();
        let mut seen = BTreeSet::new();
        while let Some(id) = open.pop() {
            for (to, kinds) in self.edges.get(id).into_iter().flatten() {
                if kinds.contains(&DependencyKind::Normal) && seen.insert(to) {
                    open.push(to);
                }
            }
        }
        seen.into_iter()
            .filter_map(|id| Some(self.packages.get(id)?.name.clone()))
            .collect()
    }
}

/// The folder of a manifest below the checkout.
fn folder_of(manifest: &str) -> String {
    let folder = Path::new(manifest).parent().unwrap_or(Path::new(""));
    folder
        .strip_prefix(checkout())
        .unwrap_or(Path::new(""))
        .display()
        .to_string()
}

/// Cargo's JSON, as far as it is read.
mod raw {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::{Dependency, DependencyKind, Package, Workspace, folder_of};

    #[derive(Deserialize)]
    pub(super) struct Metadata {
        packages: Vec<RawPackage>,
        resolve: Resolve,
    }

    #[derive(Deserialize)]
    struct RawPackage {
        id: String,
        name: String,
        version: String,
        license: Option<String>,
        source: Option<String>,
        manifest_path: String,
        dependencies: Vec<RawDependency>,
    }

    #[derive(Deserialize)]
    struct RawDependency {
        name: String,
        req: String,
        kind: Option<DependencyKind>,
        path: Option<String>,
        rename: Option<String>,
    }

    #[derive(Deserialize)]
    struct Resolve {
        nodes: Vec<Node>,
    }

    #[derive(Deserialize)]
    struct Node {
        id: String,
        deps: Vec<Edge>,
    }

    #[derive(Deserialize)]
    struct Edge {
        pkg: String,
        dep_kinds: Vec<EdgeKind>,
    }

    #[derive(Deserialize)]
    struct EdgeKind {
        kind: Option<DependencyKind>,
    }

    impl Metadata {
        pub(super) fn into_workspace(self) -> Workspace {
            let edges: BTreeMap<_, Vec<_>> = self
                .resolve
                .nodes
                .into_iter()
                .map(Node::into_edges)
                .collect();
            let packages = self
                .packages
                .into_iter()
                .filter(|package| edges.contains_key(&package.id));
            Workspace {
                packages: packages.map(RawPackage::into_package).collect(),
                edges,
            }
        }
    }

    impl Node {
        fn into_edges(
            self,
        ) -> (
            String,
            Vec<(String, std::collections::BTreeSet<DependencyKind>)>,
        ) {
            let kinds = |edge: &Edge| {
                edge.dep_kinds
                    .iter()
                    .map(|kind| kind.kind.unwrap_or(DependencyKind::Normal))
                    .collect()
            };
            (
                self.id,
                self.deps
                    .into_iter()
                    .map(|edge| (edge.pkg.clone(), kinds(&edge)))
                    .collect(),
            )
        }
    }

    impl RawPackage {
        fn into_package(self) -> (String, Package) {
            let folder = if self.source.is_none() {
                folder_of(&self.manifest_path)
            } else {
                String::new()
            };
            let declared = self.dependencies.into_iter().map(|it| Dependency {
                source_name: it.rename.as_ref().unwrap_or(&it.name).replace('-', "_"),
                name: it.name,
                kind: it.kind.unwrap_or(DependencyKind::Normal),
                requirement: it.req,
                by_path: it.path.is_some(),
            });
            let package = Package {
                name: self.name,
                version: self.version,
                license: self.license,
                source: self.source,
                folder,
                declared: declared.collect(),
            };
            (self.id, package)
        }
    }
}
