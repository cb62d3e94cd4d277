//! Runs OpenStack's command line client, `openstack`, against the services that a test names.

use std::sync::{Mutex, PoisonError};

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

/// A shell that runs one command after another. A dropped shell is reused by the next test with the same plugin, because
/// starting one takes more than a second of processor time.
#[derive(Debug)]
pub struct OpenStackShell {
    plugin: AcceleratorPlugin,
    /// Some, until the value is dropped.
    program: Option<PythonProgram>,
}

/// The shells that wait for the next test. They end with the process.
static IDLE: Mutex<Vec<(AcceleratorPlugin, PythonProgram)>> = Mutex::new(Vec::new());

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
        let program = match Self::take_idle(plugin) {
            Some(program) => program,
            None => {
                let scratch =
                    Scratch::new().map_err(PeerError::files("make a directory for the shell"))?;
                let arguments: &[&str] = match plugin {
                    AcceleratorPlugin::OpenStackClient => &[],
                    AcceleratorPlugin::CyborgClient => &["cyborgclient"],
                };
                PythonProgram::start("tests/peers/openstack_shell.py", arguments, scratch)?
            }
        };
        write(&program.folder().join("clouds.yaml"), clouds)?;
        Ok(Self {
            plugin,
            program: Some(program),
        })
    }

    fn take_idle(plugin: AcceleratorPlugin) -> Option<PythonProgram> {
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        let at = idle.iter().position(|(it, _)| *it == plugin)?;
        Some(idle.swap_remove(at).1)
    }

    /// Runs `openstack` with these words.
    pub fn run(&mut self, words: &[&str]) -> Result<CommandOutput, PeerError> {
        let program = self.program.as_mut().expect("taken only when dropped");
        let answer = program.ask(&json!(words))?;
        let text = |key: &str| answer[key].as_str().unwrap_or_default().to_owned();
        Ok(CommandOutput {
            code: answer["code"].as_i64().unwrap_or(-1),
            out: text("out"),
            err: text("err"),
        })
    }
}

impl Drop for OpenStackShell {
    fn drop(&mut self) {
        // A failed test may leave a command that has not ended, so its shell is not reused.
        if let Some(program) = self.program.take().filter(|_| !std::thread::panicking()) {
            IDLE.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push((self.plugin, program));
        }
    }
}
