//! `berth config check`: errors in the configuration, in the files it names, and on this host.

use std::io::Write;
use std::path::Path;
use std::time::SystemTime;

use berth_compose::policy::PolicyRefusal;
use berth_compose::{policy, provider_configs};
use berth_config::{ConfigProblem, ConfigRefusal, LoadedConfig};
use berth_output::{ErrorCode, ExitCode, Failure};
use berth_sysfs::Sysfs;

use super::{host, named_files, scheduling, services_files};
use crate::commands::tls::expiry;
use crate::context::Context;

pub(super) fn check(
    context: &Context,
    offline: bool,
    deny_warnings: bool,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    let mut loaded = context.load()?;
    if !offline {
        let mut missing = host::on_this_host(&loaded);
        missing.extend(provider_files(&loaded));
        missing.extend(policy_files(&loaded));
        missing.extend(named_files::refused(&loaded));
        missing.extend(host::refused_devices(&loaded, &Sysfs::at("/sys")));
        let scheduling = context.block_on(scheduling::judge(&loaded))?;
        missing.extend(scheduling.errors);
        if !missing.is_empty() {
            return Err(ConfigRefusal::new(missing).into());
        }
        let kvm = host::without_kvm(&loaded, Path::new("/dev/kvm"));
        loaded.warnings.extend(kvm);
        loaded.warnings.extend(host::powerful_certificate(&loaded));
        let read = |path: &Path| std::fs::read_to_string(path).ok();
        let expiring = expiry::expiring(&loaded, read, SystemTime::now());
        loaded.warnings.extend(expiring);
        loaded.warnings.extend(named_files::doubtful(&loaded));
        loaded.warnings.extend(services_files::doubtful(&loaded));
        loaded.warnings.extend(scheduling.warnings);
    }
    loaded.warnings.sort();
    if deny_warnings && !loaded.warnings.is_empty() {
        return Err(ConfigRefusal::new(loaded.warnings).into());
    }
    for warning in &loaded.warnings {
        writeln!(out, "warning: {warning}")?;
    }
    if loaded.files.is_empty() {
        writeln!(out, "{}", context.sources.without_files())?;
    }
    let set = loaded.effective.iter().filter(|each| each.is_set()).count();
    writeln!(
        out,
        "the configuration is good: {set} options set, {} warnings",
        loaded.warnings.len()
    )?;
    Ok(ExitCode::Done)
}

/// Errors in the policy files of the services.
fn policy_files(loaded: &LoadedConfig) -> Vec<ConfigProblem> {
    let read = [
        (
            "accelerator_service.policy_file",
            policy::accelerator_policy(&loaded.config),
        ),
        (
            "compute_service.policy_file",
            policy::compute_policy(&loaded.config),
        ),
        (
            "placement_service.policy_file",
            policy::placement_policy(&loaded.config),
        ),
    ];
    let refused = read
        .into_iter()
        .filter_map(|(key, read)| Some((key, read.err()?)));
    let problem = |(key, refused): (&str, PolicyRefusal)| ConfigProblem {
        at: loaded.origin(key),
        key: key.to_owned(),
        wrong: refused.to_string(),
        right: String::new(),
        code: refused.code(),
    };
    refused.map(problem).collect()
}

/// Errors in the provider configuration files.
fn provider_files(loaded: &LoadedConfig) -> Vec<ConfigProblem> {
    let directory = &loaded.config.compute.provider_config_location;
    let name = "compute.provider_config_location";
    let problem = |wrong| ConfigProblem {
        at: loaded.origin(name),
        key: name.to_owned(),
        wrong,
        right: String::new(),
        code: ErrorCode::BadValue,
    };
    let wrong = provider_configs(directory).err().unwrap_or_default();
    wrong.into_iter().map(problem).collect()
}
