//! Runs OpenStack's command line client, `openstack`, against the services that a test names.

use serde_json::{Value, json};

use super::python::PythonProgram;
use super::{PeerError, write};
use crate::scratch::Scratch;

/// The plugin with the shell's commands for accelerators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceleratorPlugin {
    /// python-openstackclient's own, as releases since 10.4 take them.
    OpenStackClient,
    /// python-cyborgclient's, as the releases before took them.
    CyborgClient,
}

/// A shell that runs one command after another. It ends with the value, or with the thread that started it.
#[derive(Debug)]
pub struct OpenStackShell(PythonProgram);

/// How a command ended.
#[derive(Clone, Debug)]
pub struct CommandOutput {
    pub code: i64,
    /// What it wrote to its output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

impl CommandOutput {
    /// The output as JSON, as commands with `-f json` write it; null where it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_default()
    }
}

impl OpenStackShell {
    /// Starts one. `clouds` are the entries of its clouds.yaml, by their names for `--os-cloud`.
    pub fn start(plugin: AcceleratorPlugin, clouds: &Value) -> Result<Self, PeerError> {
        // What is JSON is YAML.
        Self::start_with(plugin, &json!({ "clouds": clouds }).to_string())
    }

    /// The same with the text of a clouds.yaml.
    pub fn start_with(plugin: AcceleratorPlugin, clouds: &str) -> Result<Self, PeerError> {
        let scratch = Scratch::new().map_err(PeerError::files("make a directory for the shell"))?;
        write(&scratch.join("clouds.yaml"), clouds)?;
        let arguments: &[&str] = match plugin {
            AcceleratorPlugin::OpenStackClient => &[],
            AcceleratorPlugin::CyborgClient => &["cyborgclient"],
        };
        PythonProgram::start("tests/peers/openstack_shell.py", arguments, scratch).map(Self)
    }

    /// Runs `openstack` with these words.
    pub fn run(&mut self, words: &[&str]) -> Result<CommandOutput, PeerError> {
        let answer = self.0.ask(&json!(words))?;
        let text = |key: &str| answer[key].as_str().unwrap_or_default().to_owned();
        Ok(CommandOutput {
            code: answer["code"].as_i64().unwrap_or(-1),
            out: text("out"),
            err: text("err"),
        })
    }
}
