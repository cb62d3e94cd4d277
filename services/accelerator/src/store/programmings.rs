//! Programming of devices by hosts.
//!
//! A bind that needs programming holds its handles in `BindStarted` until the hosts have reported the result of every
//! programming; then all of its requests are bound or all have failed. Each request of such a bind has a row, even one
//! that needs no programming. A programming for an operator has a row without a request.

mod operators;

use std::collections::{BTreeMap, BTreeSet};

use berth_http::request_id::random_uuid;
use berth_model::{ArqPhase, ArqUuid, ConsumerUuid};
use berth_store::{Row, SqlError, SqlTimestamp, Statement, Transaction, Value, Work};
use berth_wire::accelerator::{
    AttachHandleInfoBody, DueProgramming, DueProgrammings, Program, ProgrammedHandle,
};
use berth_wire::compute::EventStatus;
use uuid::Uuid;

use super::arqs::{self, ArqError, ArqRow, ArqScope, ArqTransitions, write_state};
use super::{AcceleratorTableError, events, foreign, handles, now, typed};

pub(crate) use operators::{BeginProgram, ProgramError, ProgrammingProgress, progress};

const TABLE: &str = "programmings";
/// The maximum length of a stored reason, in characters.
const LONGEST: usize = 400;
const BITSTREAM: &str = "bitstream_id";
const FUNCTION: &str = "function_id";

/// What one request of a bind waits for.
pub(crate) struct ProgrammingStep {
    pub(crate) arq: i64,
    pub(crate) deployable: i64,
    pub(crate) program: Option<Program>,
}

fn columns(program: Option<&Program>) -> (Value, Value) {
    match program {
        None => (Value::Null, Value::Null),
        Some(Program::BitstreamId(image)) => (BITSTREAM.into(), image.into()),
        Some(Program::FunctionId(function)) => (FUNCTION.into(), function.into()),
    }
}

fn program(
    row: &Row,
    kind: usize,
    subject: usize,
) -> Result<Option<Program>, AcceleratorTableError> {
    let (Some(kind), Some(subject)) = (row.opt_text(kind)?, row.opt_text(subject)?) else {
        return Ok(None);
    };
    match kind.as_str() {
        BITSTREAM => Ok(Some(Program::BitstreamId(subject))),
        FUNCTION => Ok(Some(Program::FunctionId(subject))),
        other => Err(foreign(other, TABLE, "kind")),
    }
}

/// Begins the programmings of a bind: they are due until `deadline`.
pub(crate) async fn begin(
    tx: &mut Transaction,
    steps: &[ProgrammingStep],
    deadline: SqlTimestamp,
) -> Result<(), SqlError> {
    let bind = random_uuid();
    for step in steps {
        insert(tx, bind, random_uuid(), step, Some(step.arq), deadline).await?;
    }
    Ok(())
}

async fn insert(
    tx: &mut Transaction,
    bind: Uuid,
    uuid: Uuid,
    step: &ProgrammingStep,
    arq: Option<i64>,
    deadline: SqlTimestamp,
) -> Result<(), SqlError> {
    let (kind, subject) = columns(step.program.as_ref());
    let sql = "INSERT INTO programmings (uuid, bind_uuid, deployable_id, arq_id, kind, subject, ended, \
               deadline, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let insert = Statement::new(sql)
        .bind(uuid.to_string())
        .bind(bind.to_string())
        .bind(step.deployable)
        .bind(arq)
        .bind(kind)
        .bind(subject)
        .bind(i64::from(step.program.is_none()))
        .bind(deadline)
        .bind(now());
    tx.execute(insert).await?;
    if step.program.is_some() {
        // Until programming succeeds, the content of the device is unknown.
        programmed(tx, step.deployable, None).await?;
    }
    Ok(())
}

async fn programmed(
    tx: &mut Transaction,
    deployable: i64,
    image: Option<&str>,
) -> Result<(), SqlError> {
    let sql = "UPDATE deployables SET bitstream_id = ?, updated_at = ? WHERE id = ?";
    let update = Statement::new(sql).bind(image).bind(now()).bind(deployable);
    tx.execute(update).await?;
    Ok(())
}

/// The binds of requests that wait.
const BINDS_OF: &str = "SELECT DISTINCT bind_uuid FROM programmings WHERE arq_id IN";

/// Removes requests that are being deleted from their binds, which may end the binds.
pub(crate) async fn leave(tx: &mut Transaction, rows: &[ArqRow]) -> Result<(), ArqError> {
    let ids: Vec<i64> = rows.iter().map(|row| row.id).collect();
    let head = Statement::new(BINDS_OF);
    let binds = texts(&tx.rows_in(&head, &ids, "").await?)?;
    if binds.is_empty() {
        return Ok(());
    }
    let head = Statement::new("DELETE FROM programmings WHERE arq_id IN");
    tx.execute_in(&head, &ids).await?;
    for bind in binds {
        settle(tx, &bind).await?;
    }
    Ok(())
}

fn texts(rows: &[Row]) -> Result<Vec<String>, SqlError> {
    rows.iter().map(|row| row.text(0)).collect()
}

/// Ends a bind if all of its programmings have ended or one has failed. Returns whether it did.
async fn settle(tx: &mut Transaction, bind: &str) -> Result<bool, ArqError> {
    let sql = "SELECT a.uuid, p.ended, p.failure, p.deployable_id, p.kind, p.subject FROM programmings p \
               JOIN accelerator_requests a ON a.id = p.arq_id WHERE p.bind_uuid = ? ORDER BY p.id";
    let found = tx.rows(Statement::new(sql).bind(bind)).await?;
    let mut uuids: Vec<ArqUuid> = Vec::new();
    let mut images: BTreeMap<i64, Option<String>> = BTreeMap::new();
    let (mut whole, mut failure) = (true, None);
    for row in &found {
        uuids.push(typed(&row.text(0)?, "accelerator_requests", "uuid")?);
        whole &= row.int(1)? != 0;
        failure = failure.or(row.opt_text(2)?);
        match program(row, 4, 5)? {
            Some(Program::BitstreamId(image)) => images.insert(row.int(3)?, Some(image)),
            Some(Program::FunctionId(_)) => images.insert(row.int(3)?, None),
            None => None,
        };
    }
    if uuids.is_empty() || !(whole || failure.is_some()) {
        return Ok(false);
    }
    let delete = Statement::new("DELETE FROM programmings WHERE bind_uuid = ?");
    tx.execute(delete.bind(bind)).await?;
    let rows = arqs::of_uuids(tx, &ArqScope::All, &uuids).await?;
    let (end, status) = match &failure {
        None => (ArqPhase::Bound, EventStatus::Completed),
        Some(reason) => {
            tracing::warn!(requests = %list(&uuids), reason, "a bind failed, for a device was not programmed");
            handles::release(tx, &rows).await?;
            (ArqPhase::BindFailed, EventStatus::Failed)
        }
    };
    let mut due_events: Vec<(ConsumerUuid, ArqUuid)> = Vec::new();
    for row in &rows {
        let steps = ArqTransitions::through(row, &[end])?;
        let binding = row.arq.state.binding();
        write_state(tx, row, steps, binding, &row.arq.project_id).await?;
        due_events.extend(binding.map(|binding| (binding.instance, row.arq.uuid)));
    }
    if failure.is_none() {
        for (deployable, image) in images {
            programmed(tx, deployable, image.as_deref()).await?;
        }
    }
    events::insert(tx, &due_events, status).await?;
    Ok(true)
}

fn list(uuids: &[ArqUuid]) -> String {
    let texts: Vec<String> = uuids.iter().map(ToString::to_string).collect();
    texts.join(", ")
}

/// The due programmings of a host, oldest first.
const DUE: &str = "SELECT p.uuid, d.uuid, d.rp_uuid, p.kind, p.subject, a.uuid, h.uuid, h.attach_type, h.attach_info \
     FROM devices v JOIN deployables d ON d.device_id = v.id JOIN programmings p ON p.deployable_id = d.id \
     JOIN attach_handles h ON h.deployable_id = d.id LEFT JOIN accelerator_requests a ON a.id = p.arq_id \
     WHERE v.hostname = ? AND p.ended = 0 AND h.vanished = 0 AND (p.arq_id IS NULL OR h.arq_id = p.arq_id) \
     ORDER BY p.id, h.id";

/// The due programmings of a host.
pub(crate) async fn due(
    tx: &mut Transaction,
    host: &str,
) -> Result<DueProgrammings, AcceleratorTableError> {
    let mut due = DueProgrammings::default();
    for row in tx.rows(Statement::new(DUE).bind(host)).await? {
        let uuid: Uuid = typed(&row.text(0)?, TABLE, "uuid")?;
        let all = &mut due.programmings;
        if all.last().is_none_or(|last| last.uuid != uuid) {
            let arq = row.opt_text(5)?;
            all.push(DueProgramming {
                uuid,
                deployable_uuid: typed(&row.text(1)?, "deployables", "uuid")?,
                rp_uuid: typed(&row.text(2)?, "deployables", "rp_uuid")?,
                program: program(&row, 3, 4)?.ok_or_else(|| foreign("", TABLE, "kind"))?,
                arq_uuid: arq
                    .map(|text| typed(&text, "accelerator_requests", "uuid"))
                    .transpose()?,
                attach_handles: Vec::new(),
            });
        }
        let attach_type = row.text(7)?;
        let info = handles::read_info(&attach_type, &row.text(8)?)?;
        if let Some(last) = all.last_mut() {
            last.attach_handles.push(ProgrammedHandle {
                uuid: typed(&row.text(6)?, "attach_handles", "uuid")?,
                attach_info: AttachHandleInfoBody::from(&info),
                attach_type,
            });
        }
    }
    Ok(due)
}

/// Stores a host's result. A result that no bind waits for changes nothing. Returns whether a bind ended.
pub(crate) struct EndProgramming {
    pub(crate) host: String,
    pub(crate) uuid: Uuid,
    pub(crate) failure: Option<String>,
}

impl Work for EndProgramming {
    type Output = bool;
    type Error = ArqError;

    async fn run(&self, tx: &mut Transaction) -> Result<bool, ArqError> {
        let sql = "SELECT p.id, p.bind_uuid, p.arq_id, p.deployable_id, p.kind, p.subject FROM programmings p \
                   JOIN deployables d ON d.id = p.deployable_id JOIN devices v ON v.id = d.device_id \
                   WHERE p.uuid = ? AND p.ended = 0 AND v.hostname = ?";
        let search = Statement::new(sql)
            .bind(self.uuid.to_string())
            .bind(&self.host);
        let Some(row) = tx.row(search).await? else {
            return Ok(false);
        };
        let failure = self.failure.as_deref().map(short);
        ended(tx, row.int(0)?, failure.as_deref()).await?;
        if row.opt_int(2)?.is_some() {
            return settle(tx, &row.text(1)?).await;
        }
        if let (None, Some(Program::BitstreamId(image))) = (&failure, program(&row, 4, 5)?) {
            programmed(tx, row.int(3)?, Some(&image)).await?;
        }
        Ok(false)
    }
}

async fn ended(tx: &mut Transaction, id: i64, failure: Option<&str>) -> Result<(), SqlError> {
    let sql = "UPDATE programmings SET ended = 1, failure = ? WHERE id = ?";
    tx.execute(Statement::new(sql).bind(failure).bind(id))
        .await?;
    Ok(())
}

/// A reason that can be shown: not empty, on one line, and not too long.
fn short(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.join(" ") {
        empty if empty.is_empty() => "no reason given".to_owned(),
        line => line.chars().take(LONGEST).collect(),
    }
}

const LATE: &str =
    "SELECT id, bind_uuid, arq_id, ended FROM programmings WHERE deadline <= ? ORDER BY deadline";

/// Whether anything is late or forgotten: nothing is locked for that.
pub(crate) async fn any_late(
    tx: &mut Transaction,
    late: &EndLateProgrammings,
) -> Result<bool, SqlError> {
    let sql =
        "SELECT 1 FROM programmings WHERE deadline <= ? AND (ended = 0 OR deadline <= ?) LIMIT 1";
    let search = Statement::new(sql).bind(late.now).bind(late.forget);
    Ok(tx.row(search).await?.is_some())
}

/// Ends late programmings. Returns the number of binds that ended.
pub(crate) struct EndLateProgrammings {
    /// Programmings that were due before this are late.
    pub(crate) now: SqlTimestamp,
    /// Results of operators' programmings older than this are deleted.
    pub(crate) forget: SqlTimestamp,
}

impl Work for EndLateProgrammings {
    type Output = usize;
    type Error = ArqError;

    async fn run(&self, tx: &mut Transaction) -> Result<usize, ArqError> {
        let late = tx.rows(Statement::new(LATE).bind(self.now)).await?;
        let mut binds = BTreeSet::new();
        for row in &late {
            if row.int(3)? == 0 {
                let reason =
                    "the host did not report the result of programming in time (bind_timeout)";
                ended(tx, row.int(0)?, Some(reason)).await?;
            }
            if row.opt_int(2)?.is_some() {
                binds.insert(row.text(1)?);
            }
        }
        let mut settled = 0;
        for bind in binds {
            settled += usize::from(settle(tx, &bind).await?);
        }
        let sql = "DELETE FROM programmings WHERE arq_id IS NULL AND ended = 1 AND deadline <= ?";
        tx.execute(Statement::new(sql).bind(self.forget)).await?;
        Ok(settled)
    }
}
