//! Command line options that set options of the configuration: `--machine` and `--state-dir`. They win over files and
//! environment, also when a running service reloads its configuration.

use std::path::{Path, absolute};

use berth_output::ErrorCode;

use super::problem::ConfigProblem;
use super::setting::{self, Setting, WrittenValue};
use super::sources::Sources;

/// The settings of the command line, and its problems.
#[derive(Default)]
pub(super) struct CommandLine {
    pub settings: Vec<Setting>,
    pub problems: Vec<ConfigProblem>,
}

/// Reads the command line options that are settings.
pub(super) fn read(sources: &Sources) -> CommandLine {
    let mut read = CommandLine::default();
    if let Some(file) = &sources.machine {
        let option = "option --machine";
        read.set(option, "", "compute_driver", "fake");
        read.path(option, "fake", "machine", file);
    }
    if let Some(folder) = &sources.state_dir {
        let option = "option --state-dir";
        read.path(option, "", "state_path", folder);
        read.path(option, "agent", "admin_socket", &folder.join("agent.sock"));
    }
    read
}

impl CommandLine {
    /// A path on the command line may be relative to the working directory, unlike in a file.
    fn path(&mut self, option: &str, section: &str, key: &str, path: &Path) {
        let full = absolute(path).ok();
        match full.as_deref().and_then(Path::to_str) {
            Some(text) => self.set(option, section, key, text),
            None => self.problems.push(ConfigProblem {
                at: option.to_owned(),
                key: setting::name(section, key),
                wrong: "the path is empty or not UTF-8".to_owned(),
                right: "name another one".to_owned(),
                code: ErrorCode::BadValue,
            }),
        }
    }

    fn set(&mut self, option: &str, section: &str, key: &str, text: &str) {
        let at = option.to_owned();
        let written = WrittenValue {
            value: text.into(),
            at: at.clone(),
            elements_at: Vec::new(),
        };
        match setting::admit(section, key, &at, &written) {
            Ok(setting) => self.settings.push(setting),
            Err(problem) => self.problems.push(problem),
        }
    }
}
