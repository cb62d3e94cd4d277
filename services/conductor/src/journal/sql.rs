//! The journal as a SQLite file under `state_path`.

use std::collections::BTreeSet;
use std::path::Path;

use berth_model::{ArqUuid, ConsumerUuid, DeviceProfileName};
use berth_store::{JournalFile, SqlError, Statement, Transaction, Work};
use serde::Serialize;
use uuid::Uuid;

use super::rows::records;
use super::schema::{Found, Opening, VERSION, open};
use super::{
    Accepted, Answer, BootJournal, BootRecord, BootStep, Course, FailedAttempt, GuestRecords,
    JournalError, StepDetail, StepRecord, UnreadableGuest,
};
use crate::BootRequest;

/// The file's name below `state_path`.
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
const REQUESTS: &str = "SELECT guest, detail FROM step WHERE step = 'arqs' AND detail <> ''";

/// Guests whose UUIDs are not as they are written here.
const NAMELESS: &str = "SELECT quote(uuid) FROM guest WHERE typeof(uuid) <> 'text' OR length(uuid) <> 36 \
                        OR uuid GLOB '*[^0-9a-f-]*' LIMIT 1";

/// Of so many guests at most the rows are asked for at once.
const AT_ONCE: usize = 500;

/// The journal in a file. One process owns it.
#[derive(Debug, Clone)]
pub struct SqlJournal {
    file: JournalFile,
    owner: Uuid,
}

impl SqlJournal {
    /// Opens `conductor.db` in the folder, makes it where there is none, and looks whether it is whole.
    ///
    /// # Errors
    /// Another conductor has it, it is damaged, not a journal, a later release's, or the disk says no.
    pub async fn open(state_path: &Path) -> Result<Self, JournalError> {
        Self::over(JournalFile::open(&state_path.join(FILE)).await?).await
    }

    /// A journal that lives as long as this value, for tests.
    pub async fn in_memory() -> Result<Self, JournalError> {
        Self::over(JournalFile::in_memory().await?).await
    }

    /// Closes the file and waits until that is done.
    pub async fn close(&self) {
        self.file.close().await;
    }

    async fn over(file: JournalFile) -> Result<Self, JournalError> {
        match file.write(&Opening).await? {
            Found::Ours(owner) => {
                file.cut_log().await;
                Ok(Self { file, owner })
            }
            Found::Newer(found) => Err(JournalError::Newer {
                path: file.path().to_owned(),
                found,
                known: VERSION,
            }),
            Found::Other(reason) => Err(file.damaged(reason).into()),
        }
    }

    /// A change of one guest's rows that must be there.
    async fn change(&self, guest: ConsumerUuid, statement: Statement) -> Result<(), JournalError> {
        match self.file.write(&Change { guest, statement }).await? {
            Changed::Yes => Ok(()),
            Changed::NoSuchGuest => Err(JournalError::Unknown {
                path: self.file.path().to_owned(),
                guest,
            }),
        }
    }

    async fn read(
        &self,
        (guests, steps): (Statement, Statement),
    ) -> Result<GuestRecords, JournalError> {
        // Others may read while these are made sense of.
        let rows = async {
            let mut tx = self.file.read().await?;
            let guests = tx.rows(guests).await?;
            let steps = tx.rows(steps).await?;
            Ok::<_, SqlError>((guests, steps))
        };
        let (guests, steps) = rows.await.map_err(|source| self.file.failed(source))?;
        Ok(records(self.file.path(), &guests, &steps))
    }

    fn unreadable(&self, guest: String, reason: String) -> JournalError {
        JournalError::Unreadable(UnreadableGuest {
            path: self.file.path().to_owned(),
            guest,
            reason,
        })
    }

    /// The guests that a statement names. A row whose UUID is none is nobody's, and keeps no other from being read.
    async fn uuids(&self, statement: &'static str) -> Result<Vec<ConsumerUuid>, JournalError> {
        let rows = self.file.rows(Statement::new(statement)).await?;
        let guests = rows.iter().filter_map(|row| row.text(0).ok()?.parse().ok());
        Ok(guests.collect())
    }

    /// The texts of a row, all of them.
    async fn texts<const N: usize>(
        &self,
        statement: &'static str,
    ) -> Result<Vec<[String; N]>, JournalError> {
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

impl BootJournal for SqlJournal {
    fn path(&self) -> String {
        self.file.path().to_owned()
    }

    fn owner(&self) -> Uuid {
        self.owner
    }

    fn guests(&self) -> Answer<'_, GuestRecords> {
        Box::pin(self.read((Statement::new(GUESTS), Statement::new(STEPS))))
    }

    fn open_guests(&self) -> Answer<'_, Vec<ConsumerUuid>> {
        Box::pin(async move { self.uuids(OPEN_GUESTS).await })
    }

    fn requests(&self) -> Answer<'_, BTreeSet<ArqUuid>> {
        Box::pin(async move {
            let mut requests = BTreeSet::new();
            for [guest, detail] in self.texts::<2>(REQUESTS).await? {
                match StepDetail::of_text(&detail) {
                    Ok(StepDetail::Requests(of_step)) => requests.extend(of_step.into_keys()),
                    Ok(StepDetail::Nothing | StepDetail::Claim(_)) => {}
                    Err(reason) => return Err(self.unreadable(guest, reason)),
                }
            }
            Ok(requests)
        })
    }

    fn nameless(&self) -> Answer<'_, Option<UnreadableGuest>> {
        Box::pin(async move {
            let rows = self.file.rows(Statement::new(NAMELESS)).await?;
            let Some(row) = rows.first() else {
                return Ok(None);
            };
            let guest = row.text(0).map_err(|source| self.file.failed(source))?;
            Ok(Some(UnreadableGuest {
                path: self.path(),
                guest,
                reason: "its UUID is none".to_owned(),
            }))
        })
    }

    fn guest(&self, uuid: ConsumerUuid) -> Answer<'_, Option<BootRecord>> {
        let one = move |statement| Statement::new(statement).bind(uuid.to_string());
        Box::pin(async move {
            let mut records = self.read((one(ONE_GUEST), one(ONE_GUESTS_STEPS))).await?;
            match records.unreadable.pop() {
                Some(unreadable) => Err(JournalError::Unreadable(unreadable)),
                None => Ok(records.readable.pop()),
            }
        })
    }

    fn guests_of<'a>(&'a self, uuids: &'a [ConsumerUuid]) -> Answer<'a, GuestRecords> {
        Box::pin(async move {
            let mut records = GuestRecords::default();
            for some in uuids.chunks(AT_ONCE) {
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

    fn accept<'a>(&'a self, request: &'a BootRequest) -> Answer<'a, Accepted> {
        {
            let (text, config_drive) = request.to_journal();
            let accept = Accept {
                uuid: request.uuid(),
                request: text,
                config_drive,
            };
            Box::pin(async move { Ok(self.file.write(&accept).await?) })
        }
    }

    fn turn<'a>(&'a self, uuid: ConsumerUuid, course: &'a Course) -> Answer<'a, ()> {
        let ending = i64::from(*course == Course::Delete);
        let needs_drive = matches!(course, Course::Boot | Course::Undo { .. });
        let sql = "UPDATE guest SET course = ?, ending = ?, \
                   config_drive = CASE WHEN ? THEN config_drive ELSE NULL END \
                   WHERE uuid = ? AND ending <= ?";
        let statement = Statement::new(sql)
            .bind(text(course))
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

    fn again<'a>(&'a self, uuid: ConsumerUuid, failed: &'a FailedAttempt) -> Answer<'a, ()> {
        let sql = "UPDATE guest SET course = ?, attempt = attempt + 1, \
                   failures = json_insert(failures, '$[#]', json(?)) WHERE uuid = ? AND ending = 0";
        let statement = Statement::new(sql)
            .bind(text(&Course::Boot))
            .bind(text(failed))
            .bind(uuid.to_string());
        Box::pin(self.change(uuid, statement))
    }

    fn note<'a>(
        &'a self,
        uuid: ConsumerUuid,
        attempt: u32,
        step: BootStep,
        record: &'a StepRecord,
    ) -> Answer<'a, ()> {
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

    fn forget(&self, uuid: ConsumerUuid) -> Answer<'_, ()> {
        let statement = Statement::new("DELETE FROM guest WHERE uuid = ?").bind(uuid.to_string());
        Box::pin(async move {
            self.file.write(&Run(statement)).await?;
            self.file.cut_log().await;
            Ok(())
        })
    }

    fn stray<'a>(&'a self, profile: &'a DeviceProfileName) -> Answer<'a, ()> {
        let sql = "INSERT INTO stray (profile) VALUES (?) ON CONFLICT DO NOTHING";
        let statement = Statement::new(sql).bind(profile.as_str());
        Box::pin(async move { Ok(self.file.write(&Run(statement)).await?) })
    }

    fn strays(&self) -> Answer<'_, Vec<DeviceProfileName>> {
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

    fn no_stray<'a>(&'a self, profile: &'a DeviceProfileName) -> Answer<'a, ()> {
        let sql = "DELETE FROM stray WHERE profile = ?";
        let statement = Statement::new(sql).bind(profile.as_str());
        Box::pin(async move { Ok(self.file.write(&Run(statement)).await?) })
    }

    fn late_claim(&self, guest: ConsumerUuid) -> Answer<'_, ()> {
        let sql = "INSERT INTO late_claim (guest) VALUES (?) ON CONFLICT DO NOTHING";
        let statement = Statement::new(sql).bind(guest.to_string());
        Box::pin(async move { Ok(self.file.write(&Run(statement)).await?) })
    }

    fn late_claims(&self) -> Answer<'_, Vec<ConsumerUuid>> {
        Box::pin(self.uuids("SELECT guest FROM late_claim ORDER BY guest"))
    }

    fn no_late_claim(&self, guest: ConsumerUuid) -> Answer<'_, ()> {
        let sql = "DELETE FROM late_claim WHERE guest = ?";
        let statement = Statement::new(sql).bind(guest.to_string());
        Box::pin(async move { Ok(self.file.write(&Run(statement)).await?) })
    }

    fn try_write(&self) -> Answer<'_, ()> {
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

struct Accept {
    uuid: ConsumerUuid,
    request: String,
    config_drive: Option<String>,
}

impl Work for Accept {
    type Output = Accepted;
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<Accepted, SqlError> {
        let known = Statement::new("SELECT request, ending FROM guest WHERE uuid = ?");
        if let Some(row) = tx.row(known.bind(self.uuid.to_string())).await? {
            return Ok(if row.int(1)? != 0 {
                Accepted::Ending
            } else if row.text(0)? == self.request {
                Accepted::Same
            } else {
                Accepted::Other
            });
        }
        let sql = "INSERT INTO guest (uuid, request, config_drive, course) VALUES (?, ?, ?, ?)";
        let insert = Statement::new(sql)
            .bind(self.uuid.to_string())
            .bind(&self.request)
            .bind(self.config_drive.clone())
            .bind(text(&Course::Boot));
        tx.execute(insert).await?;
        Ok(Accepted::New)
    }
}

enum Changed {
    Yes,
    NoSuchGuest,
}

struct Change {
    guest: ConsumerUuid,
    statement: Statement,
}

impl Work for Change {
    type Output = Changed;
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<Changed, SqlError> {
        if tx.execute(self.statement.clone()).await?.rows_affected > 0 {
            return Ok(Changed::Yes);
        }
        // A guest that is being deleted is turned by nothing any more, and that is no error.
        let known = Statement::new("SELECT 1 FROM guest WHERE uuid = ?");
        let row = tx.row(known.bind(self.guest.to_string())).await?;
        Ok(row.map_or(Changed::NoSuchGuest, |_| Changed::Yes))
    }
}

struct Run(Statement);

impl Work for Run {
    type Output = ();
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
        tx.execute(self.0.clone()).await.map(drop)
    }
}
