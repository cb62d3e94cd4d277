//! `berth scheduler explain`: schedules one request without a claim, and explains the result.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use berth_compose::hosts::refused;
use berth_conductor::Plugins;
use berth_config::regular_file;
use berth_config::regular_file::bounded;
use berth_output::{API, ErrorCode, ExitCode, Failure};
use berth_scheduler::custom_plugins::CustomPlugins;
use berth_scheduler_cases::{DryRunCase, DryRunError, WhatIf};
use berth_scheduler_explain::{Explanation, RequestOutcome};
use berth_wire::conductor::DecisionShown;
use serde_json::json;

use super::format::DocumentFormat;
use crate::commands::guest::decisions_of;
use crate::context::Context;

/// The limit of a file's size in bytes, several times the size of a large cloud's hosts.
pub(super) const LARGEST: u64 = 1 << 30;

/// The arguments of `berth scheduler explain`.
#[derive(Debug, clap::Args)]
pub(super) struct DecisionArguments {
    /// The JSON file of the request; - is standard input.
    #[arg(value_name = "REQUEST", conflicts_with = "decision")]
    file: Option<PathBuf>,
    /// Explain the recorded decisions for this guest instead, by its UUID or name.
    #[arg(
        long = "request",
        value_name = "GUEST",
        conflicts_with_all = ["plugins", "case", "host", "without_filter", "option", "flavor_extra_spec", "hint", "ignore_host"]
    )]
    pub(super) decision: Option<String>,
    /// The id of the case to explain, if the file has several.
    #[arg(long, value_name = "ID")]
    case: Option<String>,
    /// Run the configured plugins ([scheduler_plugin_NAME]) that the request's options enable, as for a guest. Without
    /// this option no plugin can be enabled.
    #[arg(long)]
    plugins: bool,
    /// Show only this host, with the result of every filter.
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// What if this filter were not enabled? May be repeated.
    #[arg(long, value_name = "NAME", help_heading = "What if")]
    without_filter: Vec<String>,
    /// What if this option had this value? A list is `a, b` or JSON. May be repeated.
    #[arg(long, value_name = "SECTION.NAME=VALUE", value_parser = pair, help_heading = "What if")]
    option: Vec<(String, String)>,
    /// What if the flavor had this extra spec? May be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair, help_heading = "What if")]
    flavor_extra_spec: Vec<(String, String)>,
    /// What if the user gave this hint? May be repeated; repeating a name gives the hint several values.
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair, help_heading = "What if")]
    hint: Vec<(String, String)>,
    /// What if this host were left out? May be repeated.
    #[arg(long, value_name = "NAME", help_heading = "What if")]
    ignore_host: Vec<String>,
    /// The format of the output.
    #[arg(short = 'f', long = "format", value_enum, default_value_t = DocumentFormat::Text, help_heading = "Output")]
    format: DocumentFormat,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("should be KEY=VALUE".to_owned()),
    }
}

/// Explains one request and prints the result.
///
/// Errors: the file cannot be read or contains no request, a What-if option does not apply, or a plugin fails.
pub(super) fn run(
    asked: &DecisionArguments,
    context: &Context,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    let file = asked.file.as_deref().ok_or_else(|| {
        let what = "name the JSON file of a request, or a guest";
        Failure::new(ErrorCode::Usage, what).hint("berth scheduler explain --request GUEST")
    })?;
    let text = read(file)?;
    let what_if = WhatIf {
        without_filters: asked.without_filter.clone(),
        options: asked.option.clone(),
        extra_specs: asked.flavor_extra_spec.clone(),
        hints: asked.hint.clone(),
        ignore_hosts: asked.ignore_host.clone(),
    };
    let refused = |error: DryRunError| failure(file, &error);
    let case = DryRunCase::read(&text, asked.case.as_deref(), &what_if).map_err(refused)?;
    let (case, own) = match asked.plugins {
        true => with_plugins(case, context)?,
        false => (case, CustomPlugins::new()),
    };
    let run = case.ready(&own).map_err(refused)?;
    let is_placed = match &asked.host {
        Some(host) => {
            let verdicts = run.verdicts(host).map_err(refused)?;
            match asked.format {
                DocumentFormat::Text => writeln!(out, "{verdicts}")?,
                other => other.print(&json!({"api": API, "host": verdicts}), out)?,
            }
            verdicts.passes()
        }
        None => {
            let explanation = run.explain();
            match asked.format {
                DocumentFormat::Text => writeln!(out, "{explanation}")?,
                other => other.print(&json!({"api": API, "explanation": explanation}), out)?,
            }
            matches!(explanation.outcome, RequestOutcome::Selected { .. })
        }
    };
    Ok(match is_placed {
        true => ExitCode::Done,
        false => ExitCode::Refused,
    })
}

/// Adds the answers of the plugins to the case's hosts.
fn with_plugins(
    mut case: DryRunCase,
    context: &Context,
) -> Result<(DryRunCase, CustomPlugins), Failure> {
    let loaded = context.load()?;
    context.block_on(async {
        let configured = loaded.config.scheduler_plugins();
        let plugins = Plugins::open(configured, case.options()).await;
        let plugins = plugins.map_err(|error| refused(&error))?;
        let (request, hosts) = case.question();
        let answers = plugins.ask(request, hosts).await;
        Ok((case.with_plugin_answers(answers), plugins.custom_plugins()))
    })?
}

/// Explains the recorded decisions for a guest.
///
/// Errors: the conductor does not answer, or has no decision for the guest.
pub(super) fn decided(
    guest: &str,
    asked: &DecisionArguments,
    context: &Context,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    let loaded = context.load()?;
    let decisions = context.block_on(decisions_of(guest, &loaded.config))??;
    let read = |one: &DecisionShown| serde_json::from_value(one.explanation.clone());
    let explanations: Result<Vec<Explanation>, _> = decisions.iter().map(read).collect();
    let explanations = explanations.map_err(|error| {
        let what = "the conductor's records cannot be read: the conductor has another release";
        Failure::caused(ErrorCode::OtherRelease, what, &error)
    })?;
    match asked.format {
        DocumentFormat::Text => {
            for (decision, explanation) in decisions.iter().zip(&explanations) {
                writeln!(out, "{}\n{explanation}", decision.created_at)?;
            }
        }
        other => other.print(&json!({"api": API, "decisions": decisions}), out)?,
    }
    let is_placed = |one: &Explanation| matches!(one.outcome, RequestOutcome::Selected { .. });
    Ok(match explanations.last().is_some_and(is_placed) {
        true => ExitCode::Done,
        false => ExitCode::Refused,
    })
}

/// Reads a file's text, or standard input.
///
/// Errors: it cannot be read.
pub(super) fn read(path: &Path) -> Result<String, Failure> {
    let content = match path == Path::new("-") {
        true => bounded(io::stdin().lock(), LARGEST),
        false => regular_file::read(path, LARGEST).map(|(content, _)| content),
    };
    let text = content.and_then(|content| {
        let text = String::from_utf8(content)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        // Some editors write a byte order mark before a text.
        Ok(match text.strip_prefix('\u{feff}') {
            Some(text) => text.to_owned(),
            None => text,
        })
    });
    text.map_err(|error| {
        let what = format!("{} cannot be read", path.display());
        let failure = Failure::caused(ErrorCode::File, what, &error);
        match error.kind() {
            io::ErrorKind::FileTooLarge => failure.hint("at most 1 GiB is read"),
            io::ErrorKind::InvalidData => failure.hint("write it in UTF-8"),
            _ => failure,
        }
    })
}

fn failure(path: &Path, error: &DryRunError) -> Failure {
    let what = format!("{} cannot be scheduled", path.display());
    match error {
        DryRunError::NoHost { .. } | DryRunError::NoCase { .. } | DryRunError::Refused(_) => {
            Failure::caused(ErrorCode::Refused, what, error)
        }
        DryRunError::WhichCase { .. } => {
            Failure::caused(ErrorCode::Usage, what, error).hint("choose one of them with --case ID")
        }
        DryRunError::WhatIf(_) | DryRunError::CaseAlone { .. } => {
            Failure::caused(ErrorCode::Usage, what, error)
        }
        DryRunError::Case(_) => Failure::caused(ErrorCode::Usage, what, error),
    }
}
