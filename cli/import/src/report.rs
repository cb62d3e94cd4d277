//! The result of an import: the options of the berth.toml, the files of its secrets, and the report. A report has no secret. It
//! quotes a value only if Berth's option refuses the value.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value as Json;

/// The result of an import.
#[derive(Debug)]
pub struct ImportedConfig {
    pub options: Vec<ImportedOption>,
    /// Options that this release of Berth does not read yet.
    pub not_yet: Vec<ImportedOption>,
    pub secrets: Vec<ImportedSecret>,
    pub report: ImportReport,
}

/// One line of the berth.toml.
pub struct ImportedOption {
    /// Empty at the top level.
    pub section: String,
    pub key: String,
    pub value: Json,
    /// The place in Nova's file.
    pub at: String,
}

/// Without the value: most are harmless, and nothing needs them in a log.
impl fmt::Debug for ImportedOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", option_name(&self.section, &self.key), self.at)
    }
}

/// A file with one secret, which only its owner may read.
pub struct ImportedSecret {
    pub path: PathBuf,
    pub text: String,
}

/// Without the secret.
impl fmt::Debug for ImportedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())
    }
}

/// What became of each option that the files set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ImportReport {
    /// In the berth.toml.
    pub taken: Vec<ReportedOption>,
    /// In the berth.toml as comments, because this release does not read them yet.
    pub not_yet: Vec<ReportedOption>,
    /// Without meaning here, and why.
    pub meaningless: Vec<ReportedOption>,
    /// What Berth cannot do, and what follows.
    pub impossible: Vec<ReportedOption>,
    /// Options that Nova 34 does not have.
    pub unknown: Vec<ReportedOption>,
    /// Values that Nova would not take either, or that cannot be written out.
    pub problems: Vec<ReportedOption>,
}

/// One option in the report.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ReportedOption {
    /// `[group] name`.
    pub option: String,
    /// `FILE:LINE`.
    pub at: String,
    /// The option of Berth that has the value now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The reason, or what is wrong.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}

impl ImportReport {
    /// Whether something in the files needs a decision of the operator.
    #[must_use]
    pub fn needs_attention(&self) -> bool {
        !(self.impossible.is_empty() && self.unknown.is_empty() && self.problems.is_empty())
    }

    /// The parts with their titles, the most urgent first.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, &[ReportedOption]); 6] {
        [
            ("Problems: these values were left out", &self.problems),
            ("Unknown: Nova 34 has no such option", &self.unknown),
            ("Berth cannot do this", &self.impossible),
            (
                "Not yet read by this release: comments at the end of the file",
                &self.not_yet,
            ),
            ("Means nothing here", &self.meaningless),
            ("Taken over", &self.taken),
        ]
    }
}

impl fmt::Display for ImportReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (title, options) in self.parts() {
            if options.is_empty() {
                continue;
            }
            writeln!(f, "{title} ({}):", options.len())?;
            for option in options {
                writeln!(f, "  {option}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for ReportedOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.option)?;
        if let Some(to) = &self.to {
            write!(f, " -> {to}")?;
        }
        if !self.why.is_empty() {
            write!(f, ": {}", self.why)?;
        }
        Ok(())
    }
}

/// `[section] key`, or the key alone at the top level.
pub(crate) fn option_name(section: &str, key: &str) -> String {
    match section {
        "" => key.to_owned(),
        section => format!("[{section}] {key}"),
    }
}
