//! From files, environment and command line to one checked [`Config`]: read, check, merge, cross-check.
//!
//! [`load`] does the reading; [`resolve`] is pure, and is what a reload (SIGHUP) and the tests call too.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use berth_output::ErrorCode;
use config::{Map, Source, Value, ValueKind};

use super::command_line::{self, CommandLine};
use super::environment;
use super::file::{self, ConfigDocument};
use super::option::{Default as OptionDefault, OptionRow};
use super::pattern;
use super::problem::{ConfigProblem, ConfigRefusal};
use super::rules;
use super::sections::Config;
use super::setting::Setting;
use super::sources::{self, SourceFiles, Sources};
use super::table::{self, OPTIONS};
use super::view::{DEFAULT_ORIGIN, Effective, LoadedConfig};

/// Reads the files and resolves them with the environment.
pub fn load(sources: &Sources) -> Result<LoadedConfig, ConfigRefusal> {
    let SourceFiles {
        documents,
        open_to_all,
        mut unreadable,
    } = sources::read_all(sources);
    let resolved = resolve_with(
        &documents,
        &sources.environment,
        command_line::read(sources),
    );
    if !unreadable.is_empty() {
        unreadable.extend(
            resolved
                .err()
                .iter()
                .flat_map(|refused| refused.problems().to_vec()),
        );
        return Err(ConfigRefusal::new(unreadable));
    }
    let mut loaded = resolved?;
    loaded
        .warnings
        .extend(rules::exposed_secrets(&loaded.effective, &open_to_all));
    Ok(loaded)
}

/// Checks and merges documents (later ones win) and environment (wins over all).
pub fn resolve(
    documents: &[ConfigDocument],
    environment: &[(OsString, OsString)],
) -> Result<LoadedConfig, ConfigRefusal> {
    resolve_with(documents, environment, CommandLine::default())
}

fn resolve_with(
    documents: &[ConfigDocument],
    environment: &[(OsString, OsString)],
    command_line: CommandLine,
) -> Result<LoadedConfig, ConfigRefusal> {
    let mut problems = Vec::new();
    let mut layers: Vec<Vec<Setting>> = Vec::new();
    for document in documents {
        let (settings, wrong) = file::read(document);
        layers.push(settings);
        problems.extend(wrong);
    }
    let environment = environment::read(environment);
    layers.push(environment.settings);
    problems.extend(environment.problems);
    layers.push(command_line.settings);
    problems.extend(command_line.problems);

    let merged = match merge(&layers) {
        Ok(merged) => merged,
        Err(problem) => {
            problems.push(problem);
            return Err(ConfigRefusal::new(problems));
        }
    };
    let effective = effective(&merged);
    let broken: BTreeSet<String> = problems.iter().map(|problem| problem.key.clone()).collect();
    let config: Config = match typed(merged) {
        Ok(config) => config,
        Err(problem) => {
            problems.push(problem);
            return Err(ConfigRefusal::new(problems));
        }
    };
    let verdict = rules::judge(&config, &effective, &broken);
    problems.extend(verdict.problems);
    if !problems.is_empty() {
        return Err(ConfigRefusal::new(problems));
    }
    let mut warnings = environment.warnings;
    warnings.extend(verdict.warnings);
    Ok(LoadedConfig {
        config,
        effective,
        warnings,
        files: documents.iter().map(|each| each.name.clone()).collect(),
    })
}

/// One layer for the `config` crate, which merges layers and keeps each value's origin.
#[derive(Debug, Clone)]
struct Layer(Map<String, Value>);

impl Source for Layer {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, config::ConfigError> {
        Ok(self.0.clone())
    }
}

/// Values by section, top level first by its empty name, as the merged table wants them: sections of a pattern
/// (`[mdev_TYPE]`) become entries of one table (`mdev`), so that the typed form is a map.
fn layer(sections: BTreeMap<String, Map<String, Value>>) -> Layer {
    let mut root = Map::new();
    let mut named: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for (section, values) in sections {
        if section.is_empty() {
            root.extend(values);
        } else if let Some((pattern, name)) = pattern::of(&section) {
            let all = named.entry(pattern.field).or_default();
            all.insert(name.to_owned(), table_of(values));
        } else {
            root.insert(section, table_of(values));
        }
    }
    for (field, all) in named {
        root.insert(field.to_owned(), table_of(all));
    }
    Layer(root)
}

fn table_of(values: Map<String, Value>) -> Value {
    Value::new(None, ValueKind::Table(values))
}

fn written(settings: &[Setting]) -> Layer {
    let mut sections: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for each in settings {
        sections
            .entry(each.section.clone())
            .or_default()
            .insert(each.key.clone(), each.value.clone());
    }
    layer(sections)
}

fn merge(layers: &[Vec<Setting>]) -> Result<Map<String, Value>, ConfigProblem> {
    let mut builder = config::Config::builder().add_source(defaults(&named_sections(layers)));
    for settings in layers {
        builder = builder.add_source(written(settings));
    }
    builder
        .build()
        .and_then(|built| built.collect())
        .map_err(|error| unmergeable(&error))
}

/// Every section of a pattern that is written, and an `[mdev_TYPE]` for each enabled type.
fn named_sections(layers: &[Vec<Setting>]) -> BTreeSet<String> {
    let settings = || layers.iter().flatten();
    let written = settings()
        .filter(|each| pattern::named(each.row.section).is_some())
        .map(|each| each.section.clone());
    let enabled = layers
        .iter()
        .flatten()
        .rfind(|each| each.row.key == "enabled_mdev_types");
    let enabled = enabled.map(|each| texts(&each.value)).unwrap_or_default();
    written
        .chain(enabled.into_iter().map(|kind| format!("mdev_{kind}")))
        .collect()
}

fn texts(value: &Value) -> Vec<String> {
    match &value.kind {
        ValueKind::Array(elements) => elements
            .iter()
            .filter_map(|each| each.clone().into_string().ok())
            .collect(),
        _ => Vec::new(),
    }
}

/// Every section with its defaults; one without any is a section all the same.
fn defaults(named_sections: &BTreeSet<String>) -> Layer {
    let fixed = table::SECTIONS
        .iter()
        .map(|(section, _)| *section)
        .filter(|section| pattern::named(section).is_none());
    let names = fixed.chain(named_sections.iter().map(String::as_str));
    layer(
        names
            .map(|section| (section.to_owned(), defaults_of(table::pattern_of(section))))
            .collect(),
    )
}

fn defaults_of(pattern: &str) -> Map<String, Value> {
    let rows = OPTIONS.iter().filter(|row| row.section == pattern);
    rows.filter_map(|row| Some((row.key.to_owned(), default_value(row)?)))
        .collect()
}

fn default_value(row: &OptionRow) -> Option<Value> {
    let origin = DEFAULT_ORIGIN.to_owned();
    let text = |text: &str| Value::new(Some(&origin), ValueKind::String(text.to_owned()));
    Some(match row.default {
        OptionDefault::Unset | OptionDefault::Derived(_) => return None,
        OptionDefault::Text(value) => text(value),
        OptionDefault::Integer(value) => Value::new(Some(&origin), ValueKind::I64(value)),
        OptionDefault::Float(value) => Value::new(Some(&origin), ValueKind::Float(value)),
        OptionDefault::Flag(value) => Value::new(Some(&origin), ValueKind::Boolean(value)),
        OptionDefault::List(values) => Value::new(
            Some(&origin),
            ValueKind::Array(values.iter().map(|value| text(value)).collect()),
        ),
    })
}

/// Every option with its value and origin, in the order of the table.
fn effective(merged: &Map<String, Value>) -> Vec<Effective> {
    let inside = |value: &Value| match &value.kind {
        ValueKind::Table(table) => table.clone(),
        _ => Map::new(),
    };
    let mut all = Vec::new();
    for (section, _) in table::SECTIONS {
        let rows = || OPTIONS.iter().filter(|row| row.section == *section);
        match pattern::named(section) {
            _ if section.is_empty() => {
                all.extend(rows().map(|row| Effective::new("", row, merged.get(row.key))));
            }
            Some(pattern) => {
                let written = merged.get(pattern.field).map(inside).unwrap_or_default();
                let written: BTreeMap<_, _> = written.iter().collect();
                for (name, values) in written {
                    let (section, values) = (format!("{}{name}", pattern.prefix), inside(values));
                    all.extend(
                        rows().map(|row| Effective::new(&section, row, values.get(row.key))),
                    );
                }
            }
            None => {
                let values = merged.get(*section).map(inside).unwrap_or_default();
                all.extend(rows().map(|row| Effective::new(section, row, values.get(row.key))));
            }
        }
    }
    all
}

fn typed(merged: Map<String, Value>) -> Result<Config, ConfigProblem> {
    Value::new(None, ValueKind::Table(merged))
        .try_deserialize()
        .map_err(|error| unmergeable(&error))
}

/// Cannot happen while table and types agree, which a test holds; a problem is better than a panic.
fn unmergeable(error: &config::ConfigError) -> ConfigProblem {
    let what = match error {
        config::ConfigError::Type { key: Some(key), .. }
        | config::ConfigError::At { key: Some(key), .. } => key.clone(),
        config::ConfigError::NotFound(key) => key.clone(),
        _ => String::new(),
    };
    ConfigProblem {
        at: "configuration".to_owned(),
        key: what,
        wrong: "the value does not fit its option".to_owned(),
        right: "this is a bug in berth's option table".to_owned(),
        code: ErrorCode::WrongType,
    }
}
