//! `[placement_service] policy_file` and `enforce_new_defaults`.

use berth_http::Policy;
use berth_placement::{DeprecatedDefaults, default_policy};

use crate::config::Config;
use crate::failure::Failure;
use crate::policy_file::{self, PolicyRefused};

/// Placement's rules: its defaults, and what the file says instead.
pub(crate) fn with_file(config: &Config) -> Result<Policy, PolicyRefused> {
    let service = &config.placement_service;
    let deprecated = match service.enforce_new_defaults {
        true => DeprecatedDefaults::Ignored,
        false => DeprecatedDefaults::Honoured,
    };
    policy_file::with_file(default_policy(deprecated), service.policy_file.as_deref())
}

/// The rules for a service that starts.
pub(super) fn in_force(config: &Config) -> Result<Policy, Failure> {
    with_file(config).map_err(|refused| {
        let what = "[placement_service] policy_file cannot be used";
        Failure::caused(refused.code(), what, &refused)
            .mend("berth placement policy lists the rules; write what they shall be in the language of oslo.policy")
    })
}
