//! Who can change the files of the configuration, and the files that its options name.
//!
//! Root and system accounts refuse a program that is executed, or a file that decides rights, if other users can change it. Other
//! accounts get a warning.

use std::fs;
use std::path::{Path, PathBuf};

use berth_files::{TrustError, confidential, enforces_trust, trusted};
use berth_options::FileRole;
use berth_output::ErrorCode;

use super::problem::ConfigProblem;
use super::view::Effective;

/// What the checks found.
#[derive(Debug, Default)]
pub(super) struct TrustFindings {
    pub(super) refused: Vec<ConfigProblem>,
    pub(super) warnings: Vec<ConfigProblem>,
}

/// Checks the files and folders of the configuration itself.
pub(super) fn of_files(paths: &[PathBuf]) -> TrustFindings {
    let mut findings = TrustFindings::default();
    for path in paths {
        findings.add(
            &path.display().to_string(),
            "",
            trusted(path),
            "configures this process",
        );
    }
    findings
}

/// Checks every file that an option names for execution, for rights or for a secret.
pub(super) fn of_options(effective: &[Effective]) -> TrustFindings {
    let mut findings = TrustFindings::default();
    for each in effective {
        for (role, path) in each.files() {
            let path = Path::new(path);
            let purpose = match role {
                FileRole::Program => "is executed",
                FileRole::Rights => "decides rights",
                FileRole::Secret => "has a secret",
            };
            let check = match role {
                FileRole::Program | FileRole::Rights => trusted,
                FileRole::Secret => confidential,
            };
            for path in with_entries(path) {
                findings.add(&each.origin, &each.name, check(&path), purpose);
            }
        }
    }
    findings
}

/// The path, and what is in it if it is a folder of files.
fn with_entries(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths.insert(0, path.to_owned());
    paths
}

impl TrustFindings {
    fn add(&mut self, at: &str, key: &str, checked: Result<(), TrustError>, purpose: &str) {
        let error = match checked {
            // Whether a file has to exist is another check.
            Ok(()) | Err(TrustError::Inaccessible { .. }) => return,
            Err(error) => error,
        };
        let is_refused = enforces_trust() && !matches!(error, TrustError::Readable { .. });
        let problem = ConfigProblem {
            at: at.to_owned(),
            key: key.to_owned(),
            wrong: match &error {
                TrustError::Readable { .. } => error.to_string(),
                _ => format!("this file {purpose}, and {error}"),
            },
            right: error.hint(),
            code: match is_refused {
                true => ErrorCode::Untrusted,
                false => ErrorCode::Doubtful,
            },
        };
        let findings = match is_refused {
            true => &mut self.refused,
            false => &mut self.warnings,
        };
        if !findings.contains(&problem) {
            findings.push(problem);
        }
    }
}
