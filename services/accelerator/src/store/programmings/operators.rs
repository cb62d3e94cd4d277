//! Programming a free device on an operator's request.

use berth_http::request_id::random_uuid;
use berth_store::{Disposition, Retryable, SqlError, SqlTimestamp, Statement, Transaction, Work};
use berth_wire::accelerator::Program;
use uuid::Uuid;

use super::{ProgrammingStep, insert};
use crate::store::AcceleratorTableError;

/// Why an operator's programming was not begun.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProgramError {
    #[error("Deployable not found with uuid={0}")]
    NotFound(Uuid),
    #[error(
        "Deployable {uuid} cannot be programmed: its host {host} programs no devices ([accelerators] program_hook is not set there)"
    )]
    NotProgrammable { uuid: Uuid, host: String },
    #[error("Deployable {uuid} cannot be programmed now: {reason}")]
    Unfit { uuid: Uuid, reason: String },
    #[error(transparent)]
    Read(#[from] AcceleratorTableError),
}

impl From<SqlError> for ProgramError {
    fn from(error: SqlError) -> Self {
        Self::Read(error.into())
    }
}

impl Retryable for ProgramError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Read(error) => error.disposition(),
            _ => Disposition::Fatal,
        }
    }
}

/// Starts programming a free device; returns the UUID of the programming.
pub(crate) struct BeginProgram {
    pub(crate) deployable: Uuid,
    pub(crate) image: Uuid,
    pub(crate) deadline: SqlTimestamp,
}

impl Work for BeginProgram {
    type Output = Uuid;
    type Error = ProgramError;

    async fn run(&self, tx: &mut Transaction) -> Result<Uuid, ProgramError> {
        let uuid = self.deployable;
        let sql = "SELECT d.id, v.hostname, d.vanished, d.health, d.health_reason, d.programmable, \
                   EXISTS (SELECT 1 FROM attach_handles h WHERE h.deployable_id = d.id AND h.arq_id IS NOT NULL), \
                   EXISTS (SELECT 1 FROM programmings p WHERE p.deployable_id = d.id AND p.ended = 0) \
                   FROM deployables d JOIN devices v ON v.id = d.device_id WHERE d.uuid = ?";
        let found = tx.row(Statement::new(sql).bind(uuid.to_string())).await?;
        let row = found.ok_or(ProgramError::NotFound(uuid))?;
        if row.int(5)? == 0 {
            let host = row.text(1)?;
            return Err(ProgramError::NotProgrammable { uuid, host });
        }
        let unhealthy = row.text(3)? == "bad";
        let reason = if row.int(2)? != 0 {
            Some("its device no longer exists".to_owned())
        } else if unhealthy {
            let reason = row.opt_text(4)?;
            let reason = reason.unwrap_or_else(|| "no reason given".to_owned());
            Some(format!("it is not healthy: {reason}"))
        } else if row.int(6)? != 0 {
            Some("accelerator requests hold it".to_owned())
        } else if row.int(7)? != 0 {
            Some("it is being programmed".to_owned())
        } else {
            None
        };
        if let Some(reason) = reason {
            return Err(ProgramError::Unfit { uuid, reason });
        }
        let programming = random_uuid();
        let step = ProgrammingStep {
            arq: 0,
            deployable: row.int(0)?,
            program: Some(Program::BitstreamId(self.image.to_string())),
        };
        insert(tx, programming, programming, &step, None, self.deadline).await?;
        Ok(programming)
    }
}

/// How far an operator's programming is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProgrammingProgress {
    InProgress,
    Done,
    Failed(String),
}

/// The progress of a programming. It has failed if its device vanished.
pub(crate) async fn progress(
    tx: &mut Transaction,
    uuid: Uuid,
) -> Result<ProgrammingProgress, AcceleratorTableError> {
    let sql = "SELECT ended, failure FROM programmings WHERE uuid = ?";
    let Some(row) = tx.row(Statement::new(sql).bind(uuid.to_string())).await? else {
        return Ok(ProgrammingProgress::Failed(
            "its device went away".to_owned(),
        ));
    };
    Ok(match (row.int(0)?, row.opt_text(1)?) {
        (0, _) => ProgrammingProgress::InProgress,
        (_, None) => ProgrammingProgress::Done,
        (_, Some(reason)) => ProgrammingProgress::Failed(reason),
    })
}
