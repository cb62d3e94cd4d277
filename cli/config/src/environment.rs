//! Settings from the environment: `BERTH__KEY`, `BERTH__SECTION__KEY` and `BERTH_DATABASE_URL`.

use std::ffi::OsString;

use berth_model::nearest_name as nearest;
use berth_options::OptionRow;
use berth_output::ErrorCode;

use super::pattern::PATTERNS;
use super::problem::ConfigProblem;
use super::setting::{self, Setting, WrittenValue};
use super::table::{self, OPTIONS};

/// Variables that other parts of berth read.
const OTHERS: [&str; 2] = ["BERTH_DATABASE_URL", "BERTH_LOG"];

/// The settings of the environment, its errors, and its warnings.
#[derive(Default)]
pub(super) struct Environment {
    pub settings: Vec<Setting>,
    pub problems: Vec<ConfigProblem>,
    pub warnings: Vec<ConfigProblem>,
}

/// Reads every variable whose name begins with `BERTH_`.
pub(super) fn read(variables: &[(OsString, OsString)]) -> Environment {
    let mut environment = Environment::default();
    let mut sorted: Vec<_> = variables.iter().collect();
    sorted.sort();
    for (name, value) in sorted {
        let name = name.to_string_lossy();
        if let Some(path) = name.strip_prefix("BERTH__") {
            environment.option(&name, path, value.to_str());
        } else if name == "BERTH_DATABASE_URL" {
            environment.set(&name, "placement_service", "connection", value.to_str());
        } else if name.starts_with("BERTH_") && !OTHERS.contains(&&*name) {
            environment.doubt(&name);
        }
    }
    environment
}

impl Environment {
    fn option(&mut self, name: &str, path: &str, value: Option<&str>) {
        let (section, key) = match path.split_once("__") {
            Some((section, key)) => (section_of(section), key.to_lowercase()),
            None => (String::new(), path.to_lowercase()),
        };
        let at = place(name);
        if !section.is_empty() && !table::is_section(&section) {
            self.problems
                .push(guided(name, setting::unknown_section(&section, &at)));
        } else if table::find(&section, &key).is_none() {
            self.problems
                .push(guided(name, setting::unknown_key(&section, &key, &at)));
        } else {
            self.set(name, &section, &key, value);
        }
    }

    fn set(&mut self, name: &str, section: &str, key: &str, value: Option<&str>) {
        let at = place(name);
        let Some(row) = table::find(section, key) else {
            return;
        };
        let Some(value) = value else {
            self.problems.push(ConfigProblem {
                at,
                key: setting::name(section, key),
                wrong: "the value is not UTF-8".into(),
                right: row.kind.write(),
                code: ErrorCode::BadValue,
            });
            return;
        };
        let written = |value| WrittenValue {
            value,
            at: at.clone(),
            elements_at: Vec::new(),
        };
        let admitted = match row.kind.of_variable(value) {
            Ok(value) => setting::admit(section, key, &at, &written(value)),
            Err(error) => {
                let written = written(value.into());
                Err(setting::wrong_value(section, key, &written, error))
            }
        };
        match admitted {
            Ok(setting) => self.settings.push(setting),
            Err(problem) => self.problems.push(problem),
        }
    }

    fn doubt(&mut self, name: &str) {
        let variables: Vec<String> = OPTIONS.iter().map(OptionRow::variable).collect();
        let known = variables.iter().map(String::as_str).chain(OTHERS);
        let right = match nearest(name, known) {
            Some(guess) => format!("did you mean {guess}?"),
            None => "variables of options begin with BERTH__ (two underscores)".to_owned(),
        };
        self.warnings.push(ConfigProblem {
            at: place(name),
            key: String::new(),
            wrong: "berth does not read this variable".into(),
            right,
            code: ErrorCode::Doubtful,
        });
    }
}

fn place(name: &str) -> String {
    format!("variable {name}")
}

/// Converts the section part of a variable's name. Sections are lower case, except the name in a section of a pattern,
/// which is kept as written.
fn section_of(text: &str) -> String {
    let named = PATTERNS.iter().find_map(|pattern| {
        let (prefix, name) = text.split_at_checked(pattern.prefix.len())?;
        let is_it = prefix.eq_ignore_ascii_case(pattern.prefix);
        is_it.then(|| format!("{}{name}", pattern.prefix))
    });
    named.unwrap_or_else(|| text.to_lowercase())
}

/// Replaces the TOML key by the variable in a problem.
fn guided(name: &str, problem: ConfigProblem) -> ConfigProblem {
    let variables: Vec<String> = OPTIONS.iter().map(OptionRow::variable).collect();
    match nearest(name, variables.iter().map(String::as_str)) {
        Some(guess) if problem.code == ErrorCode::UnknownKey => ConfigProblem {
            right: format!("did you mean {guess}?"),
            ..problem
        },
        _ => problem,
    }
}
