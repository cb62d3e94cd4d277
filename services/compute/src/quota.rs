//! Quotas: there are none of the API's own. A program of the operator's may be asked before servers are made whether their project
//! may have them, and says yes, or no with a sentence.
//!
//! It reads a [`QuotaQuestion`] as JSON on its standard input, and answers `{"allowed": true}` or `{"allowed": false, "reason": "…"}`
//! on its standard output with exit status 0. What it may use is bounded: its time, what it writes, how many of it run at a time.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use berth_hook::{Asked, Hook, HookError, Untrusted, is_superuser, trusted};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

/// What the question's form is called.
pub const QUOTA_SCHEMA: &str = "berth-quota/1";

/// So many run at a time; others wait for their turn, which is of their time.
const AT_ONCE: usize = 8;

/// The most bytes of an answer.
const LARGEST_ANSWER: usize = 64 << 10;

/// The most characters of a reason that its asker is told.
const REASON: usize = 500;

/// What becomes of a request that the program was not heard about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnQuotaFailure {
    /// It is refused: it fails closed.
    Refuse,
    /// It goes on: it fails open.
    Allow,
}

/// The program, as it is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaOptions {
    pub program: PathBuf,
    /// How long it may take for one request.
    pub time_budget: Duration,
    /// What becomes of a request that it was not heard about.
    pub on_failure: OnQuotaFailure,
}

/// What a project has, or asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct QuotaAmounts {
    pub instances: u64,
    /// Processors of all of them.
    pub cores: u64,
    /// Memory of all of them in MiB.
    pub ram_mb: u64,
}

/// What the program is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QuotaQuestion {
    /// [`QUOTA_SCHEMA`].
    pub schema: &'static str,
    /// The request, as logs call it.
    pub request_id: String,
    /// Whose the servers are to be.
    pub project_id: String,
    pub user_id: String,
    /// So many at once.
    pub count: u32,
    pub flavor: String,
    pub vcpus: u32,
    /// Memory of each in MiB.
    pub ram_mb: u64,
    /// Root disk of each in GiB.
    pub root_gb: u64,
    /// Ephemeral disk of each in GiB.
    pub ephemeral_gb: u64,
    pub extra_specs: BTreeMap<String, String>,
    /// The availability zone that is asked for.
    pub availability_zone: Option<String>,
    /// What the project has without them. Requests at the same time see the same.
    pub used: QuotaAmounts,
}

/// What the program answers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct QuotaAnswer {
    allowed: bool,
    #[serde(default)]
    reason: Option<String>,
}

/// The servers are not to be made.
#[derive(Debug, thiserror::Error)]
pub enum QuotaRefused {
    /// The program says no.
    #[error("Quota exceeded: {reason}")]
    No {
        /// In its words, on one line.
        reason: String,
    },
    /// It was not heard, and it fails closed.
    #[error("Whether the project may have more servers cannot be asked now.")]
    Unheard,
}

/// Why the program was not heard.
#[derive(Debug, thiserror::Error)]
enum Unheard {
    #[error(transparent)]
    Hook(#[from] HookError),
    #[error("it had no turn within {budget:?}: {AT_ONCE} of it run already")]
    NoTurn { budget: Duration },
    #[error("its answer is none: {0}")]
    Answer(berth_wire::BodyError),
}

#[derive(Debug)]
pub struct QuotaHook {
    hook: Hook,
    on_failure: OnQuotaFailure,
    turns: Semaphore,
}

impl QuotaHook {
    /// Looks at the program; it is not run.
    pub fn open(options: QuotaOptions) -> Result<Self, Untrusted> {
        match trusted(&options.program) {
            Err(error @ Untrusted::Unseen { .. }) => return Err(error),
            Err(error) if is_superuser() => return Err(error),
            Ok(()) | Err(_) => {}
        }
        Ok(Self {
            hook: Hook {
                called: "quota hook",
                program: options.program,
                deadline: options.time_budget,
            },
            on_failure: options.on_failure,
            turns: Semaphore::new(AT_ONCE),
        })
    }

    /// Whether servers may be made.
    pub async fn ask(&self, question: &QuotaQuestion) -> Result<(), QuotaRefused> {
        match self.answer(question).await {
            Ok(QuotaAnswer { allowed: true, .. }) => Ok(()),
            Ok(QuotaAnswer { reason, .. }) => Err(QuotaRefused::No {
                reason: one_line(&reason.unwrap_or_default()),
            }),
            Err(unheard) => {
                let (project, on_failure) = (question.project_id.as_str(), self.on_failure);
                let error = &unheard as &dyn std::error::Error;
                tracing::warn!(project, ?on_failure, error, "the quota hook was not heard");
                match self.on_failure {
                    OnQuotaFailure::Allow => Ok(()),
                    OnQuotaFailure::Refuse => Err(QuotaRefused::Unheard),
                }
            }
        }
    }

    async fn answer(&self, question: &QuotaQuestion) -> Result<QuotaAnswer, Unheard> {
        let budget = self.hook.deadline;
        let begun = Instant::now();
        // The turns are never closed.
        let Ok(Ok(_turn)) = timeout(budget, self.turns.acquire()).await else {
            return Err(Unheard::NoTurn { budget });
        };
        let hook = Hook {
            deadline: budget.saturating_sub(begun.elapsed()),
            ..self.hook.clone()
        };
        let document = berth_wire::encode(question);
        let asked = Asked {
            arguments: &[],
            document: &document,
            most: LARGEST_ANSWER,
        };
        let written = hook.answer(asked).await?;
        berth_wire::decode(&written).map_err(Unheard::Answer)
    }
}

/// A reason without line ends and control characters; of one that says nothing, that.
fn one_line(reason: &str) -> String {
    let text = reason.replace(char::is_control, " ");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.is_empty() {
        true => "the quota hook says no, and not why".to_owned(),
        false => text.chars().take(REASON).collect(),
    }
}
