//! `berth man`: writes the manual pages, one for each subcommand, from the command line's definition.

use std::path::PathBuf;

use berth_output::{ErrorCode, ExitCode, Failure};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  berth man --dir /usr/local/share/man/man1")]
pub struct ManArguments {
    /// The directory to write to; created if missing.
    #[arg(long, value_name = "DIRECTORY")]
    pub dir: PathBuf,
}

/// Writes `berth.1`, `berth-config.1` and so on.
///
/// Errors: the directory cannot be created or written.
pub fn run(arguments: &ManArguments, command_line: clap::Command) -> Result<ExitCode, Failure> {
    berth_files::make_folders(&arguments.dir, 0o755)
        .and_then(|()| clap_mangen::generate_to(command_line, &arguments.dir))
        .map_err(|error| {
            Failure::caused(
                ErrorCode::File,
                format!("cannot write to {}", arguments.dir.display()),
                &error,
            )
        })?;
    Ok(ExitCode::Done)
}
