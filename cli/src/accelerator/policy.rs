//! `[accelerator_service] policy_file`.

use berth_accelerator::default_policy;
use berth_http::Policy;

use crate::config::Config;
use crate::failure::Failure;
use crate::policy_file::{self, PolicyRefused};

/// The accelerator service's rules: its defaults, and what the file says instead.
pub(crate) fn with_file(config: &Config) -> Result<Policy, PolicyRefused> {
    let path = config.accelerator_service.policy_file.as_deref();
    policy_file::with_file(default_policy(), path)
}

/// The rules for a service that starts.
pub(super) fn in_force(config: &Config) -> Result<Policy, Failure> {
    with_file(config).map_err(|refused| {
        let what = "[accelerator_service] policy_file cannot be used";
        Failure::caused(refused.code(), what, &refused)
            .mend("berth accelerator policy lists the rules; write what they shall be in the language of oslo.policy")
    })
}
