//! `berth reshape plan`: shows what the agent's next start would change in Placement.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use berth_agent_tracker::options::Rename;
use berth_agent_tracker::startup::{self, Preview};
use berth_compose::nodes::{HostNodes, Intent};
use berth_compose::placement_failure::startup_failure;
use berth_compose::placement_for_commands;
use berth_compose::plan_file::{PlanFile, PlannedNode};
use berth_output::progress::consumers;
use berth_output::{ExitCode, Failure};

use crate::context::Context;

#[derive(Debug, clap::Args)]
pub struct ReshapeArguments {
    #[command(subcommand)]
    command: ReshapeCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ReshapeCommand {
    /// Show what the agent's next start would change in Placement. Nothing is changed.
    #[command(after_help = "Examples:
  berth reshape plan
  berth reshape plan --out plan.json && berth agent --expect-plan plan.json
  berth reshape plan --detailed-exitcode; echo $?    0 in sync, 2 plain update, 75 reshape needed, 76 would be refused")]
    Plan {
        /// Write the plan to this file; `berth agent --expect-plan` then carries out exactly this plan or refuses.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Report the pending change by the exit code: 0 none, 2 a plain update, 75 a reshape, 76 a refused reshape.
        #[arg(long)]
        detailed_exitcode: bool,
        /// The format of the plan.
        #[arg(short, long, value_enum, default_value_t = PlanFormat::Text)]
        format: PlanFormat,
    },
}

/// The formats of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum PlanFormat {
    /// The same text as in the log.
    Text,
    /// One JSON document, for scripts.
    Json,
}

pub fn run(
    arguments: &ReshapeArguments,
    context: &Context,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    let ReshapeCommand::Plan {
        out: file,
        detailed_exitcode,
        format,
    } = &arguments.command;
    let config = context.load()?.config;
    let placement = placement_for_commands(&config)?;
    let (plan, worst) = context.block_on(async {
        let mut host =
            HostNodes::observe(&config, &placement, Rename::Refuse, Intent::Observe).await?;
        let mut nodes = BTreeMap::new();
        let mut worst = ExitCode::Done;
        for (identity, tracker) in &mut host.nodes {
            let bar = consumers(identity.node.as_str());
            let now = tokio::time::Instant::now();
            let previewed = startup::preview(tracker, &host.view, host.service, now, &*bar).await;
            let (preview, reviewed) = previewed.map_err(|error| startup_failure(&error))?;
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
        Ok::<_, Failure>((PlanFile::new(nodes), worst))
    })??;
    print(&plan, *format, out)?;
    if let Some(file) = file {
        plan.write(file)?;
    }
    Ok(if *detailed_exitcode {
        worst
    } else {
        ExitCode::Done
    })
}

fn print(plan: &PlanFile, format: PlanFormat, out: &mut dyn Write) -> Result<(), Failure> {
    match format {
        PlanFormat::Json => writeln!(out, "{}", plan.json()?)?,
        PlanFormat::Text => {
            for (node, planned) in &plan.nodes {
                writeln!(out, "node {node}: {}", planned.text)?;
            }
        }
    }
    Ok(())
}
