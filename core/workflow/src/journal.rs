//! [`Journal`]: reads and writes the records of guests.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::path::Path;

use berth_model::ConsumerUuid;
use berth_store::{SqlError, Statement, Transaction, Work};

use crate::schema::{JournalCheck, OpenJournal};
use crate::{
    JournalError, JournalFile, JournalRecord, RecordRow, StepDetail as _, StepRecord,
    UnreadableRecord,
};

/// Result of [`Journal::accept`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptOutcome {
    /// Recorded as a new guest.
    New,
    /// The same request was recorded before.
    Same,
    /// A different request has this UUID.
    Conflict,
    /// The guest with this UUID is being deleted.
    Deleting,
}

/// Records of guests. An unreadable record does not affect the others.
#[derive(Debug)]
pub struct JournalRecords<R> {
    /// Readable records, sorted by UUID.
    pub readable: Vec<R>,
    pub unreadable: Vec<UnreadableRecord>,
}

impl<R> Default for JournalRecords<R> {
    fn default() -> Self {
        Self {
            readable: Vec::new(),
            unreadable: Vec::new(),
        }
    }
}

impl<R: JournalRecord> JournalRecords<R> {
    /// The UUIDs of all guests, readable or not.
    pub fn uuids(&self) -> impl Iterator<Item = ConsumerUuid> + '_ {
        let readable = self.readable.iter().map(R::uuid);
        // A row without a valid UUID belongs to no guest.
        let unreadable = self.unreadable.iter();
        readable.chain(unreadable.filter_map(|unreadable| unreadable.guest.parse().ok()))
    }

    /// All records, if all are readable.
    pub fn into_all(self) -> Result<Vec<R>, JournalError> {
        match self.unreadable.into_iter().next() {
            Some(unreadable) => Err(JournalError::Unreadable(unreadable)),
            None => Ok(self.readable),
        }
    }
}

/// The journal with records of one type, in a file that this process owns. Clones share the file.
#[derive(Debug)]
pub struct Journal<R> {
    file: JournalFile,
    record: PhantomData<fn() -> R>,
}

impl<R> Clone for Journal<R> {
    fn clone(&self) -> Self {
        Self::over(self.file.clone())
    }
}

impl<R> Journal<R> {
    fn over(file: JournalFile) -> Self {
        let record = PhantomData;
        Self { file, record }
    }

    #[must_use]
    pub fn file(&self) -> &JournalFile {
        &self.file
    }
}

impl<R: JournalRecord> Journal<R> {
    /// Opens the file in the folder, creates it if it is missing, and checks it.
    ///
    /// Errors: Another process owns it, it is damaged, it is another database, a later release wrote it, or I/O failed.
    pub async fn open(state_path: &Path) -> Result<Self, JournalError> {
        let file = JournalFile::open(&state_path.join(R::SCHEMA.file)).await?;
        Self::check(file).await
    }

    /// A journal in memory, for dry runs and tests.
    pub async fn in_memory() -> Result<Self, JournalError> {
        Self::check(JournalFile::in_memory().await?).await
    }

    /// Opens the file in the folder for reading only, also while another process owns it. `None` if it does not exist.
    pub async fn open_read_only(state_path: &Path) -> Result<Option<Self>, JournalError> {
        let file = JournalFile::open_read_only(&state_path.join(R::SCHEMA.file)).await?;
        Ok(file.map(Self::over))
    }

    async fn check(file: JournalFile) -> Result<Self, JournalError> {
        match file.write(&OpenJournal(R::SCHEMA)).await? {
            JournalCheck::Ready => {
                file.cut_log().await;
                Ok(Self::over(file))
            }
            JournalCheck::Newer(found) => Err(JournalError::Newer {
                path: file.path().to_owned(),
                found,
                known: R::SCHEMA.version,
            }),
            JournalCheck::Other(reason) => Err(file.damaged(reason)),
        }
    }

    /// The records of all guests, or of the given ones, without unknown ones.
    pub async fn records(
        &self,
        guests: Option<&[ConsumerUuid]>,
    ) -> Result<JournalRecords<R>, JournalError> {
        let columns = [&["kind", "uuid"], R::COLUMNS].concat();
        let step_columns = [&["kind", "guest", "state", "detail"], R::STEP_COLUMNS].concat();
        let rows = self.file.rows(select_records::<R>(guests)).await?;
        let mut guest_rows = Vec::new();
        let mut by_guest: BTreeMap<String, Vec<RecordRow<'_>>> = BTreeMap::new();
        for row in &rows {
            let kind = row.int(0).map_err(|source| self.file.failed(source))?;
            if kind == KIND_GUEST {
                guest_rows.push(row);
            // A step without a readable guest belongs to no record.
            } else if let Ok(guest) = row.text(1) {
                let columns = &step_columns;
                let rows = by_guest.entry(guest).or_default();
                rows.push(RecordRow { row, columns });
            }
        }
        let mut records = JournalRecords::default();
        for row in guest_rows {
            let columns = &columns;
            let row = RecordRow { row, columns };
            let guest = row.text("uuid");
            let record = guest.clone().and_then(|guest| {
                let steps = by_guest.remove(&guest).unwrap_or_default();
                read_record::<R>(&guest, &row, &steps)
            });
            match record {
                Ok(record) => records.readable.push(record),
                Err(reason) => records.unreadable.push(UnreadableRecord {
                    path: self.file.path().to_owned(),
                    guest: guest.unwrap_or_default(),
                    reason,
                }),
            }
        }
        records.readable.sort_by_key(R::uuid);
        Ok(records)
    }

    /// The record of a guest.
    pub async fn record(&self, guest: ConsumerUuid) -> Result<Option<R>, JournalError> {
        let records = self.records(Some(&[guest])).await?;
        Ok(records.into_all()?.pop())
    }

    /// Records a request by `insert`, unless the guest is known. `request` is the text in the column of that name.
    pub async fn accept(
        &self,
        guest: ConsumerUuid,
        request: &str,
        insert: Statement,
    ) -> Result<AcceptOutcome, JournalError> {
        let known = format!("SELECT request, {} FROM guest WHERE uuid = ?", R::DELETING);
        let known = Statement::recurring(known).bind(guest.to_string());
        let accept = AcceptRequest {
            known,
            request,
            insert,
        };
        self.file.write(&accept).await
    }

    /// Runs statements on a guest's rows in one transaction; fails if the guest does not exist. A statement must
    /// change nothing if the guest does not exist.
    pub async fn change(
        &self,
        guest: ConsumerUuid,
        mut statements: Vec<Statement>,
    ) -> Result<(), JournalError> {
        let exists = match statements.pop() {
            Some(only) if statements.is_empty() => {
                // A guest with nothing to change also has no changed row.
                self.file.execute_one(only).await? > 0
                    || !self.file.rows(select_guest(guest)).await?.is_empty()
            }
            last => {
                statements.extend(last);
                self.file.write(&ChangeGuest { guest, statements }).await?
            }
        };
        match exists {
            true => Ok(()),
            false => Err(self.unknown(guest)),
        }
    }

    /// The statement that records the state of a step, if the guest exists; it replaces the earlier state.
    #[must_use]
    pub fn step_statement(
        guest: ConsumerUuid,
        step: &R::Step,
        record: &StepRecord<R::Detail>,
    ) -> Statement {
        let key = format!("guest, {}", R::STEP_COLUMNS.join(", "));
        let marks = "?, ".repeat(R::STEP_COLUMNS.len());
        Statement::recurring(format!(
            "INSERT INTO step ({key}, state, detail) \
             SELECT ?, {marks}?, ? WHERE EXISTS (SELECT 1 FROM guest WHERE uuid = ?) \
             ON CONFLICT ({key}) DO UPDATE SET state = excluded.state, detail = excluded.detail"
        ))
        .bind(guest.to_string())
        .bind_all(R::step_values(step))
        .bind(record.state.to_string())
        .bind(record.detail.to_text())
        .bind(guest.to_string())
    }

    /// Deletes the record of a guest, if it exists, and its data in the log of the database.
    pub async fn delete(&self, guest: ConsumerUuid) -> Result<(), JournalError> {
        let delete = Statement::new("DELETE FROM guest WHERE uuid = ?").bind(guest.to_string());
        self.file.execute(vec![delete]).await?;
        self.file.cut_log().await;
        Ok(())
    }

    #[must_use]
    pub fn unknown(&self, guest: ConsumerUuid) -> JournalError {
        let path = self.file.path().to_owned();
        JournalError::Unknown { path, guest }
    }
}

/// `kind` of a row of `guest` in the result of [`select_records`].
const KIND_GUEST: i64 = 0;
/// `kind` of a row of `step`.
const KIND_STEP: i64 = 1;

/// One statement that reads the rows of both tables, of all guests or of the given ones. One statement sees one state of
/// the database, and is one message to the driver's thread. Shorter rows end with NULL.
fn select_records<R: JournalRecord>(guests: Option<&[ConsumerUuid]>) -> Statement {
    let guest_columns = [&["uuid"], R::COLUMNS].concat();
    let step_columns = [&["guest", "state", "detail"], R::STEP_COLUMNS].concat();
    let width = guest_columns.len().max(step_columns.len());
    let select = |kind: i64, mut columns: Vec<&'static str>, table, key| {
        columns.resize(width, "NULL");
        let columns = columns.join(", ");
        let of_guests = match guests {
            None => String::new(),
            Some([_]) => format!(" WHERE {key} = ?"),
            Some(_) => format!(" WHERE {key} IN (SELECT value FROM json_each(?))"),
        };
        format!("SELECT {kind}, {columns} FROM {table}{of_guests}")
    };
    let statement = Statement::recurring(format!(
        "{} UNION ALL {}",
        select(KIND_GUEST, guest_columns, "guest", "uuid"),
        select(KIND_STEP, step_columns, "step", "guest"),
    ));
    let keys = match guests {
        None => return statement,
        Some([guest]) => guest.to_string(),
        Some(guests) => {
            let keys: Vec<_> = guests.iter().map(ToString::to_string).collect();
            serde_json::Value::from(keys).to_string()
        }
    };
    statement.bind(&keys).bind(&keys)
}

fn select_guest(guest: ConsumerUuid) -> Statement {
    Statement::new("SELECT 1 FROM guest WHERE uuid = ?").bind(guest.to_string())
}

fn read_record<R: JournalRecord>(
    guest: &str,
    row: &RecordRow<'_>,
    steps: &[RecordRow<'_>],
) -> Result<R, String> {
    let steps = steps.iter().map(|row| {
        let state = row.word("state")?;
        let detail = R::Detail::from_text(row.text("detail")?)?;
        Ok((R::read_step(row)?, StepRecord { state, detail }))
    });
    let record = R::from_row(row, steps.collect::<Result<_, String>>()?)?;
    match record.uuid() {
        uuid if uuid.to_string() == guest => Ok(record),
        uuid => Err(format!("its request has the UUID {uuid}")),
    }
}

struct AcceptRequest<'a> {
    known: Statement,
    request: &'a str,
    insert: Statement,
}

impl Work for AcceptRequest<'_> {
    type Output = AcceptOutcome;
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<AcceptOutcome, SqlError> {
        let Some(row) = tx.row(self.known.clone()).await? else {
            tx.execute(self.insert.clone()).await?;
            return Ok(AcceptOutcome::New);
        };
        Ok(if row.int(1)? != 0 {
            AcceptOutcome::Deleting
        } else if row.text(0)? == self.request {
            AcceptOutcome::Same
        } else {
            AcceptOutcome::Conflict
        })
    }
}

struct ChangeGuest {
    guest: ConsumerUuid,
    statements: Vec<Statement>,
}

impl Work for ChangeGuest {
    /// Whether the guest exists.
    type Output = bool;
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<bool, SqlError> {
        if tx.row(select_guest(self.guest)).await?.is_none() {
            return Ok(false);
        }
        for statement in &self.statements {
            tx.execute(statement.clone()).await?;
        }
        Ok(true)
    }
}
