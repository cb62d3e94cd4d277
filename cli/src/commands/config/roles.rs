//! What a command of Berth's needs to start, beyond a valid configuration.

use berth_config::{ConfigProblem, LoadedConfig};
use berth_output::ErrorCode;

use super::named_files::at_option;

/// A command that runs until it is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum StartRole {
    /// `berth agent`: the agent alone.
    Agent,
    /// `berth up`: all services and the agent.
    Up,
    /// `berth controller`: all services.
    Controller,
}

/// Options that the command needs and that are not set.
pub(super) fn needs(loaded: &LoadedConfig, role: Option<StartRole>) -> Vec<ConfigProblem> {
    let config = &loaded.config;
    let (key, is_set, wrong, right) = match role {
        None | Some(StartRole::Up) => return Vec::new(),
        Some(StartRole::Agent) => (
            "placement.auth_type",
            config.placement.auth_type.is_some(),
            "is not set",
            "set auth_type and auth_url in [placement], or run berth up",
        ),
        Some(StartRole::Controller) => (
            "api.listen",
            config.api_listen().is_some(),
            "names no address, and the controller needs one",
            "set listen in [api], for example to \"127.0.0.1:8770\"",
        ),
    };
    if is_set {
        return Vec::new();
    }
    let problem = at_option(loaded, key, wrong.to_owned(), ErrorCode::Missing);
    vec![ConfigProblem {
        right: right.to_owned(),
        ..problem
    }]
}
