//! The file of a reviewed plan: `berth reshape plan --out` writes it, `berth agent --expect-plan` reads it.

use std::collections::BTreeMap;
use std::path::Path;

use berth_agent_tracker::startup::ReviewedPlan;
use berth_config::regular_file;
use berth_model::NodeName;
use berth_output::{API, ErrorCode, Failure};
use serde::{Deserialize, Serialize};

/// The largest plan file that is read, in bytes; it has a line for each consumer.
const LARGEST_PLAN: u64 = 64 << 20;

/// The content of a plan file: for each node the text of the plan and the generations that it is based on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanFile {
    api: String,
    pub nodes: BTreeMap<String, PlannedNode>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedNode {
    pub pending: String,
    pub text: String,
    pub generations: BTreeMap<String, i64>,
}

impl PlanFile {
    #[must_use]
    pub fn new(nodes: BTreeMap<String, PlannedNode>) -> Self {
        Self {
            api: API.to_owned(),
            nodes,
        }
    }

    pub fn json(&self) -> Result<String, Failure> {
        serde_json::to_string_pretty(self)
            .map_err(|error| Failure::caused(ErrorCode::Bug, "cannot write the plan", &error))
    }

    pub fn write(&self, file: &Path) -> Result<(), Failure> {
        berth_files::replace(file, self.json()?.as_bytes(), 0o644).map_err(|error| {
            let what = format!("cannot write {}", file.display());
            let above = file.parent().filter(|it| !it.as_os_str().is_empty());
            match above.filter(|above| !above.is_dir()) {
                Some(above) => Failure::new(ErrorCode::File, what)
                    .cause(format!("the directory {} does not exist", above.display())),
                None => Failure::caused(ErrorCode::File, what, &error),
            }
        })
    }

    /// Reads a file that `berth reshape plan --out` wrote.
    ///
    /// Errors: The file cannot be read or is not a plan.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let (text, _) = regular_file::read(path, LARGEST_PLAN).map_err(|error| {
            Failure::caused(
                ErrorCode::File,
                format!("cannot read the plan {shown}"),
                &error,
            )
        })?;
        serde_json::from_slice(&text).map_err(|error| {
            Failure::caused(
                ErrorCode::BadValue,
                format!("{shown} is not a plan"),
                &error,
            )
            .hint("create it with `berth reshape plan --out FILE`")
        })
    }

    /// The plan of each node, which the agent compares with its own.
    ///
    /// Errors: A node's name or a provider's UUID is invalid.
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
