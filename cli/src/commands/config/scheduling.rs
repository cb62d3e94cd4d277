//! Checks of the scheduler's options and plugins: what `berth up` would refuse at its start. Plugins are started and asked for their name.

use berth_conductor::{PluginError, Plugins};
use berth_config::{ConfigProblem, LoadedConfig};
use berth_output::ErrorCode;
use berth_scheduler::select::{Scheduler, SchedulerError};

/// Errors in the scheduler's configuration, and warnings that do not prevent a start.
#[derive(Debug, Default)]
pub(super) struct SchedulingFindings {
    pub(super) errors: Vec<ConfigProblem>,
    pub(super) warnings: Vec<ConfigProblem>,
}

/// Checks the scheduler's options and plugins.
pub(super) async fn judge(loaded: &LoadedConfig) -> SchedulingFindings {
    let options = loaded.config.scheduler_options();
    let refused = |errors: Vec<ConfigProblem>| SchedulingFindings {
        errors,
        warnings: Vec::new(),
    };
    let plugins = match Plugins::open(loaded.config.scheduler_plugins(), &options).await {
        Ok(plugins) => plugins,
        Err(error) => return refused(vec![of_plugin(loaded, &error)]),
    };
    match Scheduler::with_custom_plugins(options, &plugins.custom_plugins()) {
        Ok(scheduler) => {
            let warnings = scheduler.warnings().iter().map(ToString::to_string);
            SchedulingFindings {
                errors: Vec::new(),
                warnings: problems(loaded, &warnings.collect::<Vec<_>>()),
            }
        }
        Err(SchedulerError::Options(errors)) => {
            let sentences: Vec<String> = errors.iter().map(ToString::to_string).collect();
            refused(problems(loaded, &sentences))
        }
        Err(error) => refused(problems(loaded, &[error.to_string()])),
    }
}

fn problems(loaded: &LoadedConfig, sentences: &[String]) -> Vec<ConfigProblem> {
    let sentences = sentences.iter();
    sentences.map(|it| problem(loaded, it)).collect()
}

fn problem(loaded: &LoadedConfig, sentence: &str) -> ConfigProblem {
    let (key, wrong) = key_of(sentence).unwrap_or((String::new(), sentence));
    ConfigProblem {
        at: loaded.origin(&key),
        key,
        wrong: wrong.to_owned(),
        right: String::new(),
        code: ErrorCode::BadValue,
    }
}

fn of_plugin(loaded: &LoadedConfig, error: &PluginError) -> ConfigProblem {
    ConfigProblem {
        right: error.hint(),
        ..problem(loaded, &error.to_string())
    }
}

/// Splits `[section] option: problem`.
fn key_of(sentence: &str) -> Option<(String, &str)> {
    let (section, rest) = sentence.strip_prefix('[')?.split_once("] ")?;
    let (option, wrong) = rest.split_once(": ")?;
    let is_name = option
        .chars()
        .all(|it| it.is_ascii_alphanumeric() || it == '_');
    is_name.then(|| (format!("{section}.{option}"), wrong))
}
