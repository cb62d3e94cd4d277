//! `berth config check`: errors in the configuration, in the files it names, and on this host.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::time::SystemTime;

use berth_compose::policy::PolicyRefusal;
use berth_compose::{policy, provider_configs};
use berth_config::{ConfigProblem, ConfigRefusal, LoadedConfig};
use berth_output::{ErrorCode, ExitCode, Failure};
use berth_sysfs::Sysfs;
use clap::ValueEnum as _;

use super::roles::{self, StartRole};
use super::{host, named_files, scheduling, services_files};
use crate::commands::tls::expiry;
use crate::context::Context;

/// The arguments of `berth config check`.
#[derive(Debug, clap::Args)]
pub(super) struct CheckArguments {
    /// Check the text only, not the files, groups and CPUs that it names on this host.
    #[arg(long)]
    offline: bool,
    /// Treat warnings as errors.
    #[arg(long)]
    deny_warnings: bool,
    /// Also report whatever would keep this command from starting.
    #[arg(long = "for", value_name = "COMMAND", value_enum)]
    role: Option<StartRole>,
}

/// The command that makes the same check again.
fn check_command(context: &Context, arguments: &CheckArguments) -> String {
    let mut command = context.check_command();
    if let Some(role) = arguments.role.and_then(|role| role.to_possible_value()) {
        command.push_str(" --for ");
        command.push_str(role.get_name());
    }
    for (option, is_given) in [
        ("--offline", arguments.offline),
        ("--deny-warnings", arguments.deny_warnings),
    ] {
        if is_given {
            command.push(' ');
            command.push_str(option);
        }
    }
    command
}

pub(super) fn check(
    context: &Context,
    arguments: &CheckArguments,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    let CheckArguments {
        offline,
        deny_warnings,
        role,
    } = *arguments;
    let check = check_command(context, arguments);
    let refused = |refusal: ConfigRefusal| refusal.failure(&check);
    let examined = berth_config::examine(&context.sources);
    let mut problems = examined.problems;
    let Some(mut loaded) = examined.loaded else {
        return Err(refused(ConfigRefusal::new(problems)));
    };
    // An option with an error has its default here, which is not what is meant.
    let broken: BTreeSet<String> = problems.iter().map(|it| it.key.clone()).collect();
    let mut found = roles::needs(&loaded, role);
    if !offline {
        let host = on_this_host(context, &mut loaded, role)?;
        found.extend(host);
    }
    problems.extend(found.into_iter().filter(|it| !broken.contains(&it.key)));
    if !problems.is_empty() {
        return Err(refused(ConfigRefusal::new(problems)));
    }
    loaded.warnings.sort();
    if deny_warnings && !loaded.warnings.is_empty() {
        return Err(refused(ConfigRefusal::new(loaded.warnings)));
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
    if role.is_none()
        && let Some(problem) = roles::needs(&loaded, Some(StartRole::Agent)).first()
    {
        let (key, wrong) = (&problem.key, &problem.wrong);
        writeln!(
            out,
            "berth agent would not start: {key} {wrong}; berth up needs none"
        )?;
    }
    Ok(ExitCode::Done)
}

/// Errors that show only on this host; warnings are added to the configuration's own.
fn on_this_host(
    context: &Context,
    loaded: &mut LoadedConfig,
    role: Option<StartRole>,
) -> Result<Vec<ConfigProblem>, Failure> {
    let mut problems = host::on_this_host(loaded);
    problems.extend(host::paths_and_addresses(loaded));
    problems.extend(host::state_files(loaded, role));
    if role != Some(StartRole::Controller) {
        problems.extend(provider_files(loaded));
        problems.extend(named_files::machine(loaded));
        problems.extend(host::refused_devices(loaded, &Sysfs::at("/sys")));
        problems.extend(host::offline_cpus(loaded, Path::new(ONLINE)));
        loaded
            .warnings
            .extend(host::without_kvm(loaded, Path::new("/dev/kvm")));
    }
    loaded.warnings.extend(host::powerful_certificate(loaded));
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let expiring = expiry::expiring(loaded, read, SystemTime::now());
    loaded.warnings.extend(expiring);
    if role != Some(StartRole::Agent) {
        problems.extend(policy_files(loaded));
        let images = named_files::images(loaded);
        problems.extend(images.errors);
        loaded.warnings.extend(images.warnings);
        problems.extend(services_files::problems(loaded));
        let scheduling = context.block_on(scheduling::judge(loaded))?;
        problems.extend(scheduling.errors);
        loaded.warnings.extend(scheduling.warnings);
    }
    Ok(problems)
}

/// The list of the host's CPUs that are online.
const ONLINE: &str = "/sys/devices/system/cpu/online";

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
