//! Runs OpenStack Placement's own test suite over HTTP, with `tests/conformance/gabbits.py`.

use std::process::Command;

use serde::Deserialize;
use serde_json::json;

use super::python::PythonProgram;
use super::{PeerError, checkout, installed, output};
use crate::scratch::Scratch;

const PROGRAM: &str = "tests/conformance/gabbits.py";

/// A file of the suite.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct GabbiFile {
    /// Its name without the ending.
    pub file: String,
    /// The service configuration that the file needs; `gabbits.py` explains the values.
    pub configuration: String,
    /// How many tests are in it.
    pub tests: usize,
}

/// What came of one test.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct GabbiTest {
    /// Its name in the file.
    pub name: String,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}

/// The suite of the Placement that is installed.
pub fn gabbi_files() -> Result<Vec<GabbiFile>, PeerError> {
    let mut python = Command::new(installed()?.join("venv/bin/python"));
    let listed = output(python.arg(checkout().join(PROGRAM)).arg("list"))?;
    serde_json::from_str(&listed).map_err(unreadable)
}

/// Runs files, one after another.
#[derive(Debug)]
pub struct Gabbits(PythonProgram);

impl Gabbits {
    pub fn start() -> Result<Self, PeerError> {
        let scratch = Scratch::new().map_err(PeerError::files("make a directory for the suite"))?;
        PythonProgram::start(PROGRAM, &[], scratch).map(Self)
    }

    /// The tests of a file, in their order, against an empty Placement at this URL.
    pub fn run(&mut self, file: &GabbiFile, url: &str) -> Result<Vec<GabbiTest>, PeerError> {
        let answer = self.0.ask(&json!({"url": url, "file": file.file}))?;
        let tests: Vec<(String, Option<String>)> =
            serde_json::from_value(answer).map_err(unreadable)?;
        let test = |(name, failure)| GabbiTest { name, failure };
        Ok(tests.into_iter().map(test).collect())
    }
}

fn unreadable(error: serde_json::Error) -> PeerError {
    PeerError::Files {
        doing: "read what the suite's program said",
        source: error.into(),
    }
}
