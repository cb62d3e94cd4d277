//! [`Context`]: the global options of the command line, with what every subcommand does with them: load the configuration, print a
//! command to repeat, and run a future.

use std::env;
use std::future::Future;
use std::path::{Path, absolute};
use std::time::Duration;

use berth_config::{ConfigRefusal, LoadedConfig, Sources};
use berth_output::{ErrorCode, Failure};

/// The global options of the command line.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// The files and options that the configuration is read from.
    pub sources: Sources,
}

impl Context {
    /// Reads and checks the configuration.
    pub fn load(&self) -> Result<LoadedConfig, Failure> {
        berth_config::load(&self.sources).map_err(|refused| self.refused(&refused))
    }

    /// The failure of a command whose configuration is refused.
    #[must_use]
    pub fn refused(&self, refused: &ConfigRefusal) -> Failure {
        refused.failure(&self.check_command())
    }

    /// The command that checks this configuration.
    #[must_use]
    pub fn check_command(&self) -> String {
        format!("{} config check", self.invocation())
    }

    /// How a user calls this program again with the same configuration, quoted for a shell, for commands that
    /// are printed as hints.
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

    /// Runs a short future on the calling thread.
    pub fn block_on<F: Future>(&self, future: F) -> Result<F::Output, Failure> {
        run_on(&mut tokio::runtime::Builder::new_current_thread(), future)
    }

    /// Runs the future of a long-running process, such as the agent, on the calling thread, and its spawned tasks on two
    /// other threads. The future handles only signals and the service manager's watchdog, and spawns everything else. So
    /// a slow disk that blocks one thread stops neither the watchdog nor the other tasks.
    pub fn serve<F: Future>(&self, future: F) -> Result<F::Output, Failure> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        run_on(builder.worker_threads(2).thread_name("berth"), future)
    }
}

/// How long blocking calls may still run after the future has ended.
const BLOCKING_CALLS_TIMEOUT: Duration = Duration::from_secs(5);

fn run_on<F: Future>(
    builder: &mut tokio::runtime::Builder,
    future: F,
) -> Result<F::Output, Failure> {
    let runtime = builder.enable_all().build().map_err(|error| {
        // A runtime needs threads and file descriptors. It fails to start only at a limit of these.
        Failure::caused(ErrorCode::Unavailable, "cannot start the runtime", &error)
            .hint("allow more open files (ulimit -n; LimitNOFILE in the unit)")
    })?;
    let output = runtime.block_on(future);
    // Dropping the runtime would wait for every blocking call, and some disks never answer.
    runtime.shutdown_timeout(BLOCKING_CALLS_TIMEOUT);
    Ok(output)
}

/// `berth` if PATH finds this program under that name, else its path.
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

/// A path quoted for a shell.
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
