//! [`SqlBootJournal`]: the journal as the SQLite file `conductor.db` in `state_path`.

use std::collections::BTreeSet;
use std::path::Path;

use berth_model::{ArqUuid, ConsumerUuid, DeviceProfileName};
use berth_store::{JournalFile, SqlError, Statement, Transaction, Work};
use serde::Serialize;
use uuid::Uuid;

use super::rows::read_records;
use super::schema::{JournalCheck, OpenJournal, VERSION, open};
use super::{
    AcceptOutcome, BootGoal, BootJournal, BootJournalError, BootJournalFuture, BootRecord,
    BootRecords, BootStep, BootStepDetail, BootStepRecord, FailedAttempt, UnreadableBootRecord,
};
use crate::BootRequest;

/// File name in `state_path`.
const FILE: &str = "conductor.db";

const GUESTS: &str =
    "SELECT uuid, request, config_drive, course, attempt, failures FROM guest ORDER BY uuid";
const ALL_GUESTS: &str = "SELECT uuid, request, config_drive, course, attempt, failures FROM guest";
const STEPS: &str = "SELECT guest, attempt, step, state, detail FROM step";
const ONE_GUEST: &str =
    "SELECT uuid, request, config_drive, course, attempt, failures FROM guest WHERE uuid = ?";
const ONE_GUESTS_STEPS: &str =
    "SELECT guest, attempt, step, state, detail FROM step WHERE guest = ?";

const OPEN_GUESTS: &str = concat!("SELECT uuid FROM guest WHERE ", open!(), " ORDER BY uuid");
const ARQS: &str = "SELECT guest, detail FROM step WHERE step = 'arqs' AND detail <> ''";

/// Rows whose UUID does not have the form that this release writes.
const UNIDENTIFIED: &str = "SELECT quote(uuid) FROM guest WHERE typeof(uuid) <> 'text' OR length(uuid) <> 36 \
                        OR uuid GLOB '*[^0-9a-f-]*' LIMIT 1";

/// Maximum number of guests in one query.
const BATCH: usize = 500;

/// The journal in a file. Only one process can have it open.
#[derive(Debug, Clone)]
pub struct SqlBootJournal {
    file: JournalFile,
    owner: Uuid,
}

impl SqlBootJournal {
    /// Opens `conductor.db` in the folder, creates it if it is missing, and checks it.
    ///
    /// Errors: Another conductor has it open, it is damaged, it is not a journal, a later release wrote
    /// it, or I/O failed.
    pub async fn open(state_path: &Path) -> Result<Self, BootJournalError> {
        Self::over(JournalFile::open(&state_path.join(FILE)).await?).await
    }

    /// An in-memory journal, for tests.
    pub async fn in_memory() -> Result<Self, BootJournalError> {
        Self::over(JournalFile::in_memory().await?).await
    }

    pub async fn close(&self) {
        self.file.close().await;
    }

    async fn over(file: JournalFile) -> Result<Self, BootJournalError> {
        match file.write(&OpenJournal).await? {
            JournalCheck::Ours(owner) => {
                file.cut_log().await;
                Ok(Self { file, owner })
            }
            JournalCheck::Newer(found) => Err(BootJournalError::Newer {
                path: file.path().to_owned(),
                found,
                known: VERSION,
            }),
            JournalCheck::Other(reason) => Err(file.damaged(reason).into()),
        }
    }

    /// Runs a statement on one guest's rows; fails if the guest does not exist.
    async fn change(
        &self,
        guest: ConsumerUuid,
        statement: Statement,
    ) -> Result<(), BootJournalError> {
        match self.file.write(&ChangeGuest { guest, statement }).await? {
            ChangeOutcome::Applied => Ok(()),
            ChangeOutcome::NoSuchGuest => Err(BootJournalError::Unknown {
                path: self.file.path().to_owned(),
                guest,
            }),
        }
    }

    async fn read(
        &self,
        (guests, steps): (Statement, Statement),
    ) -> Result<BootRecords, BootJournalError> {
        // The transaction ends before the rows are converted, so that it blocks nobody.
        let rows = async {
            let mut tx = self.file.read().await?;
            let guests = tx.rows(guests).await?;
            let steps = tx.rows(steps).await?;
            Ok::<_, SqlError>((guests, steps))
        };
        let (guests, steps) = rows.await.map_err(|source| self.file.failed(source))?;
        Ok(read_records(self.file.path(), &guests, &steps))
    }

    fn unreadable(&self, guest: String, reason: String) -> BootJournalError {
        BootJournalError::Unreadable(UnreadableBootRecord {
            path: self.file.path().to_owned(),
            guest,
            reason,
        })
    }

    /// The guests that a statement selects. Rows without a valid UUID are skipped.
    async fn uuids(&self, statement: &'static str) -> Result<Vec<ConsumerUuid>, BootJournalError> {
        let rows = self.file.rows(Statement::new(statement)).await?;
        let guests = rows.iter().filter_map(|row| row.text(0).ok()?.parse().ok());
        Ok(guests.collect())
    }

    /// The first `N` text columns of all rows.
    async fn texts<const N: usize>(
        &self,
        statement: &'static str,
    ) -> Result<Vec<[String; N]>, BootJournalError> {
        let rows = self.file.rows(Statement::new(statement)).await?;
        let mut texts = Vec::with_capacity(rows.len());
        for row in &rows {
            let mut of_row = [const { String::new() }; N];
            for (place, text) in of_row.iter_mut().enumerate() {
                *text = row.text(place).map_err(|source| self.file.failed(source))?;
            }
            texts.push(of_row);
        }
        Ok(texts)
    }
}

impl BootJournal for SqlBootJournal {
    fn path(&self) -> String {
        self.file.path().to_owned()
    }

    fn owner(&self) -> Uuid {
        self.owner
    }

    fn guests(&self) -> BootJournalFuture<'_, BootRecords> {
        Box::pin(self.read((Statement::new(GUESTS), Statement::new(STEPS))))
    }

    fn open_guests(&self) -> BootJournalFuture<'_, Vec<ConsumerUuid>> {
        Box::pin(async move { self.uuids(OPEN_GUESTS).await })
    }

    fn arqs(&self) -> BootJournalFuture<'_, BTreeSet<ArqUuid>> {
        Box::pin(async move {
            let mut requests = BTreeSet::new();
            for [guest, detail] in self.texts::<2>(ARQS).await? {
                match BootStepDetail::from_text(&detail) {
                    Ok(BootStepDetail::Requests(of_step)) => requests.extend(of_step.into_keys()),
                    Ok(BootStepDetail::Nothing | BootStepDetail::Claim(_)) => {}
                    Err(reason) => return Err(self.unreadable(guest, reason)),
                }
            }
            Ok(requests)
        })
    }

    fn unidentified_guest(&self) -> BootJournalFuture<'_, Option<UnreadableBootRecord>> {
        Box::pin(async move {
            let rows = self.file.rows(Statement::new(UNIDENTIFIED)).await?;
            let Some(row) = rows.first() else {
                return Ok(None);
            };
            let guest = row.text(0).map_err(|source| self.file.failed(source))?;
            Ok(Some(UnreadableBootRecord {
                path: self.path(),
                guest,
                reason: "its UUID is invalid".to_owned(),
            }))
        })
    }

    fn guest(&self, uuid: ConsumerUuid) -> BootJournalFuture<'_, Option<BootRecord>> {
        let one = move |statement| Statement::new(statement).bind(uuid.to_string());
        Box::pin(async move {
            let mut records = self.read((one(ONE_GUEST), one(ONE_GUESTS_STEPS))).await?;
            match records.unreadable.pop() {
                Some(unreadable) => Err(BootJournalError::Unreadable(unreadable)),
                None => Ok(records.readable.pop()),
            }
        })
    }

    fn guests_of<'a>(&'a self, uuids: &'a [ConsumerUuid]) -> BootJournalFuture<'a, BootRecords> {
        Box::pin(async move {
            let mut records = BootRecords::default();
            for some in uuids.chunks(BATCH) {
                let marks = vec!["?"; some.len()].join(", ");
                let uuids = || some.iter().map(ToString::to_string);
                let guests = Statement::new(format!("{ALL_GUESTS} WHERE uuid IN ({marks})"));
                let steps = Statement::new(format!("{STEPS} WHERE guest IN ({marks})"));
                let both = (guests.bind_all(uuids()), steps.bind_all(uuids()));
                let read = self.read(both).await?;
                records.readable.extend(read.readable);
                records.unreadable.extend(read.unreadable);
            }
            records.readable.sort_by_key(|record| record.request.uuid());
            Ok(records)
        })
    }

    fn accept<'a>(&'a self, request: &'a BootRequest) -> BootJournalFuture<'a, AcceptOutcome> {
        {
            let (text, config_drive) = request.to_journal();
            let accept = AcceptRequest {
                uuid: request.uuid(),
                request: text,
                config_drive,
            };
            Box::pin(async move { Ok(self.file.write(&accept).await?) })
        }
    }

    fn set_goal<'a>(&'a self, uuid: ConsumerUuid, goal: &'a BootGoal) -> BootJournalFuture<'a, ()> {
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
            self.change(uuid, statement).await?;
            if !needs_drive {
                self.file.cut_log().await;
            }
            Ok(())
        })
    }

    fn begin_next_attempt<'a>(
        &'a self,
        uuid: ConsumerUuid,
        failed: &'a FailedAttempt,
    ) -> BootJournalFuture<'a, ()> {
        let sql = "UPDATE guest SET course = ?, attempt = attempt + 1, \
                   failures = json_insert(failures, '$[#]', json(?)) WHERE uuid = ? AND ending = 0";
        let statement = Statement::new(sql)
            .bind(text(&BootGoal::Boot))
            .bind(text(failed))
            .bind(uuid.to_string());
        Box::pin(self.change(uuid, statement))
    }

    fn record_step<'a>(
        &'a self,
        uuid: ConsumerUuid,
        attempt: u32,
        step: BootStep,
        record: &'a BootStepRecord,
    ) -> BootJournalFuture<'a, ()> {
        let sql = "INSERT INTO step (guest, attempt, step, state, detail) \
                   SELECT uuid, ?, ?, ?, ? FROM guest WHERE uuid = ? \
                   ON CONFLICT (guest, attempt, step) DO UPDATE SET state = excluded.state, detail = excluded.detail";
        let statement = Statement::new(sql)
            .bind(i64::from(attempt))
            .bind(step.as_str())
            .bind(record.state.as_str())
            .bind(record.detail.to_text())
            .bind(uuid.to_string());
        Box::pin(self.change(uuid, statement))
    }

    fn delete_guest(&self, uuid: ConsumerUuid) -> BootJournalFuture<'_, ()> {
        let statement = Statement::new("DELETE FROM guest WHERE uuid = ?").bind(uuid.to_string());
        Box::pin(async move {
            self.file.write(&RunStatement(statement)).await?;
            self.file.cut_log().await;
            Ok(())
        })
    }

    fn record_lost_arqs<'a>(&'a self, profile: &'a DeviceProfileName) -> BootJournalFuture<'a, ()> {
        let sql = "INSERT INTO stray (profile) VALUES (?) ON CONFLICT DO NOTHING";
        let statement = Statement::new(sql).bind(profile.as_str());
        Box::pin(async move { Ok(self.file.write(&RunStatement(statement)).await?) })
    }

    fn lost_arq_profiles(&self) -> BootJournalFuture<'_, Vec<DeviceProfileName>> {
        Box::pin(async move {
            let statement = Statement::new("SELECT profile FROM stray ORDER BY profile");
            let rows = self.file.rows(statement).await?;
            let names = rows.iter().map(|row| row.text(0)).collect();
            let names: Vec<String> = Result::map_err(names, |source| self.file.failed(source))?;
            let names = names.iter().map(|name| DeviceProfileName::new(name));
            names
                .collect::<Result<_, _>>()
                .map_err(|error| self.file.damaged(error).into())
        })
    }

    fn clear_lost_arqs<'a>(&'a self, profile: &'a DeviceProfileName) -> BootJournalFuture<'a, ()> {
        let sql = "DELETE FROM stray WHERE profile = ?";
        let statement = Statement::new(sql).bind(profile.as_str());
        Box::pin(async move { Ok(self.file.write(&RunStatement(statement)).await?) })
    }

    fn record_late_claim(&self, guest: ConsumerUuid) -> BootJournalFuture<'_, ()> {
        let sql = "INSERT INTO late_claim (guest) VALUES (?) ON CONFLICT DO NOTHING";
        let statement = Statement::new(sql).bind(guest.to_string());
        Box::pin(async move { Ok(self.file.write(&RunStatement(statement)).await?) })
    }

    fn late_claims(&self) -> BootJournalFuture<'_, Vec<ConsumerUuid>> {
        Box::pin(self.uuids("SELECT guest FROM late_claim ORDER BY guest"))
    }

    fn clear_late_claim(&self, guest: ConsumerUuid) -> BootJournalFuture<'_, ()> {
        let sql = "DELETE FROM late_claim WHERE guest = ?";
        let statement = Statement::new(sql).bind(guest.to_string());
        Box::pin(async move { Ok(self.file.write(&RunStatement(statement)).await?) })
    }

    fn try_write(&self) -> BootJournalFuture<'_, ()> {
        Box::pin(async move {
            let insert = "INSERT INTO stray (profile) VALUES ('') ON CONFLICT DO NOTHING";
            let delete = "DELETE FROM stray WHERE profile = ''";
            Ok(self.file.try_write(insert, delete).await?)
        })
    }
}

fn text<T: Serialize>(value: &T) -> String {
    String::from_utf8_lossy(&berth_wire::encode(value)).into_owned()
}

struct AcceptRequest {
    uuid: ConsumerUuid,
    request: String,
    config_drive: Option<String>,
}

impl Work for AcceptRequest {
    type Output = AcceptOutcome;
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<AcceptOutcome, SqlError> {
        let known = Statement::new("SELECT request, ending FROM guest WHERE uuid = ?");
        if let Some(row) = tx.row(known.bind(self.uuid.to_string())).await? {
            return Ok(if row.int(1)? != 0 {
                AcceptOutcome::Deleting
            } else if row.text(0)? == self.request {
                AcceptOutcome::Same
            } else {
                AcceptOutcome::Conflict
            });
        }
        let sql = "INSERT INTO guest (uuid, request, config_drive, course) VALUES (?, ?, ?, ?)";
        let insert = Statement::new(sql)
            .bind(self.uuid.to_string())
            .bind(&self.request)
            .bind(self.config_drive.clone())
            .bind(text(&BootGoal::Boot));
        tx.execute(insert).await?;
        Ok(AcceptOutcome::New)
    }
}

enum ChangeOutcome {
    Applied,
    NoSuchGuest,
}

struct ChangeGuest {
    guest: ConsumerUuid,
    statement: Statement,
}

impl Work for ChangeGuest {
    type Output = ChangeOutcome;
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<ChangeOutcome, SqlError> {
        if tx.execute(self.statement.clone()).await?.rows_affected > 0 {
            return Ok(ChangeOutcome::Applied);
        }
        // A statement has no effect on a guest that is being deleted; that is not an error.
        let known = Statement::new("SELECT 1 FROM guest WHERE uuid = ?");
        let row = tx.row(known.bind(self.guest.to_string())).await?;
        Ok(row.map_or(ChangeOutcome::NoSuchGuest, |_| ChangeOutcome::Applied))
    }
}

struct RunStatement(Statement);

impl Work for RunStatement {
    type Output = ();
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
        tx.execute(self.0.clone()).await.map(drop)
    }
}
