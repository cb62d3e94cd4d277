//! Runs a Python program of `tests/` that answers each line with a line, in the environment of the real services.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::{PeerError, checkout, installed};
use crate::limit::Limit;
use crate::process::spawn_from_keeper;
use crate::scratch::Scratch;

/// How long it may take for an answer: a client's `--wait` has no end of its own.
const LIMIT: Duration = Duration::from_secs(60);

/// A program that runs. It ends with the value, or with this process.
#[derive(Debug)]
pub(super) struct PythonProgram {
    child: Child,
    asked: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// Last: the program ends before its files go.
    scratch: Scratch,
}

impl PythonProgram {
    /// Starts one, by its path below the checkout, in a directory of its own.
    pub(super) fn start(
        path: &str,
        arguments: &[&str],
        scratch: Scratch,
    ) -> Result<Self, PeerError> {
        let python = installed()?.join("venv/bin/python");
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(python)
            .arg(checkout().join(path))
            .args(arguments.iter().map(OsString::from))
            .current_dir(scratch.path())
            .env("HOME", scratch.path())
            .env_remove("PYTHONPATH")
            .env_remove("PYTHONHOME")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        for (key, _) in std::env::vars_os() {
            if key.to_string_lossy().starts_with("OS_") {
                command.env_remove(key);
            }
        }
        let started = PeerError::files("start a program in Python");
        let mut child = spawn_from_keeper(command).map_err(started)?;
        let (Some(asked), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both are pipes")
        };
        Ok(Self {
            child,
            asked,
            answers: BufReader::new(answers),
            scratch,
        })
    }

    /// Its working directory.
    pub(super) fn folder(&self) -> &Path {
        self.scratch.path()
    }

    /// Writes a line to it and reads the answer.
    pub(super) fn ask(&mut self, question: &Value) -> Result<Value, PeerError> {
        let _limit = Limit::of(&self.child, LIMIT);
        let line = format!("{question}\n");
        let asked = self.asked.write_all(line.as_bytes());
        asked.map_err(PeerError::files("ask a program in Python"))?;
        let mut line = String::new();
        let read = self.answers.read_line(&mut line);
        read.map_err(PeerError::files("read what a program in Python said"))?;
        serde_json::from_str(&line).map_err(|error| PeerError::Files {
            doing: "read what a program in Python said",
            source: error.into(),
        })
    }
}

impl Drop for PythonProgram {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
