//! The program `berth`: its command line and its subcommands.
//!
//! A command line is read by [`arguments`], and [`run`] calls the subcommand of [`commands`] with a `Context`: where the
//! configuration is, and a runtime. The parts that a command works with come from `berth_compose`, the texts that it prints from
//! `berth_output`.
//!
//! A new subcommand is a file in `commands` with its arguments and a `run`, a variant of [`arguments::Command`] and an arm in
//! `dispatch`.

pub mod arguments;
pub mod commands;
pub mod context;
pub mod logging;
mod policy_list;
pub mod reference;

use std::ffi::OsString;
use std::io::{self, Write};
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;

use berth_model::nearest_name;
use berth_output::escape::{EscapingWriter, PipeWriter};
use berth_output::{ErrorCode, ExitCode, Failure, colour};
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory as _, Parser as _};

use arguments::{Cli, Command};
use commands::{
    accelerator, agent, completion, compute, config, controller, demo, device, doctor, explain,
    guest, identity, man, placement, provider, reconcile, reshape, scheduler, tls, up,
};
use context::{Context, quoted};

/// The whole program: reads the process's arguments, runs the subcommand, gives the exit code.
#[must_use]
pub fn main() -> std::process::ExitCode {
    panic::set_hook(Box::new(|panic| print_error(&bug(panic))));
    guarded(|| {
        run(
            std::env::args_os(),
            &mut PipeWriter::new(io::stdout().lock()),
        )
    })
    .into()
}

/// A panic is a bug; the panic hook has already reported it.
fn guarded(body: impl FnOnce() -> ExitCode) -> ExitCode {
    panic::catch_unwind(AssertUnwindSafe(body)).unwrap_or(ExitCode::Bug)
}

/// Runs one command line; a failure is printed on standard error.
pub fn run(arguments: impl IntoIterator<Item = OsString>, out: &mut dyn Write) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => return not_parsed(&error),
    };
    let outcome = logging::start(&cli.log, cli.command.default_log_level())
        .and_then(|()| dispatch(&cli.command, &cli.context(), out))
        .and_then(|code| Ok(out.flush().map(|()| code)?));
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            print_error(&failure.explain());
            failure.exit()
        }
    }
}

fn dispatch(
    command: &Command,
    context: &Context,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    match command {
        Command::Up(arguments) => up::run(arguments, context, out),
        Command::Controller(arguments) => controller::run(arguments, context, out),
        Command::Agent(arguments) => agent::run(arguments, context, out),
        Command::Accelerator(arguments) => accelerator::run(arguments, context, out),
        Command::Scheduler(arguments) => scheduler::run(arguments, context, out),
        Command::Compute(arguments) => compute::run(arguments, context, out),
        Command::Identity(arguments) => identity::run(arguments, context, out),
        Command::Placement(arguments) => placement::run(arguments, context, out),
        Command::Guest(arguments) => guest::run(arguments, context, out),
        Command::Device(arguments) => device::run(arguments, context, out),
        Command::Reconcile(arguments) => reconcile::run(arguments, context, out),
        Command::Reshape(arguments) => reshape::run(arguments, context, out),
        Command::Provider(arguments) => provider::run(arguments, context, out),
        Command::Demo(arguments) => demo::run(arguments, context, out),
        Command::Config(arguments) => config::run(arguments, context, out),
        Command::Doctor(arguments) => doctor::run(arguments, context, out),
        Command::Explain(arguments) => explain::run(arguments, out),
        Command::Tls(arguments) => tls::run(arguments, out),
        Command::Completion(arguments) => completion::run(arguments, Cli::command(), out),
        Command::Man(arguments) => man::run(arguments, Cli::command()),
    }
}

/// Help and version are no errors; the rest is, with clap's own message and suggestion.
fn not_parsed(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // If this cannot be written, no output is left for an error.
        let _ = error.print();
        return ExitCode::Done;
    }
    print_error(&usage_text(error));
    ExitCode::Usage
}

/// Clap's text in the form of all errors: its tip is the hint.
fn usage_text(error: &clap::Error) -> String {
    let text = error
        .to_string()
        .replace("\n\n  tip: ", "\nhint: ")
        .replace("\n  tip: ", "\nhint: ");
    if let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg)
        && !argument.starts_with('-')
        && argument.ends_with(".toml")
    {
        let file = quoted(Path::new(argument));
        return text.replacen(
            '\n',
            &format!("\nhint: to read this file: --config {file}\n"),
            1,
        );
    }
    // Clap has no tip for `berth help upp`.
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else {
        return text;
    };
    let command = Cli::command();
    let names = command.get_subcommands().map(clap::Command::get_name);
    match nearest_name(name, names) {
        Some(near) if !text.contains("hint: ") => text.replacen(
            '\n',
            &format!("\nhint: a similar subcommand exists: '{near}'\n"),
            1,
        ),
        _ => text,
    }
}

fn print_error(text: &str) {
    // If this cannot be written, no output is left for an error.
    let is_kept = |byte| matches!(byte, b'\n' | b'\t');
    let coloured = colour::is_on();
    let mut raw = io::stderr().lock();
    for line in text.lines() {
        let (word, rest) = match coloured {
            true => colour::split(line),
            false => (None, line),
        };
        let _ = write!(raw, "{}", word.unwrap_or_default());
        let mut err = EscapingWriter::new(&mut raw, is_kept);
        let _ = writeln!(err, "{rest}");
        let _ = err.flush();
    }
}

fn bug(panic: &panic::PanicHookInfo<'_>) -> String {
    let place = panic
        .location()
        .map_or_else(String::new, |at| format!(" at {}:{}", at.file(), at.line()));
    let words = panic.payload_as_str().unwrap_or("no words");
    Failure::new(
        ErrorCode::Bug,
        format!("this is a bug in berth{place}: {words}"),
    )
    .hint("report this message with the version that `berth --version` prints")
    .explain()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_with_70() {
        assert_eq!(guarded(|| panic!("planted")), ExitCode::Bug);
        assert_eq!(guarded(|| ExitCode::Done), ExitCode::Done);
    }
}
