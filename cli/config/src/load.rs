//! From files, environment and command line to one checked [`Config`]: read, check, merge, cross-check.
//!
//! [`load`] does the reading; [`resolve`] is pure, and is what a reload (SIGHUP) and the tests call too.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;

use berth_options::{CheckedValues, Json, OptionMisfit};
use berth_output::ErrorCode;

use super::command_line::{self, CommandLine};
use super::environment;
use super::file::{self, ConfigDocument};
use super::pattern;
use super::problem::{ConfigProblem, ConfigRefusal};
use super::rules;
use super::secret_file::{self, ReadSecret};
use super::sections::Config;
use super::setting::{self, Setting};
use super::sources::{self, SourceFiles, Sources};
use super::table::{self, OPTIONS};
use super::trust;
use super::view::{Effective, LoadedConfig};

/// Reads the files and resolves them with the environment.
pub fn load(sources: &Sources) -> Result<LoadedConfig, ConfigRefusal> {
    examine(sources).into_result()
}

/// A configuration with its errors, for a check that reports as much as possible at once.
#[derive(Debug)]
pub struct ExaminedConfig {
    /// The options without an error; others have their default. `None` only if this is a bug.
    pub loaded: Option<LoadedConfig>,
    pub problems: Vec<ConfigProblem>,
}

impl ExaminedConfig {
    fn into_result(self) -> Result<LoadedConfig, ConfigRefusal> {
        match self.loaded {
            Some(loaded) if self.problems.is_empty() => Ok(loaded),
            _ => Err(ConfigRefusal::new(self.problems)),
        }
    }
}

/// Reads the files and resolves them with the environment, however many errors they have.
#[must_use]
pub fn examine(sources: &Sources) -> ExaminedConfig {
    let SourceFiles {
        documents,
        world_readable,
        paths,
        unreadable: mut problems,
    } = sources::read_all(sources);
    let credentials = sources.credentials.as_deref().map(secret_file::credentials);
    let (credentials, unusable) = credentials.unwrap_or_default();
    problems.extend(unusable);
    let further = FurtherSources {
        credentials,
        command_line: command_line::read(sources),
        read_secret: &secret_file::read,
    };
    let mut examined = resolve_with(&documents, &sources.environment, further);
    let files = trust::of_files(&paths);
    problems.extend(files.refused);
    examined.problems.extend(problems);
    if let Some(loaded) = &mut examined.loaded {
        let named = trust::of_options(&loaded.effective);
        examined.problems.extend(named.refused);
        let exposed = rules::exposed_secrets(&loaded.effective, &world_readable);
        let warnings = files.warnings.into_iter().chain(named.warnings);
        loaded.warnings.extend(warnings.chain(exposed));
    }
    examined
}

/// What a configuration is made of besides files and environment.
struct FurtherSources<'a> {
    credentials: Vec<Setting>,
    command_line: CommandLine,
    read_secret: ReadSecret<'a>,
}

/// Checks and merges documents (later ones win) and environment (wins over all).
pub fn resolve(
    documents: &[ConfigDocument],
    environment: &[(OsString, OsString)],
) -> Result<LoadedConfig, ConfigRefusal> {
    let further = FurtherSources {
        credentials: Vec::new(),
        command_line: CommandLine::default(),
        read_secret: &|path: &Path| {
            let wrong = format!("{} is not read here", path.display());
            Err((wrong, String::new()))
        },
    };
    resolve_with(documents, environment, further).into_result()
}

fn resolve_with(
    documents: &[ConfigDocument],
    environment: &[(OsString, OsString)],
    further: FurtherSources<'_>,
) -> ExaminedConfig {
    let mut problems = Vec::new();
    let mut layers: Vec<Vec<Setting>> = Vec::new();
    for document in documents {
        let (settings, wrong) = file::read(document);
        layers.push(settings);
        problems.extend(wrong);
    }
    layers.push(further.credentials);
    let environment = environment::read(environment);
    layers.push(environment.settings);
    problems.extend(environment.problems);
    layers.push(further.command_line.settings);
    problems.extend(further.command_line.problems);

    let mut merged = merge(layers);
    problems.extend(secret_file::fill(&mut merged, further.read_secret));
    let named = named_sections(&merged);
    let effective = effective(&merged, &named);
    let mut broken: BTreeSet<String> = problems.iter().map(|problem| problem.key.clone()).collect();
    // If the file of a secret cannot be used, that is the only error: the secret itself is not reported as missing.
    let of_files = broken.iter().filter_map(|key| key.strip_suffix("_file"));
    let of_files: Vec<String> = of_files.map(ToOwned::to_owned).collect();
    broken.extend(of_files);
    let mut values = CheckedValues::default();
    for set in merged.into_values() {
        values.set(&set.section, set.row.key, set.value);
    }
    let config = match Config::read(values, &named) {
        Ok(config) => config,
        Err(error) => {
            problems.push(misfit(&error));
            return ExaminedConfig {
                loaded: None,
                problems,
            };
        }
    };
    let verdict = rules::judge(&config, &effective, &broken);
    problems.extend(verdict.problems);
    let mut warnings = environment.warnings;
    warnings.extend(verdict.warnings);
    ExaminedConfig {
        loaded: Some(LoadedConfig {
            config,
            effective,
            warnings,
            files: documents.iter().map(|each| each.name.clone()).collect(),
        }),
        problems,
    }
}

/// Every option that is set, by section and key; later layers win.
pub(super) type MergedSettings = BTreeMap<(String, &'static str), Setting>;

fn merge(layers: Vec<Vec<Setting>>) -> MergedSettings {
    let settings = layers.into_iter().flatten();
    settings
        .map(|set| ((set.section.clone(), set.row.key), set))
        .collect()
}

/// Every section of a pattern that is present, and an `[mdev_TYPE]` for each enabled type.
fn named_sections(merged: &MergedSettings) -> BTreeSet<String> {
    let written = merged.values();
    let written = written.filter(|set| pattern::named(set.row.section).is_some());
    let enabled = merged.get(&("devices".to_owned(), "enabled_mdev_types"));
    let enabled = enabled.and_then(|set| set.value.as_array());
    let enabled = enabled.into_iter().flatten().filter_map(Json::as_str);
    written
        .map(|set| set.section.clone())
        .chain(enabled.map(|kind| format!("mdev_{kind}")))
        .collect()
}

/// Every option with its value and origin, in the order of the table.
fn effective(merged: &MergedSettings, named: &BTreeSet<String>) -> Vec<Effective> {
    let mut all = Vec::new();
    for (section, _) in table::SECTIONS.iter() {
        let titles: Vec<&str> = match pattern::named(section) {
            None => vec![section],
            Some(pattern) => {
                let titles = named.iter().map(String::as_str);
                titles
                    .filter(|title| title.starts_with(pattern.prefix))
                    .collect()
            }
        };
        for title in titles {
            let rows = OPTIONS.iter().filter(|row| row.section == *section);
            all.extend(
                rows.map(|row| {
                    Effective::new(title, row, merged.get(&(title.to_owned(), row.key)))
                }),
            );
        }
    }
    all
}

/// Happens only if rows and types disagree, which a test prevents; a problem is better than a panic.
fn misfit(misfit: &OptionMisfit) -> ConfigProblem {
    ConfigProblem {
        at: "configuration".to_owned(),
        key: setting::name(&misfit.section, misfit.key),
        wrong: "the value does not fit its option".to_owned(),
        right: "this is a bug in berth's options".to_owned(),
        code: ErrorCode::WrongType,
    }
}
