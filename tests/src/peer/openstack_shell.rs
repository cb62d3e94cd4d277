//! OpenStack's command line client, `openstack`, over the services that a test names.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::{PeerError, checkout, installed, write};
use crate::scratch::Scratch;

/// Whose commands for accelerators the shell has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceleratorPlugin {
    /// python-openstackclient's own, as releases since 10.4 take them.
    OpenStackClient,
    /// python-cyborgclient's, as the releases before took them.
    CyborgClient,
}

/// A shell that runs one command after another. It ends with the value, or with the thread that started it.
#[derive(Debug)]
pub struct OpenStackShell {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// Last: the shell ends before its files go.
    _scratch: Scratch,
}

/// How a command ended.
#[derive(Clone, Debug)]
pub struct Said {
    /// Exit code.
    pub code: i64,
    /// What it wrote to its output.
    pub out: String,
    /// What it wrote beside that.
    pub err: String,
}

impl Said {
    /// The output as JSON, as commands with `-f json` write it; null where it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_default()
    }
}

impl OpenStackShell {
    /// Starts one. `clouds` are the entries of its clouds.yaml, by their names for `--os-cloud`.
    ///
    /// # Errors
    /// When the peers are not installed or it cannot be started.
    pub fn start(plugin: AcceleratorPlugin, clouds: &Value) -> Result<Self, PeerError> {
        let python = installed()?.join("venv/bin/python");
        let scratch = Scratch::new().map_err(PeerError::files("make a directory for the shell"))?;
        // What is JSON is YAML.
        let clouds = json!({ "clouds": clouds }).to_string();
        write(&scratch.join("clouds.yaml"), &clouds)?;
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(python)
            .arg(checkout().join("tests/peers/openstack_shell.py"))
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
        if plugin == AcceleratorPlugin::CyborgClient {
            command.arg("cyborgclient");
        }
        let started = PeerError::files("start the shell");
        let mut child = command.spawn().map_err(started)?;
        let (Some(commands), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both are pipes")
        };
        Ok(Self {
            child,
            commands,
            answers: BufReader::new(answers),
            _scratch: scratch,
        })
    }

    /// Runs `openstack` with these words.
    ///
    /// # Errors
    /// When the shell has ended.
    pub fn run(&mut self, words: &[&str]) -> Result<Said, PeerError> {
        let line = format!("{}\n", json!(words));
        let asked = self.commands.write_all(line.as_bytes());
        asked.map_err(PeerError::files("tell the shell a command"))?;
        let mut line = String::new();
        let read = self.answers.read_line(&mut line);
        read.map_err(PeerError::files("read what the shell said"))?;
        let said: Value = serde_json::from_str(&line).map_err(|error| PeerError::Files {
            doing: "read what the shell said",
            source: error.into(),
        })?;
        let text = |key: &str| said[key].as_str().unwrap_or_default().to_owned();
        Ok(Said {
            code: said["code"].as_i64().unwrap_or(-1),
            out: text("out"),
            err: text("err"),
        })
    }
}

impl Drop for OpenStackShell {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
