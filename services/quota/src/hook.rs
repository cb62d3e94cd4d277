//! The quota hook: a program of the operator that decides whether a project may create servers, in addition to the
//! limits.
//!
//! The program reads a [`QuotaQuestion`] as JSON from standard input, and writes `{"allowed": true}` or `{"allowed":
//! false, "reason": "…"}` to standard output, with exit status 0. Its run time, its output and the number of concurrent
//! runs are limited. It is asked for one request of a project at a time, so that each question counts the servers of the
//! request before.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use berth_hook::{Hook, HookError, HookInput};
use berth_keyed_tasks::{KeyGuard, KeyedTasks};
use berth_options::choices;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::amounts::QuotaAmounts;

/// The schema identifier in the question.
pub const QUOTA_SCHEMA: &str = "berth-quota/1";

/// The number of concurrent runs. Waiting counts towards the time budget.
const AT_ONCE: usize = 8;

/// How long a request waits for other requests of its project.
const PROJECT_TURN: Duration = Duration::from_secs(30);

/// The maximum size of an answer, in bytes.
const LARGEST_ANSWER: usize = 64 << 10;

/// The maximum length of a reason that the caller sees, in characters.
const REASON: usize = 500;

choices! {
    /// What happens to a request if the program fails.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum OnQuotaFailure {
        /// The request is refused (fail closed).
        Refuse = "refuse",
        /// The request is allowed (fail open).
        Allow = "allow",
    }
}

/// The options of the hook (`[quota]`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaOptions {
    pub program: PathBuf,
    /// The time budget for one request.
    pub time_budget: Duration,
    pub on_failure: OnQuotaFailure,
}

/// The input of the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QuotaQuestion {
    pub schema: &'static str,
    /// The request id, as in the logs.
    pub request_id: String,
    /// The project of the servers.
    pub project_id: String,
    pub user_id: String,
    /// The number of servers.
    pub count: u32,
    pub flavor: String,
    pub vcpus: u32,
    /// Memory of each in MiB.
    pub ram_mb: u64,
    /// Root disk of each in GiB.
    pub root_gb: u64,
    /// Ephemeral disk of each in GiB.
    pub ephemeral_gb: u64,
    /// Swap disk of each in MiB.
    pub swap_mb: u64,
    pub extra_specs: BTreeMap<String, String>,
    /// The requested availability zone.
    pub availability_zone: Option<String>,
    /// The project's usage without these servers, with those of all requests before.
    pub used: QuotaAmounts,
}

/// The output of the program.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct QuotaAnswer {
    allowed: bool,
    #[serde(default)]
    reason: Option<String>,
}

/// The request was refused.
#[derive(Debug, thiserror::Error)]
pub enum QuotaRefused {
    /// The program refused it.
    #[error("Quota exceeded: {reason}")]
    No {
        /// The program's reason, on one line.
        reason: String,
    },
    /// The program failed, and the hook fails closed.
    #[error("The quota of the project cannot be checked now.")]
    Unheard,
}

/// Why the program was not heard.
#[derive(Debug, thiserror::Error)]
enum Unheard {
    #[error(transparent)]
    Hook(#[from] HookError),
    #[error("no free slot within {budget:?}: {AT_ONCE} quota hooks are running")]
    NoTurn { budget: Duration },
    #[error("the answer is invalid: {0}")]
    Answer(berth_wire::BodyError),
}

/// The program does not exist, or may not be looked at.
#[derive(Debug, thiserror::Error)]
#[error("the quota hook {} cannot be used: {source}", program.display())]
pub struct QuotaHookError {
    program: PathBuf,
    source: std::io::Error,
}

/// The operator's program, and the turns of requests for it.
pub struct QuotaHook {
    hook: Hook,
    on_failure: OnQuotaFailure,
    turns: Semaphore,
    /// Locked by the project whose request is being decided.
    projects: KeyedTasks<String>,
}

impl fmt::Debug for QuotaHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = self.hook.program.display();
        write!(f, "QuotaHook({program}, {})", self.on_failure)
    }
}

impl QuotaHook {
    /// Checks that the program exists. It is not run.
    ///
    /// Errors: the program does not exist, or this process may not look at it.
    pub fn open(options: QuotaOptions) -> Result<Self, QuotaHookError> {
        if let Err(source) = std::fs::metadata(&options.program) {
            let program = options.program;
            return Err(QuotaHookError { program, source });
        }
        Ok(Self {
            hook: Hook {
                name: "quota hook",
                program: options.program,
                deadline: options.time_budget,
            },
            on_failure: options.on_failure,
            turns: Semaphore::new(AT_ONCE),
            projects: KeyedTasks::default(),
        })
    }

    /// Waits until no other request of the project is being decided. The guard is held until the servers are stored.
    /// Whoever waits for too long is refused, whatever happens if the program fails: many requests at once must not
    /// be a way around it.
    ///
    /// Errors: the wait took longer than 30 seconds.
    pub async fn turn(&self, project: &str) -> Result<KeyGuard<String>, QuotaRefused> {
        let turn = timeout(PROJECT_TURN, self.projects.lock(project.to_owned()));
        turn.await.map_err(|_| QuotaRefused::Unheard)
    }

    /// Asks the program whether servers may be created.
    ///
    /// Errors: the program refused, or it failed and the hook fails closed.
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
        let query = HookInput {
            arguments: &[],
            document: &document,
            most: LARGEST_ANSWER,
        };
        let written = hook.answer(query).await?;
        berth_wire::decode(&written).map_err(Unheard::Answer)
    }
}

/// The reason without line ends and control characters, or a default text.
fn one_line(reason: &str) -> String {
    let text = reason.replace(char::is_control, " ");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.is_empty() {
        true => "the quota hook refused without a reason".to_owned(),
        false => text.chars().take(REASON).collect(),
    }
}
