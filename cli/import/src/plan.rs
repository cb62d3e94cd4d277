//! The plan of an import: each option that the files set, by its rule, into the berth.toml or into the report.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;

use berth_model::nearest_name;
use serde_json::Value as Json;

use crate::convert::{self, ConversionFault};
use crate::facts::{NovaOption, NovaOptions, NovaType};
use crate::report::{
    ImportReport, ImportedConfig, ImportedOption, ImportedSecret, ReportedOption, option_name,
};
use crate::rules::ImportRule;
use crate::syntax::{ConfAssignment, ConfFile};
use crate::values::{NovaConf, place};

/// The unknown options that get a "did you mean". Each is compared with every option of Nova.
const MOST_GUESSES: usize = 50;

/// Checks a value of an option of Berth (section, key, value). The error says what is wrong and what would be right.
pub type OptionCheck<'a> = &'a dyn Fn(&str, &str, &Json) -> Result<(), String>;

/// What to import.
#[derive(Clone, Copy)]
pub struct ImportRequest<'a> {
    /// In the order in which nova-compute reads them.
    pub files: &'a [ConfFile],
    /// The folder of the files with secrets.
    pub secrets: &'a Path,
    pub check: OptionCheck<'a>,
}

/// Plans the import; nothing is written.
#[must_use]
pub fn import(request: &ImportRequest<'_>) -> ImportedConfig {
    let mut plan = ImportPlan {
        conf: NovaConf::new(request.files, NovaOptions::nova_34()),
        request,
        imported: ImportedConfig {
            options: Vec::new(),
            not_yet: Vec::new(),
            secrets: Vec::new(),
            report: ImportReport::default(),
        },
    };
    let mut done = BTreeSet::new();
    for (file, assignment) in plan.conf.assignments() {
        match plan
            .conf
            .options()
            .of_key(&assignment.section, &assignment.key)
        {
            Some(option) if done.insert(option.title()) => plan.option(&option),
            Some(_) => {}
            None => plan.unknown(file, assignment),
        }
    }
    plan.imported
}

/// Why a value is not in the berth.toml.
#[derive(Debug, thiserror::Error)]
enum ValueFault {
    #[error(transparent)]
    Conversion(#[from] ConversionFault),
    #[error("the value is empty; Nova uses its default, and so does Berth")]
    Empty,
    #[error(
        "the value is a URL with a password; write the URL without it, and the password in an option of its own"
    )]
    PasswordInUrl,
    #[error("Berth has this option, but not with this value: {0}. Berth's default holds")]
    Refused(String),
}

struct ImportPlan<'a> {
    conf: NovaConf<'a>,
    request: &'a ImportRequest<'a>,
    imported: ImportedConfig,
}

impl ImportPlan<'_> {
    fn option(&mut self, option: &NovaOption) {
        let Some(found) = self.conf.find(option) else {
            return;
        };
        let mut reported = ReportedOption {
            option: option.title(),
            at: found.at,
            to: None,
            why: String::new(),
        };
        if let Some(written) = found.assignments.last().map(|it| written(it, option)) {
            reported.option.push_str(&written);
        }
        let texts = match self.conf.texts(option) {
            Ok(texts) => texts.unwrap_or_default(),
            Err(fault) => {
                reported.why = fault.to_string();
                return self.imported.report.problems.push(reported);
            }
        };
        self.by_rule(option, &texts, reported);
    }

    fn by_rule(&mut self, option: &NovaOption, texts: &[String], mut reported: ReportedOption) {
        let rule = ImportRule::of(option);
        let report = &mut self.imported.report;
        let why = |reason: &str| ReportedOption {
            why: reason.to_owned(),
            ..reported.clone()
        };
        match rule {
            Some(ImportRule::Meaningless(reason)) => report.meaningless.push(why(reason)),
            Some(ImportRule::Impossible(reason)) => report.impossible.push(why(reason)),
            Some(ImportRule::Fixed(values, reason)) => match plain(option.kind, texts) {
                Ok(value) if values.contains(&value.as_str()) => {
                    report.meaningless.push(why("Berth always works like this"));
                }
                Ok(value) if value.is_empty() => {
                    report.meaningless.push(why(&ValueFault::Empty.to_string()));
                }
                Ok(_) => report.impossible.push(why(reason)),
                Err(fault) => report.problems.push(why(&fault.to_string())),
            },
            Some(rule) => self.take(option, rule, texts, reported),
            None => {
                "Nova has this option, and Berth's table of options does not: this is a bug"
                    .clone_into(&mut reported.why);
                report.problems.push(reported);
            }
        }
    }

    fn take(
        &mut self,
        option: &NovaOption,
        rule: ImportRule,
        texts: &[String],
        mut reported: ReportedOption,
    ) {
        let is_read = rule != ImportRule::NotYet;
        let Some((section, key)) = rule.target(option) else {
            return;
        };
        let value = self.checked(option, rule, texts, (&section, &key));
        let report = &mut self.imported.report;
        let value = match value {
            Ok(value) => value,
            Err(fault) => {
                reported.why = fault.to_string();
                return match fault {
                    ValueFault::Empty => report.meaningless.push(reported),
                    ValueFault::Refused(_) => report.impossible.push(reported),
                    _ => report.problems.push(reported),
                };
            }
        };
        let (key, value) = match option.secret {
            true => self.secret(&section, &key, value),
            false => (key, value),
        };
        reported.to = Some(option_name(&section, &key));
        let line = ImportedOption {
            section,
            key,
            value,
            at: reported.at.clone(),
        };
        let imported = &mut self.imported;
        let (lines, report) = match is_read {
            true => (&mut imported.options, &mut imported.report.taken),
            false => (&mut imported.not_yet, &mut imported.report.not_yet),
        };
        lines.push(line);
        report.push(reported);
    }

    /// The value for the berth.toml, checked by the option that gets it.
    fn checked(
        &self,
        option: &NovaOption,
        rule: ImportRule,
        texts: &[String],
        (section, key): (&str, &str),
    ) -> Result<Json, ValueFault> {
        if !option.secret && texts.iter().any(|text| has_password(text)) {
            return Err(ValueFault::PasswordInUrl);
        }
        let value = match rule {
            ImportRule::Driver => driver(texts),
            _ => converted(option, texts)?,
        };
        if value.is_null() || value == "" {
            return Err(ValueFault::Empty);
        }
        if rule != ImportRule::NotYet {
            (self.request.check)(section, key, &value).map_err(ValueFault::Refused)?;
        }
        Ok(value)
    }

    /// Puts a secret into a file of its own; the option `KEY_file` names it.
    fn secret(&mut self, section: &str, key: &str, value: Json) -> (String, Json) {
        let path = self.request.secrets.join(format!("{section}.{key}"));
        let file = Json::from(path.to_string_lossy());
        let text = match value {
            Json::String(text) => text,
            other => other.to_string(),
        };
        self.imported.secrets.push(ImportedSecret { path, text });
        (format!("{key}_file"), file)
    }

    fn unknown(&mut self, file: &ConfFile, assignment: &ConfAssignment) {
        let option = format!("[{}] {}", assignment.section, assignment.key);
        let option = option.escape_debug().to_string();
        let guess = match self.imported.report.unknown.len() < MOST_GUESSES {
            true => guess(&option, self.conf.options()),
            false => String::new(),
        };
        self.imported.report.unknown.push(ReportedOption {
            option,
            at: place(file, assignment),
            to: None,
            why: guess,
        });
    }
}

/// The option with the nearest name, as a question.
fn guess(option: &str, options: &NovaOptions) -> String {
    let names: Vec<String> = options.iter().map(NovaOption::title).collect();
    let guess = nearest_name(option, names.iter().map(String::as_str));
    guess.map_or_else(String::new, |it| format!("did you mean {it}?"))
}

/// ` (written as [group] name)` if an option has a former name in the file.
fn written(assignment: &ConfAssignment, option: &NovaOption) -> String {
    let is_present = assignment.key == option.name
        && assignment.section.to_lowercase() == option.group.to_lowercase();
    match is_present {
        true => String::new(),
        false => format!(" (written as [{}] {})", assignment.section, assignment.key),
    }
}

/// The value by the type of the option.
fn converted(option: &NovaOption, texts: &[String]) -> Result<Json, ConversionFault> {
    let is_json = option.group == "pci" && option.multi;
    if is_json {
        let elements = texts.iter().filter(|text| !text.is_empty());
        let elements = elements.flat_map(|text| convert::json_texts(text));
        return Ok(elements.collect::<Vec<_>>().into());
    }
    if option.multi {
        let values = texts.iter().map(|text| convert::value(option.kind, text));
        return values.collect::<Result<Vec<_>, _>>().map(Json::Array);
    }
    let text = texts.last().map(Cow::from);
    convert::value(option.kind, &text.unwrap_or_default())
}

/// The value in one spelling, to compare it with what Berth always does.
fn plain(kind: NovaType, texts: &[String]) -> Result<String, ConversionFault> {
    let text = texts.last().map_or("", String::as_str);
    Ok(match convert::value(kind, text)? {
        Json::Null => String::new(),
        Json::String(text) => text.trim().to_lowercase(),
        other => other.to_string(),
    })
}

/// Berth's word for the path of a driver's class; a driver that Berth does not have stays as it is, and is refused.
fn driver(texts: &[String]) -> Json {
    let text = texts.last().map_or("", String::as_str);
    let module = text.trim_start_matches("nova.virt.");
    let word = match module.split('.').next().unwrap_or_default() {
        "libvirt" => "libvirt",
        "fake" => "fake",
        _ => text,
    };
    Json::from(word)
}

/// Whether a text is a URL with user and password.
fn has_password(text: &str) -> bool {
    let mut parts = text.split("://").skip(1);
    parts.any(|rest| {
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let user = authority.rsplit_once('@').map(|(user, _)| user);
        user.is_some_and(|user| user.contains(':'))
    })
}
