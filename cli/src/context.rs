//! What every subcommand gets from the command line: the sources of the configuration, and a runtime.

use std::env;
use std::future::Future;
use std::path::{Path, absolute};
use std::time::Duration;

use berth_config::{LoadedConfig, Sources};
use berth_output::{ErrorCode, Failure};

/// The global options, read.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// Where the configuration is read from.
    pub sources: Sources,
}

impl Context {
    /// Reads and checks the configuration.
    pub fn load(&self) -> Result<LoadedConfig, Failure> {
        Ok(berth_config::load(&self.sources)?)
    }

    /// How this program is called again with the same configuration, for a shell: what a command prints for people to paste.
    #[must_use]
    pub fn invocation(&self) -> String {
        let paths = [
            ("--config", &self.sources.file),
            ("--config-dir", &self.sources.directory),
            ("--machine", &self.sources.machine),
            ("--state-dir", &self.sources.state_dir),
        ];
        let mut words = vec![program()];
        for (option, path) in paths {
            if let Some(path) = path {
                words.push(option.to_owned());
                words.push(quoted(&absolute(path).unwrap_or_else(|_| path.clone())));
            }
        }
        words.join(" ")
    }

    /// Runs a short conversation on a runtime of its own, on this thread.
    pub fn block_on<F: Future>(&self, future: F) -> Result<F::Output, Failure> {
        on(&mut tokio::runtime::Builder::new_current_thread(), future)
    }

    /// Runs a node until its end. Beside this thread, which holds the signals and the service manager's watchdog, two others
    /// do the work: a disk that is slow to answer one of them stops neither the other nor the signs of life.
    pub fn serve<F: Future>(&self, future: F) -> Result<F::Output, Failure> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        on(builder.worker_threads(2).thread_name("berth"), future)
    }
}

/// How long calls that block are waited for at the end.
const LAST_CALLS: Duration = Duration::from_secs(5);

fn on<F: Future>(builder: &mut tokio::runtime::Builder, future: F) -> Result<F::Output, Failure> {
    let runtime = builder.enable_all().build().map_err(|error| {
        // Nothing but the limits of the host can keep it from starting.
        Failure::caused(ErrorCode::Unavailable, "cannot start the runtime", &error)
            .mend("allow more open files (ulimit -n; LimitNOFILE in the unit)")
    })?;
    let output = runtime.block_on(future);
    // Dropped, it would wait for each call to a disk that is under way, and some disks never answer.
    runtime.shutdown_timeout(LAST_CALLS);
    Ok(output)
}

/// `berth`, where that is found on PATH, else the path of this program.
fn program() -> String {
    let Ok(this) = env::current_exe() else {
        return "berth".to_owned();
    };
    let folders = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&folders)
        .map(|folder| folder.join("berth"))
        .find(|path| path.is_file());
    match found {
        Some(path) if path.canonicalize().is_ok_and(|path| path == this) => "berth".to_owned(),
        _ => quoted(&this),
    }
}

/// A path as a word of a shell.
pub(crate) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%,".contains(c);
    if text.chars().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        for (path, word) in [
            ("/var/lib/berth", "/var/lib/berth"),
            ("/a b", "'/a b'"),
            ("/it's", "'/it'\\''s'"),
        ] {
            assert_eq!(quoted(Path::new(path)), word);
        }
    }
}
