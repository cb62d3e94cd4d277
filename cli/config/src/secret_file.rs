//! Secrets in files of their own: the option `KEY_file` of each secret option, and credentials of the service manager.
//!
//! A credential is a file `SECTION.KEY` in `$CREDENTIALS_DIRECTORY` (`LoadCredential=placement.password:...` in a unit).

use std::path::Path;

use berth_files::{TrustError, confidential};
use berth_options::Json;
use berth_output::ErrorCode;

use super::load::MergedSettings;
use super::problem::ConfigProblem;
use super::setting::{self, Setting, WrittenValue};
use super::table::{self, OPTIONS};
use crate::regular_file;

/// Larger than any secret: a larger file is a mistake.
const LARGEST: u64 = 64 << 10;

/// Reads the secret in a file; the error says what is wrong and what would be right.
pub(super) type ReadSecret<'a> = &'a dyn Fn(&Path) -> Result<String, (String, String)>;

/// Reads a file with one line. A file that every user may read is refused.
pub(super) fn read(path: &Path) -> Result<String, (String, String)> {
    // Who else can change it is judged for all files together.
    if let Err(error @ TrustError::Readable { .. }) = confidential(path) {
        return Err((error.to_string(), error.hint()));
    }
    let shown = path.display();
    let unreadable = |error: std::io::Error| {
        let right = "name a file that the user of this process may read";
        (format!("{shown} cannot be read: {error}"), right.to_owned())
    };
    let (content, _) = regular_file::read(path, LARGEST).map_err(unreadable)?;
    let wrong = |wrong: &str| {
        let right = "write the secret into it, on one line";
        Err((format!("{shown} {wrong}"), right.to_owned()))
    };
    let Ok(text) = String::from_utf8(content) else {
        return wrong("is not UTF-8");
    };
    match text.trim_end_matches(['\n', '\r']) {
        "" => wrong("is empty"),
        text if text.contains('\n') => wrong("has more than one line"),
        text => Ok(text.to_owned()),
    }
}

/// Reads the file of each `KEY_file` and sets the secret option `KEY` to its text. Returns the errors.
pub(super) fn fill(merged: &mut MergedSettings, read: ReadSecret<'_>) -> Vec<ConfigProblem> {
    let mut problems = Vec::new();
    let mut found = Vec::new();
    for ((section, key), named) in merged.iter() {
        let Some(secret) = key.strip_suffix("_file") else {
            continue;
        };
        let Some(row) = table::find(section, secret).filter(|row| row.kind.is_secret()) else {
            continue;
        };
        let problem = |wrong: String, right: String, code| ConfigProblem {
            at: named.at.clone(),
            key: setting::name(section, key),
            wrong,
            right,
            code,
        };
        let Some(path) = named.value.as_str() else {
            continue;
        };
        if let Some(other) = merged.get(&(section.clone(), row.key)) {
            let wrong = format!("{} is set, too ({})", row.key, other.at);
            let right = format!("remove one of {} and {key}", row.key);
            problems.push(problem(wrong, right, ErrorCode::Contradiction));
            continue;
        }
        match read(Path::new(path)) {
            Ok(text) => found.push((section.clone(), row.key, path.to_owned(), text)),
            Err((wrong, right)) => problems.push(problem(wrong, right, ErrorCode::Unreadable)),
        }
    }
    for (section, key, path, text) in found {
        match admitted(&section, key, &path, text) {
            Ok(setting) => drop(merged.insert((section, key), setting)),
            Err(problem) => problems.push(problem),
        }
    }
    problems
}

/// Reads the credentials of this process: a file `SECTION.KEY` for each secret option. Other files are ignored.
pub(super) fn credentials(folder: &Path) -> (Vec<Setting>, Vec<ConfigProblem>) {
    let (mut settings, mut problems) = (Vec::new(), Vec::new());
    for row in OPTIONS.iter().filter(|row| row.kind.is_secret()) {
        let path = folder.join(row.name());
        if !path.is_file() {
            continue;
        }
        let shown = path.display().to_string();
        let admitted = match read(&path) {
            Ok(text) => admitted(row.section, row.key, &shown, text),
            Err((wrong, right)) => Err(ConfigProblem {
                at: shown,
                key: row.name(),
                wrong,
                right,
                code: ErrorCode::Unreadable,
            }),
        };
        match admitted {
            Ok(setting) => settings.push(setting),
            Err(problem) => problems.push(problem),
        }
    }
    (settings, problems)
}

fn admitted(section: &str, key: &str, path: &str, text: String) -> Result<Setting, ConfigProblem> {
    let written = WrittenValue {
        value: Json::from(text),
        at: path.to_owned(),
        elements_at: Vec::new(),
    };
    setting::admit(section, key, path, &written)
}
