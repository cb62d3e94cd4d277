//! Reads a TOML text into settings, each with its file, line and column.

use berth_options::Json;
use berth_output::ErrorCode;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::ini;
use super::problem::ConfigProblem;
use super::setting::{self, Setting, WrittenValue};
use super::table;

/// One configuration file: its path and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigDocument {
    /// The path as an operator would write it.
    pub name: String,
    pub text: String,
}

/// Reads a document: the valid settings, and all problems.
pub(super) fn read(document: &ConfigDocument) -> (Vec<Setting>, Vec<ConfigProblem>) {
    let (root, errors) = DeTable::parse_recoverable(&document.text);
    if !errors.is_empty() && ini::is_ini(&document.text) {
        let first = errors.first().and_then(toml::de::Error::span);
        let offset = first.map_or(0, |span| span.start);
        let problem = ConfigProblem {
            at: place(document, &line_starts(&document.text), offset),
            key: String::new(),
            wrong: "this is an oslo.config (INI) file such as nova.conf, and berth reads TOML".to_owned(),
            right: "write texts in quotes and lists in brackets; /usr/share/doc/berth/guide/howto/from-nova-compute.md \
                    lists Nova's options"
                .to_owned(),
            code: ErrorCode::Syntax,
        };
        return (Vec::new(), vec![problem]);
    }
    if !errors.is_empty() {
        return (
            Vec::new(),
            errors.iter().map(|error| syntax(document, error)).collect(),
        );
    }
    let mut reading = FileReader {
        document,
        lines: line_starts(&document.text),
        settings: Vec::new(),
        problems: Vec::new(),
        unknown: 0,
        first_unreported: None,
    };
    reading.top_level(root.get_ref());
    reading.count_unreported();
    (reading.settings, reading.problems)
}

/// Only the parser's first sentence: its excerpt of the line could show a secret.
fn syntax(document: &ConfigDocument, error: &toml::de::Error) -> ConfigProblem {
    let offset = error.span().map_or(0, |span| span.start);
    ConfigProblem {
        at: place(document, &line_starts(&document.text), offset),
        key: String::new(),
        wrong: format!(
            "this is not TOML: {}",
            error.message().lines().collect::<Vec<_>>().join(", ")
        ),
        right: String::new(),
        code: ErrorCode::Syntax,
    }
}

/// The offset at which each line begins.
fn line_starts(text: &str) -> Vec<usize> {
    let further = text.match_indices('\n').map(|(offset, _)| offset + 1);
    std::iter::once(0).chain(further).collect()
}

/// `FILE:LINE:COLUMN` of a byte offset; both count from 1, columns in characters.
fn place(document: &ConfigDocument, lines: &[usize], offset: usize) -> String {
    let line = lines.partition_point(|start| *start <= offset).max(1);
    let start = lines.get(line - 1).copied().unwrap_or_default();
    let before = document.text.get(start..offset).unwrap_or_default();
    let column = before.chars().count() + 1;
    format!("{}:{line}:{column}", document.name)
}

/// The number of unknown options that are reported one by one; further ones are only counted. Each reported one is
/// compared with every known option.
const UNKNOWN_REPORTED: usize = 20;

struct FileReader<'a> {
    document: &'a ConfigDocument,
    lines: Vec<usize>,
    settings: Vec<Setting>,
    problems: Vec<ConfigProblem>,
    unknown: usize,
    first_unreported: Option<String>,
}

impl FileReader<'_> {
    fn place(&self, offset: usize) -> String {
        place(self.document, &self.lines, offset)
    }

    fn top_level(&mut self, root: &DeTable<'_>) {
        for (key, value) in root {
            let name = key.get_ref().as_ref();
            let at = self.place(key.span().start);
            match value.get_ref() {
                DeValue::Table(entries) if table::is_section(name) => self.section(name, entries),
                _ if table::is_section(name) => {
                    self.refuse(
                        at,
                        name,
                        "this is a section, not an option",
                        format!("write [{name}] and the options below"),
                    );
                }
                DeValue::Table(_) if table::find("", name).is_none() => {
                    self.problems.push(setting::unknown_section(name, &at));
                }
                DeValue::Array(elements)
                    if table::find("", name).is_none()
                        && elements.iter().all(|each| each.get_ref().is_table()) =>
                {
                    self.problems.push(setting::unknown_section(name, &at));
                }
                _ => self.entry("", key, value),
            }
        }
    }

    /// Reports the further unknown options as one problem.
    fn count_unreported(&mut self) {
        if let Some(at) = self.first_unreported.take() {
            self.problems.push(ConfigProblem {
                at,
                key: String::new(),
                wrong: format!(
                    "{} further unknown options",
                    self.unknown - UNKNOWN_REPORTED
                ),
                right: "correct the first ones to see the others".to_owned(),
                code: ErrorCode::UnknownKey,
            });
        }
    }

    fn section(&mut self, section: &str, entries: &DeTable<'_>) {
        for (key, value) in entries {
            self.entry(section, key, value);
        }
    }

    fn entry(
        &mut self,
        section: &str,
        key: &Spanned<toml::de::DeString<'_>>,
        value: &Spanned<DeValue<'_>>,
    ) {
        let name = key.get_ref().as_ref();
        let key_at = self.place(key.span().start);
        if table::find(section, name).is_none() {
            self.unknown += 1;
            if self.unknown <= UNKNOWN_REPORTED {
                self.problems
                    .push(setting::unknown_key(section, name, &key_at));
            } else if self.first_unreported.is_none() {
                self.first_unreported = Some(key_at);
            }
            return;
        }
        let admitted = match self.convert(value) {
            Ok(converted) => {
                let written = WrittenValue {
                    value: converted,
                    at: self.place(value.span().start),
                    elements_at: match value.get_ref() {
                        DeValue::Array(elements) => {
                            let places = elements.iter().map(|each| self.place(each.span().start));
                            places.collect()
                        }
                        _ => Vec::new(),
                    },
                };
                setting::admit(section, name, &key_at, &written)
            }
            Err((wrong, at)) => {
                return self.refuse(at, &setting::name(section, name), wrong, String::new());
            }
        };
        match admitted {
            Ok(setting) => self.settings.push(setting),
            Err(problem) => self.problems.push(problem),
        }
    }

    /// Converts a value. TOML types that no option has are refused here.
    fn convert(&self, value: &Spanned<DeValue<'_>>) -> Result<Json, (&'static str, String)> {
        let refuse = |wrong| Err((wrong, self.place(value.span().start)));
        Ok(match value.get_ref() {
            DeValue::String(text) => Json::from(text.as_ref()),
            DeValue::Boolean(flag) => Json::from(*flag),
            DeValue::Integer(number) => {
                match i64::from_str_radix(number.as_str(), number.radix()) {
                    Ok(number) => Json::from(number),
                    Err(_) => return refuse("the number is too large"),
                }
            }
            DeValue::Float(number) => match number.as_str().parse::<f64>() {
                Ok(number) if number.is_finite() => Json::from(number),
                _ => return refuse("the number is not finite"),
            },
            DeValue::Array(elements) => {
                let elements = elements.iter().map(|each| self.convert(each));
                Json::Array(elements.collect::<Result<_, _>>()?)
            }
            DeValue::Datetime(_) => {
                return refuse("no option takes a date or time; write a text in quotes");
            }
            DeValue::Table(entries) => {
                let entries = entries.iter().map(|(key, value)| {
                    let key = key.get_ref().as_ref().to_owned();
                    Ok((key, self.convert(value)?))
                });
                Json::Object(entries.collect::<Result<_, _>>()?)
            }
        })
    }

    fn refuse(&mut self, at: String, key: &str, wrong: &str, right: String) {
        self.problems.push(ConfigProblem {
            at,
            key: key.to_owned(),
            wrong: wrong.to_owned(),
            right,
            code: ErrorCode::WrongType,
        });
    }
}
