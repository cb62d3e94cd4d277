//! `berth reshape plan`: what a startup would do, without doing it.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use berth_agent_tracker::options::Rename;
use berth_agent_tracker::startup::{self, Preview, ReviewedPlan, StartupError};
use berth_model::NodeName;
use serde::{Deserialize, Serialize};

use crate::compose::placement_for_commands;
use crate::context::Context;
use crate::exit::ExitCode;
use crate::failure::{ErrorCode, Failure};
use crate::listing::API;
use crate::nodes::{Host, Intent};
use crate::progress::consumers;
use crate::regular_file;

/// `berth reshape`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show what a startup would do on this host. Nothing is changed.
    #[command(after_help = "Examples:
  berth reshape plan
  berth reshape plan --out plan.json && berth agent --expect-plan plan.json
  berth reshape plan --detailed-exitcode; echo $?    0 in sync, 2 plain update, 75 reshape needed, 76 would be refused")]
    Plan {
        /// Write the plan to this file; `berth agent --expect-plan` then does exactly that or refuses.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Tell by the exit code what is pending: 0 nothing, 2 a plain update, 75 a reshape, 76 a reshape that is refused.
        #[arg(long)]
        detailed_exitcode: bool,
        /// How to print it.
        #[arg(short, long, value_enum, default_value_t = PlanFormat::Text)]
        format: PlanFormat,
    },
}

/// The forms of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum PlanFormat {
    /// For people: the same text as in the log.
    Text,
    /// For scripts.
    Json,
}

/// The largest plan file that is read, in bytes: a line for each consumer, and room.
const LARGEST_PLAN: u64 = 64 << 20;

/// A plan as it is kept in a file: per node the text and the generations it was made on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanFile {
    api: String,
    nodes: BTreeMap<String, PlannedNode>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlannedNode {
    pending: String,
    text: String,
    generations: BTreeMap<String, i64>,
}

impl PlanFile {
    /// Reads a file that `berth reshape plan --out` wrote.
    ///
    /// # Errors
    /// The file cannot be read or is no plan.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let (text, _) = regular_file::read(path, LARGEST_PLAN).map_err(|error| {
            Failure::caused(
                ErrorCode::File,
                format!("the plan {shown} cannot be read"),
                &error,
            )
        })?;
        serde_json::from_slice(&text).map_err(|error| {
            Failure::caused(ErrorCode::BadValue, format!("{shown} is no plan"), &error)
                .mend("make it with `berth reshape plan --out FILE`")
        })
    }

    /// What the agent is to compare with, per node.
    ///
    /// # Errors
    /// A node's name or a provider's UUID is none.
    pub fn reviewed(&self) -> Result<BTreeMap<NodeName, ReviewedPlan>, Failure> {
        let wrong = |what: String| Failure::new(ErrorCode::BadValue, format!("the plan: {what}"));
        self.nodes
            .iter()
            .map(|(name, planned)| {
                let node = NodeName::new(name).map_err(|error| wrong(error.to_string()))?;
                let generations = planned
                    .generations
                    .iter()
                    .map(|(uuid, generation)| {
                        let uuid = uuid.parse().map_err(|error| wrong(format!("{error}")))?;
                        Ok((uuid, *generation))
                    })
                    .collect::<Result<_, Failure>>()?;
                Ok((
                    node,
                    ReviewedPlan {
                        text: planned.text.clone(),
                        generations,
                    },
                ))
            })
            .collect()
    }
}

/// Runs `berth reshape`.
///
/// # Errors
/// The host or Placement cannot be asked, or no lawful reshape exists.
pub fn run(
    arguments: &Arguments,
    context: &Context,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    let Command::Plan {
        out: file,
        detailed_exitcode,
        format,
    } = &arguments.command;
    let config = context.load()?.config;
    let placement = placement_for_commands(&config)?;
    let (plan, worst) = context.block_on(async {
        let mut host = Host::observe(&config, &placement, Rename::Refuse, Intent::Look).await?;
        let mut nodes = BTreeMap::new();
        let mut worst = ExitCode::Done;
        for (identity, tracker) in &mut host.nodes {
            let bar = consumers(identity.node.as_str());
            let now = tokio::time::Instant::now();
            let previewed = startup::preview(tracker, &host.view, host.service, now, &*bar).await;
            let (preview, reviewed) = previewed.map_err(|error| failed(&error))?;
            let (pending, code) = match preview {
                Preview::InSync { .. } => ("in sync", ExitCode::Done),
                Preview::Update { .. } => ("update", ExitCode::UpdatePending),
                Preview::Reshape(_) => ("reshape", ExitCode::ReshapeNeeded),
            };
            worst = worst.max(code);
            let generations = reviewed
                .generations
                .iter()
                .map(|(uuid, g)| (uuid.to_string(), *g))
                .collect();
            let planned = PlannedNode {
                pending: pending.to_owned(),
                text: reviewed.text,
                generations,
            };
            nodes.insert(identity.node.to_string(), planned);
        }
        Ok::<_, Failure>((
            PlanFile {
                api: API.to_owned(),
                nodes,
            },
            worst,
        ))
    })??;
    print(&plan, *format, out)?;
    if let Some(file) = file {
        write(&plan, file)?;
    }
    Ok(if *detailed_exitcode {
        worst
    } else {
        ExitCode::Done
    })
}

fn print(plan: &PlanFile, format: PlanFormat, out: &mut dyn Write) -> Result<(), Failure> {
    match format {
        PlanFormat::Json => writeln!(out, "{}", json(plan)?)?,
        PlanFormat::Text => {
            for (node, planned) in &plan.nodes {
                writeln!(out, "node {node}: {}", planned.text)?;
            }
        }
    }
    Ok(())
}

fn json(plan: &PlanFile) -> Result<String, Failure> {
    serde_json::to_string_pretty(plan)
        .map_err(|error| Failure::caused(ErrorCode::Bug, "the plan cannot be written", &error))
}

fn write(plan: &PlanFile, file: &Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::caused(
            ErrorCode::File,
            format!("cannot write {}", file.display()),
            &error,
        )
    };
    std::fs::write(file, json(plan)?).map_err(failed)
}

/// A startup's error as a command's failure.
pub(crate) fn failed(error: &StartupError) -> Failure {
    let code = if error.is_reshape_failed() {
        ErrorCode::ReshapeFailed
    } else {
        error
            .placement()
            .map_or(ErrorCode::Unavailable, ErrorCode::of_placement)
    };
    Failure::caused(code, "the node's startup would fail", error)
}
