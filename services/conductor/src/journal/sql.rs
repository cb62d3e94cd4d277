//! [`SqlBootJournal`]: the journal as the SQLite file `conductor.db` in `state_path`.

use std::collections::BTreeSet;
use std::path::Path;

use berth_model::{ArqUuid, ConsumerUuid, DeviceProfileName};
use berth_store::Statement;
use berth_workflow::{
    AcceptOutcome, Journal, JournalError, JournalFuture, StepDetail as _, UnreadableRecord,
};
use serde::Serialize;
use uuid::Uuid;

use super::schema::{ReadOwner, open};
use super::{
    BootGoal, BootJournal, BootRecord, BootRecords, BootStep, BootStepDetail, BootStepRecord,
    FailedAttempt, LatePort,
};
use crate::BootRequest;

const OPEN_GUESTS: &str = concat!("SELECT uuid FROM guest WHERE ", open!(), " ORDER BY uuid");
const GUESTS_WITH_INTERFACES: &str =
    "SELECT DISTINCT guest FROM step WHERE step = 'port_binding' ORDER BY guest";
const ARQS: &str = "SELECT guest, detail FROM step WHERE step = 'arqs' AND detail <> ''";

/// Rows whose UUID does not have the form that this release writes.
const UNIDENTIFIED: &str = "SELECT quote(uuid) FROM guest WHERE typeof(uuid) <> 'text' OR length(uuid) <> 36 \
                        OR uuid GLOB '*[^0-9a-f-]*' LIMIT 1";

/// The journal in a file. Only one process can have it open.
#[derive(Debug, Clone)]
pub struct SqlBootJournal {
    journal: Journal<BootRecord>,
    owner: Uuid,
}

impl SqlBootJournal {
    /// Opens `conductor.db` in the folder, creates it if it is missing, and checks it.
    ///
    /// Errors: Another conductor has it open, it is damaged, it is not a journal, a later release wrote
    /// it, or I/O failed.
    pub async fn open(state_path: &Path) -> Result<Self, JournalError> {
        Self::over(Journal::open(state_path).await?).await
    }

    /// An in-memory journal, for tests.
    pub async fn in_memory() -> Result<Self, JournalError> {
        Self::over(Journal::in_memory().await?).await
    }

    async fn over(journal: Journal<BootRecord>) -> Result<Self, JournalError> {
        let owner = journal.file().write(&ReadOwner).await?;
        Ok(Self { journal, owner })
    }

    pub async fn close(&self) {
        self.journal.file().close().await;
    }

    /// Whether the record of a guest has data for its config drive.
    async fn has_config_drive(&self, uuid: ConsumerUuid) -> Result<bool, JournalError> {
        let sql = "SELECT 1 FROM guest WHERE uuid = ? AND config_drive IS NOT NULL";
        let select = Statement::new(sql).bind(uuid.to_string());
        Ok(!self.journal.file().rows(select).await?.is_empty())
    }

    /// Runs a statement on the tables of the conductor.
    fn execute(&self, statement: Statement) -> JournalFuture<'_, ()> {
        Box::pin(self.journal.file().execute(vec![statement]))
    }

    fn unreadable(&self, guest: String, reason: String) -> UnreadableRecord {
        let path = self.path();
        UnreadableRecord {
            path,
            guest,
            reason,
        }
    }

    /// The guests that a statement selects. Rows without a valid UUID are skipped.
    async fn uuids(&self, statement: &'static str) -> Result<Vec<ConsumerUuid>, JournalError> {
        let rows = self.journal.file().rows(Statement::new(statement)).await?;
        let guests = rows.iter().filter_map(|row| row.text(0).ok()?.parse().ok());
        Ok(guests.collect())
    }

    /// The first `N` text columns of all rows.
    async fn texts<const N: usize>(
        &self,
        statement: &'static str,
    ) -> Result<Vec<[String; N]>, JournalError> {
        let file = self.journal.file();
        let rows = file.rows(Statement::new(statement)).await?;
        let mut texts = Vec::with_capacity(rows.len());
        for row in &rows {
            let mut of_row = [const { String::new() }; N];
            for (place, text) in of_row.iter_mut().enumerate() {
                *text = row.text(place).map_err(|source| file.failed(source))?;
            }
            texts.push(of_row);
        }
        Ok(texts)
    }
}

impl BootJournal for SqlBootJournal {
    fn path(&self) -> String {
        self.journal.file().path().to_owned()
    }

    fn owner(&self) -> Uuid {
        self.owner
    }

    fn guests(&self) -> JournalFuture<'_, BootRecords> {
        Box::pin(self.journal.records(None))
    }

    fn open_guests(&self) -> JournalFuture<'_, Vec<ConsumerUuid>> {
        Box::pin(self.uuids(OPEN_GUESTS))
    }

    fn guests_with_interfaces(&self) -> JournalFuture<'_, Vec<ConsumerUuid>> {
        Box::pin(self.uuids(GUESTS_WITH_INTERFACES))
    }

    fn arqs(&self) -> JournalFuture<'_, BTreeSet<ArqUuid>> {
        Box::pin(async move {
            let mut requests = BTreeSet::new();
            for [guest, detail] in self.texts::<2>(ARQS).await? {
                match BootStepDetail::from_text(detail) {
                    Ok(BootStepDetail::Requests(of_step)) => requests.extend(of_step.into_keys()),
                    Ok(_) => {}
                    Err(reason) => {
                        return Err(JournalError::Unreadable(self.unreadable(guest, reason)));
                    }
                }
            }
            Ok(requests)
        })
    }

    fn unidentified_guest(&self) -> JournalFuture<'_, Option<UnreadableRecord>> {
        Box::pin(async move {
            let guests = self.texts(UNIDENTIFIED).await?;
            let guest = guests.into_iter().next();
            Ok(guest.map(|[guest]| self.unreadable(guest, "its UUID is invalid".to_owned())))
        })
    }

    fn guest(&self, uuid: ConsumerUuid) -> JournalFuture<'_, Option<BootRecord>> {
        Box::pin(self.journal.record(uuid))
    }

    fn guests_of<'a>(&'a self, uuids: &'a [ConsumerUuid]) -> JournalFuture<'a, BootRecords> {
        Box::pin(self.journal.records(Some(uuids)))
    }

    fn accept<'a>(&'a self, request: &'a BootRequest) -> JournalFuture<'a, AcceptOutcome> {
        Box::pin(async move {
            let (uuid, (request, config_drive)) = (request.uuid(), request.to_journal());
            let sql = "INSERT INTO guest (uuid, request, config_drive, course) VALUES (?, ?, ?, ?)";
            let insert = Statement::new(sql)
                .bind(uuid.to_string())
                .bind(&request)
                .bind(config_drive)
                .bind(text(&BootGoal::Boot));
            self.journal.accept(uuid, &request, insert).await
        })
    }

    fn set_goal<'a>(&'a self, uuid: ConsumerUuid, goal: &'a BootGoal) -> JournalFuture<'a, ()> {
        let ending = i64::from(*goal == BootGoal::Delete);
        let needs_drive = matches!(goal, BootGoal::Boot | BootGoal::Undo { .. });
        let sql = "UPDATE guest SET course = ?, ending = ?, \
                   config_drive = CASE WHEN ? THEN config_drive ELSE NULL END \
                   WHERE uuid = ? AND ending <= ?";
        let statement = Statement::new(sql)
            .bind(text(goal))
            .bind(ending)
            .bind(i64::from(needs_drive))
            .bind(uuid.to_string())
            .bind(ending);
        Box::pin(async move {
            // Cutting the log costs several writes to the disk, and most guests have no config drive.
            let drops_drive = !needs_drive && self.has_config_drive(uuid).await?;
            self.journal.change(uuid, vec![statement]).await?;
            if drops_drive {
                self.journal.file().cut_log().await;
            }
            Ok(())
        })
    }

    fn begin_next_attempt<'a>(
        &'a self,
        uuid: ConsumerUuid,
        failed: &'a FailedAttempt,
    ) -> JournalFuture<'a, ()> {
        let sql = "UPDATE guest SET course = ?, attempt = attempt + 1, \
                   failures = json_insert(failures, '$[#]', json(?)) WHERE uuid = ? AND ending = 0";
        let statement = Statement::new(sql)
            .bind(text(&BootGoal::Boot))
            .bind(text(failed))
            .bind(uuid.to_string());
        Box::pin(self.journal.change(uuid, vec![statement]))
    }

    fn record_step<'a>(
        &'a self,
        uuid: ConsumerUuid,
        attempt: u32,
        step: BootStep,
        record: &'a BootStepRecord,
    ) -> JournalFuture<'a, ()> {
        let statement = Journal::<BootRecord>::step_statement(uuid, &(attempt, step), record);
        Box::pin(self.journal.change(uuid, vec![statement]))
    }

    fn delete_guest(&self, uuid: ConsumerUuid) -> JournalFuture<'_, ()> {
        Box::pin(self.journal.delete(uuid))
    }

    fn record_lost_arqs<'a>(&'a self, profile: &'a DeviceProfileName) -> JournalFuture<'a, ()> {
        let sql = "INSERT INTO stray (profile) VALUES (?) ON CONFLICT DO NOTHING";
        self.execute(Statement::new(sql).bind(profile.as_str()))
    }

    fn lost_arq_profiles(&self) -> JournalFuture<'_, Vec<DeviceProfileName>> {
        Box::pin(async move {
            let names = self
                .texts("SELECT profile FROM stray ORDER BY profile")
                .await?;
            let names = names.iter().map(|[name]| DeviceProfileName::new(name));
            let file = self.journal.file();
            Result::map_err(names.collect(), |error| file.damaged(error))
        })
    }

    fn clear_lost_arqs<'a>(&'a self, profile: &'a DeviceProfileName) -> JournalFuture<'a, ()> {
        let sql = "DELETE FROM stray WHERE profile = ?";
        self.execute(Statement::new(sql).bind(profile.as_str()))
    }

    fn record_late_claim(&self, guest: ConsumerUuid) -> JournalFuture<'_, ()> {
        let sql = "INSERT INTO late_claim (guest) VALUES (?) ON CONFLICT DO NOTHING";
        self.execute(Statement::new(sql).bind(guest.to_string()))
    }

    fn late_claims(&self) -> JournalFuture<'_, Vec<ConsumerUuid>> {
        Box::pin(self.uuids("SELECT guest FROM late_claim ORDER BY guest"))
    }

    fn clear_late_claim(&self, guest: ConsumerUuid) -> JournalFuture<'_, ()> {
        let sql = "DELETE FROM late_claim WHERE guest = ?";
        self.execute(Statement::new(sql).bind(guest.to_string()))
    }

    fn record_late_port<'a>(&'a self, late: &'a LatePort) -> JournalFuture<'a, ()> {
        let sql = "INSERT INTO late_port (guest, project) VALUES (?, ?) ON CONFLICT DO NOTHING";
        let statement = Statement::new(sql).bind(late.guest.to_string());
        self.execute(statement.bind(late.project.as_str()))
    }

    fn late_ports(&self) -> JournalFuture<'_, Vec<LatePort>> {
        Box::pin(async move {
            let rows = self
                .texts("SELECT guest, project FROM late_port ORDER BY guest")
                .await?;
            let late = rows.into_iter().filter_map(|[guest, project]| {
                let guest = guest.parse().ok()?;
                Some(LatePort { guest, project })
            });
            Ok(late.collect())
        })
    }

    fn clear_late_port(&self, guest: ConsumerUuid) -> JournalFuture<'_, ()> {
        let sql = "DELETE FROM late_port WHERE guest = ?";
        self.execute(Statement::new(sql).bind(guest.to_string()))
    }

    fn try_write(&self) -> JournalFuture<'_, ()> {
        let insert = "INSERT INTO stray (profile) VALUES ('') ON CONFLICT DO NOTHING";
        let delete = "DELETE FROM stray WHERE profile = ''";
        let statements = [insert, delete].map(Statement::new);
        Box::pin(self.journal.file().execute(statements.into()))
    }
}

fn text<T: Serialize>(value: &T) -> String {
    String::from_utf8_lossy(&berth_wire::encode(value)).into_owned()
}
