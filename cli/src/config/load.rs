//! From files, environment and command line to one checked [`Config`]: read, check, merge, cross-check.
//!
//! [`load`] does the reading; [`resolve`] is pure, and is what a reload (SIGHUP) and the tests call too.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use config::{Map, Source, Value, ValueKind};

use super::command_line::{self, CommandLine};
use super::environment;
use super::file::{self, Document};
use super::option::{Default as OptionDefault, OptionRow};
use super::problem::{Problem, Refused};
use super::rules;
use super::sections::Config;
use super::setting::Setting;
use super::table::{self, OPTIONS};
use super::view::Effective;
use crate::failure::ErrorCode;
use crate::regular_file;

/// The configuration file read when none is named.
pub const FILE: &str = "/etc/berth/berth.toml";
/// The directory whose `*.toml` are read after it, in the order of their names.
pub const DIRECTORY: &str = "/etc/berth/berth.d";
/// The origin of values nobody set.
pub(super) const DEFAULT_ORIGIN: &str = "default";
/// More than any configuration needs; a larger file is a mistake.
const LARGEST_FILE: u64 = 1 << 20;

/// Where to read from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources {
    /// `--config`: this file instead of the usual one; it must exist, and the usual directory is left alone.
    pub file: Option<PathBuf>,
    /// `--config-dir`: the `*.toml` of this directory; it must exist.
    pub directory: Option<PathBuf>,
    /// `--machine`: the fake driver with this file, whatever else is configured.
    pub machine: Option<PathBuf>,
    /// `--state-dir`: state and admin socket in this folder, whatever else is configured.
    pub state_dir: Option<PathBuf>,
    /// The environment; variables that do not begin with `BERTH_` are ignored.
    pub environment: Vec<(OsString, OsString)>,
}

impl Sources {
    /// The usual files and this process's environment.
    #[must_use]
    pub fn of_process(file: Option<PathBuf>, directory: Option<PathBuf>) -> Self {
        let ours = |name: &OsString| name.as_encoded_bytes().starts_with(b"BERTH_");
        Self {
            file,
            directory,
            machine: None,
            state_dir: None,
            environment: std::env::vars_os().filter(|(name, _)| ours(name)).collect(),
        }
    }
}

/// A configuration that passed every check.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The values, typed.
    pub config: Config,
    /// The same, option by option, each with where it comes from.
    pub effective: Vec<Effective>,
    /// What is lawful but probably not meant.
    pub warnings: Vec<Problem>,
}

/// Reads the files and resolves them with the environment.
///
/// # Errors
/// Everything that is wrong, at once.
pub fn load(sources: &Sources) -> Result<Loaded, Refused> {
    let mut unreadable = Vec::new();
    let mut documents = Vec::new();
    let mut open_to_all = BTreeSet::new();
    for (path, presence) in files(sources, &mut unreadable) {
        match read(&path) {
            Ok((document, mode)) => {
                if mode & 0o004 != 0 {
                    open_to_all.insert(document.name.clone());
                }
                documents.push(document);
            }
            Err(error)
                if presence == Presence::Optional && error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => unreadable.push(unreadable_file(&path, &error)),
        }
    }
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
        return Err(Refused::new(unreadable));
    }
    let mut loaded = resolved?;
    loaded
        .warnings
        .extend(rules::exposed_secrets(&loaded.effective, &open_to_all));
    Ok(loaded)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    Required,
    Optional,
}

/// The files to read, in order; a directory that cannot be read is a problem.
fn files(sources: &Sources, problems: &mut Vec<Problem>) -> Vec<(PathBuf, Presence)> {
    let mut files = match &sources.file {
        Some(file) => vec![(file.clone(), Presence::Required)],
        None => vec![(PathBuf::from(FILE), Presence::Optional)],
    };
    let directory = match (&sources.directory, &sources.file) {
        (Some(directory), _) => Some((directory.clone(), Presence::Required)),
        (None, None) => Some((PathBuf::from(DIRECTORY), Presence::Optional)),
        (None, Some(_)) => None,
    };
    if let Some((directory, presence)) = directory {
        match fragments(&directory) {
            Ok(found) => files.extend(found.into_iter().map(|path| (path, Presence::Required))),
            Err(error)
                if presence == Presence::Optional && error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => problems.push(unreadable_file(&directory, &error)),
        }
    }
    files
}

/// The `*.toml` of a directory in the order of their names; hidden files are left out.
fn fragments(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let hidden = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
            && !hidden
        {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn read(path: &Path) -> io::Result<(Document, u32)> {
    let (content, metadata) = regular_file::read(path, LARGEST_FILE)?;
    let text = String::from_utf8(content)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok((
        Document {
            name: path.display().to_string(),
            text,
        },
        metadata.permissions().mode(),
    ))
}

fn unreadable_file(path: &Path, error: &io::Error) -> Problem {
    let right = match error.kind() {
        io::ErrorKind::NotFound => {
            "name a file that exists, or leave the option out for the usual files"
        }
        io::ErrorKind::PermissionDenied => "run as root, or as a user that may read it",
        io::ErrorKind::InvalidData => "save it as UTF-8",
        io::ErrorKind::FileTooLarge => "a configuration file has at most 1 MiB",
        _ => "",
    };
    Problem {
        at: path.display().to_string(),
        key: String::new(),
        wrong: format!("cannot be read: {error}"),
        right: right.to_owned(),
        code: ErrorCode::Unreadable,
    }
}

/// Checks and merges documents (later ones win) and environment (wins over all).
///
/// # Errors
/// Everything that is wrong, at once.
pub fn resolve(
    documents: &[Document],
    environment: &[(OsString, OsString)],
) -> Result<Loaded, Refused> {
    resolve_with(documents, environment, CommandLine::default())
}

fn resolve_with(
    documents: &[Document],
    environment: &[(OsString, OsString)],
    command_line: CommandLine,
) -> Result<Loaded, Refused> {
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
            return Err(Refused::new(problems));
        }
    };
    let effective = effective(&merged);
    let broken: BTreeSet<String> = problems.iter().map(|problem| problem.key.clone()).collect();
    let config: Config = match typed(merged) {
        Ok(config) => config,
        Err(problem) => {
            problems.push(problem);
            return Err(Refused::new(problems));
        }
    };
    let verdict = rules::judge(&config, &effective, &broken);
    problems.extend(verdict.problems);
    if !problems.is_empty() {
        return Err(Refused::new(problems));
    }
    let mut warnings = environment.warnings;
    warnings.extend(verdict.warnings);
    Ok(Loaded {
        config,
        effective,
        warnings,
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

/// Values by section, top level first by its empty name, as the merged table wants them: `[mdev_TYPE]` sections become
/// entries of one table `mdev`, so that the typed form is a map.
fn layer(sections: BTreeMap<String, Map<String, Value>>) -> Layer {
    let mut root = Map::new();
    let mut mdev = Map::new();
    for (section, values) in sections {
        if section.is_empty() {
            root.extend(values);
        } else if let Some(kind) = section.strip_prefix("mdev_") {
            mdev.insert(kind.to_owned(), table_of(values));
        } else {
            root.insert(section, table_of(values));
        }
    }
    if !mdev.is_empty() {
        root.insert("mdev".to_owned(), table_of(mdev));
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

fn merge(layers: &[Vec<Setting>]) -> Result<Map<String, Value>, Problem> {
    let mut builder = config::Config::builder().add_source(defaults(&mdev_sections(layers)));
    for settings in layers {
        builder = builder.add_source(written(settings));
    }
    builder
        .build()
        .and_then(|built| built.collect())
        .map_err(|error| unmergeable(&error))
}

/// Every `[mdev_TYPE]` that is written, and one for each enabled type.
fn mdev_sections(layers: &[Vec<Setting>]) -> BTreeSet<String> {
    let settings = || layers.iter().flatten();
    let written = settings()
        .filter(|each| each.row.section == "mdev_TYPE")
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
fn defaults(mdev_sections: &BTreeSet<String>) -> Layer {
    let fixed = table::SECTIONS
        .iter()
        .map(|(section, _)| *section)
        .filter(|section| *section != "mdev_TYPE");
    let names = fixed.chain(mdev_sections.iter().map(String::as_str));
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
    let mdev = merged.get("mdev").map(inside).unwrap_or_default();
    let mdev: BTreeMap<String, Map<String, Value>> = mdev
        .iter()
        .map(|(kind, value)| (kind.clone(), inside(value)))
        .collect();
    let mut all = Vec::new();
    for (section, _) in table::SECTIONS {
        let rows = || OPTIONS.iter().filter(|row| row.section == *section);
        match *section {
            "" => all.extend(rows().map(|row| Effective::new("", row, merged.get(row.key)))),
            "mdev_TYPE" => {
                for (kind, values) in &mdev {
                    all.extend(rows().map(|row| {
                        Effective::new(&format!("mdev_{kind}"), row, values.get(row.key))
                    }));
                }
            }
            _ => {
                let values = merged.get(*section).map(inside).unwrap_or_default();
                all.extend(rows().map(|row| Effective::new(section, row, values.get(row.key))));
            }
        }
    }
    all
}

fn typed(merged: Map<String, Value>) -> Result<Config, Problem> {
    Value::new(None, ValueKind::Table(merged))
        .try_deserialize()
        .map_err(|error| unmergeable(&error))
}

/// Cannot happen while table and types agree, which a test holds; a problem is better than a panic.
fn unmergeable(error: &config::ConfigError) -> Problem {
    let what = match error {
        config::ConfigError::Type { key: Some(key), .. }
        | config::ConfigError::At { key: Some(key), .. } => key.clone(),
        config::ConfigError::NotFound(key) => key.clone(),
        _ => String::new(),
    };
    Problem {
        at: "configuration".to_owned(),
        key: what,
        wrong: "the value does not fit its option".to_owned(),
        right: "this is a bug in berth's option table".to_owned(),
        code: ErrorCode::WrongType,
    }
}
