//! `berth scheduler lint`: finds mistakes in flavors, aggregates, device profiles, images and scheduler options of a
//! file.

use std::io::Write;
use std::path::{Path, PathBuf};

use berth_model::printable;
use berth_output::{ErrorCode, ExitCode, Failure, ListFormat, Listing};
use berth_scheduler_lint::{Catalogue, LintSeverity, lint};
use serde_json::{Value, json};

use super::explain::read;

/// The longest part of a parser's error message that is printed, in characters.
const LONGEST: usize = 400;

/// The arguments of `berth scheduler lint`.
#[derive(Debug, clap::Args)]
pub(super) struct Lint {
    /// The file to check, JSON or TOML; - is standard input.
    file: PathBuf,
    #[command(flatten)]
    format: ListFormat,
}

/// Checks the file, and prints each finding on one line.
///
/// Errors: the file cannot be read, or does not contain flavors, aggregates, device profiles, images or options.
pub(super) fn run(asked: &Lint, out: &mut dyn Write) -> Result<ExitCode, Failure> {
    let text = read(&asked.file)?;
    let document = document(&asked.file, &text)?;
    let catalogue = Catalogue::read(&document).map_err(|error| {
        let what = format!("{} cannot be checked", asked.file.display());
        Failure::caused(ErrorCode::BadValue, what, &error)
            .hint("/usr/share/doc/berth/guide/howto/why-no-host.md shows such a file")
    })?;
    let findings = lint(&catalogue);
    if asked.format.is_for_people() {
        for finding in &findings {
            writeln!(out, "{finding}")?;
        }
        if findings.is_empty() {
            writeln!(out, "no problems found")?;
        }
    } else {
        let mut listing =
            Listing::new(&["severity", "code", "kind", "name", "key", "text", "hint"]);
        for one in &findings {
            listing.push([
                json!(one.severity),
                json!(one.code),
                json!(one.place.kind),
                json!(one.place.name),
                json!(one.place.key),
                json!(one.text),
                json!(one.hint),
            ]);
        }
        listing.print(&asked.format, out)?;
    }
    let is_wrong = findings
        .iter()
        .any(|one| one.severity == LintSeverity::Error);
    Ok(match is_wrong {
        true => ExitCode::Refused,
        false => ExitCode::Done,
    })
}

/// A text with a leading brace is JSON; with a leading bracket it may be JSON or TOML.
fn document(path: &Path, text: &str) -> Result<Value, Failure> {
    if text.trim().is_empty() {
        let what = format!("{} is empty", path.display());
        return Err(Failure::new(ErrorCode::Syntax, what)
            .hint("/usr/share/doc/berth/guide/howto/why-no-host.md shows such a file"));
    }
    let what = |kind: &str| format!("{} is not valid {kind}", path.display());
    let is_bracketed = text.trim_start().starts_with('[');
    if is_bracketed && let Ok(document) = toml::from_str(text) {
        return Ok(document);
    }
    let is_json = is_named(path, "json") || text.trim_start().starts_with(['{', '[']);
    match is_json && !is_named(path, "toml") {
        true => serde_json::from_str(text)
            .map_err(|error| Failure::caused(ErrorCode::Syntax, what("JSON"), &error)),
        false => toml::from_str(text).map_err(|error| no_toml(what("TOML"), text, &error)),
    }
}

/// Reports the position and the problem. The parser's own message contains the whole line, whatever its length.
fn no_toml(what: String, text: &str, error: &toml::de::Error) -> Failure {
    let before = error.span().and_then(|span| text.get(..span.start));
    let place = before.map_or_else(String::new, |before| {
        let line = before.matches('\n').count() + 1;
        let column = before
            .rsplit('\n')
            .next()
            .unwrap_or_default()
            .chars()
            .count()
            + 1;
        format!(" in line {line}, column {column}")
    });
    let wrong: String = printable(error.message()).chars().take(LONGEST).collect();
    Failure::new(ErrorCode::Syntax, format!("{what}:{place} {wrong}"))
}

fn is_named(path: &Path, kind: &str) -> bool {
    path.extension().is_some_and(|ending| ending == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_json_or_toml() {
        let read = |path: &str, text: &str| {
            let read = document(Path::new(path), text);
            read.map_err(|failure| failure.code())
        };
        let flavors = json!({"flavors": [{"name": "f", "extra_specs": {"hw:numa_nodes": 2}}]});
        let toml = "[[flavors]]\nname = \"f\"\nextra_specs.\"hw:numa_nodes\" = 2\n";
        assert_eq!(read("-", &flavors.to_string()), Ok(flavors.clone()));
        assert_eq!(read("f.toml", toml), Ok(flavors.clone()));
        assert_eq!(read("-", &format!("# ours\n{toml}")), Ok(flavors));
        assert_eq!(read("-", "{"), Err(ErrorCode::Syntax));
        assert_eq!(read("f.toml", "flavors = "), Err(ErrorCode::Syntax));
        assert_eq!(read("f.json", "42"), Ok(json!(42)));
        // Of a long line only the position of the error is printed.
        let long = format!("a = 1\nflavors = \"{}\" x\n", "y".repeat(100_000));
        let failure = document(Path::new("f.toml"), &long).unwrap_err();
        let reported = failure.explain();
        assert!(
            reported.contains("f.toml is not valid TOML")
                && reported.contains("in line 2, column 100014"),
            "{reported}"
        );
        assert!(reported.len() < 1000, "{} bytes", reported.len());
        // An empty input is an error, because the writer probably failed.
        assert_eq!(read("-", " \n"), Err(ErrorCode::Syntax));
    }
}
