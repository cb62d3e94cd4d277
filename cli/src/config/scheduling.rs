//! Whether anybody can schedule by the configuration: what `berth up` would find at its start. Plugins are asked what they are.

use berth_conductor::Plugins;
use berth_scheduler::select::{Scheduler, SchedulerError};

use super::Loaded;
use super::problem::Problem;
use crate::failure::ErrorCode;

/// What is wrong, and what should be changed and is done without meanwhile.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) errors: Vec<Problem>,
    pub(super) warnings: Vec<Problem>,
}

/// Looks at the scheduler's options and at its plugins.
pub(super) async fn judge(loaded: &Loaded) -> Verdict {
    let options = loaded.config.scheduler_options();
    let refused = |sentences: Vec<String>| Verdict {
        errors: problems(loaded, &sentences),
        warnings: Vec::new(),
    };
    let plugins = match Plugins::open(loaded.config.scheduler_plugins(), &options).await {
        Ok(plugins) => plugins,
        Err(error) => return refused(vec![error.to_string()]),
    };
    match Scheduler::with_own(options, &plugins.own()) {
        Ok(scheduler) => {
            let warnings = scheduler.warnings().iter().map(ToString::to_string);
            Verdict {
                errors: Vec::new(),
                warnings: problems(loaded, &warnings.collect::<Vec<_>>()),
            }
        }
        Err(SchedulerError::Options(errors)) => {
            refused(errors.iter().map(ToString::to_string).collect())
        }
        Err(error) => refused(vec![error.to_string()]),
    }
}

fn problems(loaded: &Loaded, sentences: &[String]) -> Vec<Problem> {
    let problem = |sentence: &String| {
        let (key, wrong) = key_of(sentence).unwrap_or((String::new(), sentence));
        Problem {
            at: super::origin_of(loaded, &key),
            key,
            wrong: wrong.to_owned(),
            right: String::new(),
            code: ErrorCode::BadValue,
        }
    };
    sentences.iter().map(problem).collect()
}

/// `[section] option: what is wrong`, taken apart.
fn key_of(sentence: &str) -> Option<(String, &str)> {
    let (section, rest) = sentence.strip_prefix('[')?.split_once("] ")?;
    let (option, wrong) = rest.split_once(": ")?;
    let is_name = option
        .chars()
        .all(|it| it.is_ascii_alphanumeric() || it == '_');
    is_name.then(|| (format!("{section}.{option}"), wrong))
}
