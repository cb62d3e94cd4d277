//! The policy of each built-in service: its default rules, and what the operator's `policy_file` replaces.
//!
//! `*_policy` is for `berth config check`, which reports every error of the file; `*_policy_in_force` is for a service that starts.

use std::path::{Path, PathBuf};

use berth_config::{Config, regular_file};
use berth_http::{Policy, PolicyFile, PolicyFileError, PolicyFileErrors};
use berth_output::{ErrorCode, Failure};
use berth_placement::DeprecatedDefaults;

/// The largest policy file that is read, in bytes.
const LARGEST: u64 = 1 << 20;

/// Why a policy file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PolicyRefusal {
    #[error("{} cannot be read: {reason}", path.display())]
    Unreadable {
        path: PathBuf,
        reason: std::io::Error,
    },
    /// The file is not UTF-8.
    #[error("{} is not UTF-8", path.display())]
    NoText { path: PathBuf },
    /// Rules in the file are invalid.
    #[error("{}", lines(path, errors))]
    Wrong {
        path: PathBuf,
        errors: PolicyFileErrors,
    },
}

/// One line for each error, with the path.
fn lines(path: &Path, errors: &PolicyFileErrors) -> String {
    let lines = errors
        .iter()
        .map(|error| format!("{}: {error}", path.display()));
    lines.collect::<Vec<_>>().join("\n")
}

impl PolicyRefusal {
    /// The error code, which also decides the exit code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Unreadable { .. } => ErrorCode::Unreadable,
            Self::NoText { .. } => ErrorCode::Syntax,
            Self::Wrong { errors, .. } => match errors.iter().next() {
                Some(PolicyFileError::Unknown { .. } | PolicyFileError::Missing { .. }) => {
                    ErrorCode::UnknownKey
                }
                Some(PolicyFileError::Circular { .. } | PolicyFileError::Far { .. }) => {
                    ErrorCode::Contradiction
                }
                _ => ErrorCode::Syntax,
            },
        }
    }
}

/// A service's rules: its defaults, with the replacements of the file.
fn with_file(defaults: Policy, path: Option<&Path>) -> Result<Policy, PolicyRefusal> {
    let Some(path) = path else {
        return Ok(defaults);
    };
    let path = path.to_owned();
    let content = match regular_file::read(&path, LARGEST) {
        Ok((content, _)) => content,
        Err(reason) => return Err(PolicyRefusal::Unreadable { path, reason }),
    };
    let Ok(text) = String::from_utf8(content) else {
        return Err(PolicyRefusal::NoText { path });
    };
    PolicyFile::read(&text)
        .and_then(|file| defaults.with_file(file))
        .map_err(|errors| PolicyRefusal::Wrong { path, errors })
}

pub fn accelerator_policy(config: &Config) -> Result<Policy, PolicyRefusal> {
    let path = config.accelerator_service.policy_file.as_deref();
    with_file(berth_accelerator::default_policy(), path)
}

pub fn accelerator_policy_in_force(config: &Config) -> Result<Policy, Failure> {
    accelerator_policy(config).map_err(|refused| unusable("accelerator", &refused))
}

pub fn compute_policy(config: &Config) -> Result<Policy, PolicyRefusal> {
    let path = config.compute_service.policy_file.as_deref();
    with_file(compute_defaults(), path)
}

/// The default rules of the compute API and of the routes for agents, which share a listener and a policy file.
pub fn compute_defaults() -> Policy {
    berth_compute::default_policy().joined(berth_hosts::default_policy())
}

pub fn compute_policy_in_force(config: &Config) -> Result<Policy, Failure> {
    compute_policy(config).map_err(|refused| unusable("compute", &refused))
}

pub fn placement_policy(config: &Config) -> Result<Policy, PolicyRefusal> {
    let service = &config.placement_service;
    let deprecated = match service.enforce_new_defaults {
        true => DeprecatedDefaults::Ignored,
        false => DeprecatedDefaults::Honoured,
    };
    let defaults = berth_placement::default_policy(deprecated);
    with_file(defaults, service.policy_file.as_deref())
}

pub fn placement_policy_in_force(config: &Config) -> Result<Policy, Failure> {
    placement_policy(config).map_err(|refused| unusable("placement", &refused))
}

fn unusable(service: &str, refused: &PolicyRefusal) -> Failure {
    let what = format!("cannot use [{service}_service] policy_file");
    Failure::caused(refused.code(), what, refused).hint(format!(
        "berth {service} policy lists the rules; write replacements in the language of oslo.policy"
    ))
}
