//! Runs schemathesis, which reads an OpenAPI document and generates valid and invalid requests. Any finding fails the
//! test.

use std::env;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::{PeerError, checkout, ended, installed};
use crate::scratch::Scratch;

/// How long a run may take: it waits a minute for each answer that does not come.
const LIMIT: Duration = Duration::from_hours(2);

/// Writes a line of what bad input came to, to the file that BERTH_BAD_INPUT_REPORT names: what was done, how many
/// requests or inputs, KiB resident before and after, violations. Nothing where none is named.
///
/// # Panics
/// When the file cannot be written.
pub fn report_bad_input(line: &str) {
    if let Some(file) = env::var_os("BERTH_BAD_INPUT_REPORT") {
        let file = OpenOptions::new().create(true).append(true).open(file);
        writeln!(file.expect("the report"), "{line}").expect("the report");
    }
}

#[derive(Debug)]
pub struct Schemathesis<'a> {
    /// The document's file, below `docs/api`.
    pub document: &'a str,
    /// Where the service is.
    pub url: &'a str,
    /// Sent with each request: `Name: value`.
    pub headers: &'a [String],
    /// What is looked for, in its own words.
    pub checks: &'a str,
    /// How requests are made up, in its own words.
    pub phases: &'a str,
    /// The number of generated requests for each operation, in addition to the fixed ones.
    pub examples: u64,
    /// What chance begins with.
    pub seed: u64,
    /// A Python module that puts generated objects where requests need existing ones, and its folder below `tests`.
    /// Settings may be next to it in a file of the same name with `.toml`.
    pub hooks: (&'a str, &'a str),
    /// More for the hooks' environment.
    pub environment: &'a [(&'a str, String)],
}

impl Schemathesis<'_> {
    /// Runs it; how many requests it made.
    ///
    /// Errors: When it is not installed or cannot run, and when it found something: then with all it said.
    pub fn run(&self) -> Result<u64, PeerError> {
        let scratch = Scratch::new().map_err(PeerError::files("make a directory"))?;
        let report_file = scratch.join("report.json");
        let (module, folder) = self.hooks;
        let mut command = Command::new(installed()?.join("venv/bin/st"));
        command
            .stdin(Stdio::null())
            .args(self.arguments(&report_file))
            .current_dir(scratch.path())
            .env("SCHEMATHESIS_HOOKS", module)
            .env("PYTHONPATH", checkout().join("tests").join(folder))
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        let ran = ended(&mut command, LIMIT).map_err(PeerError::files("run schemathesis"))?;
        let failed = |errors: String| PeerError::Command {
            program: format!("schemathesis, {}, seed {}", self.document, self.seed),
            errors,
        };
        if !ran.status.success() {
            let output = String::from_utf8_lossy(&ran.stdout);
            let errors = String::from_utf8_lossy(&ran.stderr);
            return Err(failed(format!("{output}\n{errors}")));
        }
        let report =
            fs::read_to_string(report_file).map_err(PeerError::files("read its report"))?;
        let report: Value =
            serde_json::from_str(&report).map_err(|error| failed(error.to_string()))?;
        let operations = &report["operations"];
        if operations["tested"] != operations["total"] {
            return Err(failed(format!(
                "not every operation was asked: {operations}"
            )));
        }
        let requests = report["test_cases"]["generated"].as_u64();
        requests.ok_or_else(|| failed(format!("how many requests there were: {report}")))
    }

    fn arguments(&self, report_file: &Path) -> Vec<OsString> {
        let document = checkout().join("docs/api").join(self.document);
        let (module, folder) = self.hooks;
        let settings = checkout()
            .join("tests")
            .join(folder)
            .join(format!("{module}.toml"));
        let mut arguments: Vec<OsString> = Vec::new();
        if settings.exists() {
            arguments.extend(["--config-file".into(), settings.into()]);
        }
        arguments.extend(["run".into(), document.into()]);
        arguments.extend(["--url", self.url, "--checks", self.checks].map(OsString::from));
        arguments.extend(["--phases", self.phases, "--request-timeout", "60"].map(OsString::from));
        for (name, number) in [("--seed", self.seed), ("--max-examples", self.examples)] {
            arguments.extend([name.into(), number.to_string().into()]);
        }
        for header in self.headers {
            arguments.extend(["--header".into(), header.into()]);
        }
        let manner = [
            "--continue-on-failure",
            "--no-shrink",
            "--no-color",
            "--warnings",
            "off",
            "--generation-database",
            "none",
            "--suppress-health-check",
            "all",
            "--report",
            "json",
            "--report-json-path",
        ];
        arguments.extend(manner.map(OsString::from));
        arguments.push(report_file.into());
        arguments
    }
}
