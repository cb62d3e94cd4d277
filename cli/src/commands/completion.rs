//! `berth completion`: prints the completion script of a shell, generated from the command line's definition.

use std::io::Write;

use berth_output::{ExitCode, Failure};
use clap_complete::Shell;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  berth completion bash > /etc/bash_completion.d/berth\n  \
                        berth completion fish > ~/.config/fish/completions/berth.fish"
)]
pub struct CompletionArguments {
    /// The shell to complete for.
    #[arg(value_enum)]
    pub shell: ShellName,
}

/// The shells with a completion script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ShellName {
    /// Completions for GNU Bash.
    Bash,
    /// Completions for the Z shell.
    Zsh,
    /// Completions for the fish shell.
    Fish,
}

/// Prints the completion script.
///
/// Errors: the output cannot be written.
pub fn run(
    arguments: &CompletionArguments,
    mut command_line: clap::Command,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    let shell = match arguments.shell {
        ShellName::Bash => Shell::Bash,
        ShellName::Zsh => Shell::Zsh,
        ShellName::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command_line, "berth", &mut script);
    out.write_all(&script)?;
    Ok(ExitCode::Done)
}
