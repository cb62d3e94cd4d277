//! The journal as a SQLite file under `state_path`.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use berth_model::ConsumerUuid;
use berth_store::{JournalFile, SqlError, Statement, Transaction, Work};
use berth_virt::guest_spec::DesiredPower;
use serde::Serialize;

use crate::bound_devices::BoundDevices;
use crate::cache::{self, Known};
use crate::error::JournalError;
use crate::guest_journal::{Accepted, Answer, Claimed, GuestJournal};
use crate::overrides::InstanceOverrides;
use crate::record::{Goal, GuestRecord, SpawnStep, StepRecord, StepState};
use crate::register::{self, DeviceRegister, Register, Withheld};
use crate::released::ReleasedDevices;
use crate::request::GuestRequest;
use crate::rows::{power_word, records};
use crate::schema::{Found, Opening, VERSION};

/// The file's name below `state_path`.
const FILE: &str = "guests.db";

/// The journal in a file. One process owns it.
#[derive(Debug, Clone)]
pub struct SqlJournal {
    file: JournalFile,
    known: Known,
}

impl SqlJournal {
    /// Opens `guests.db` in the folder, makes it where there is none, and looks whether it is whole.
    ///
    /// Errors: Another agent has it, it is damaged, not a journal, a later release's, or the disk says no.
    pub async fn open(state_path: &Path) -> Result<Self, JournalError> {
        Self::over(JournalFile::open(&state_path.join(FILE)).await?).await
    }

    /// A journal that lives as long as this value, for dry runs and tests.
    pub async fn in_memory() -> Result<Self, JournalError> {
        Self::over(JournalFile::in_memory().await?).await
    }

    /// What the journal in a folder knows of devices, without opening it: an agent may have it. Nothing where there is no
    /// journal, or one that knows of no devices yet.
    pub async fn look_at_devices(state_path: &Path) -> Result<Register, JournalError> {
        let Some(file) = JournalFile::open_read_only(&state_path.join(FILE)).await? else {
            return Ok(Register::default());
        };
        let named = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'device_disabled'";
        let read = match file.rows(Statement::new(named)).await?.is_empty() {
            true => Ok(Register::default()),
            false => DeviceRegister::over(file.clone()).read().await,
        };
        file.close().await;
        read
    }

    /// The guests that the journal in a folder knows, without opening it: an agent may have it. None where there is no journal.
    pub async fn look_at_guests(state_path: &Path) -> Result<Vec<GuestRecord>, JournalError> {
        let Some(file) = JournalFile::open_read_only(&state_path.join(FILE)).await? else {
            return Ok(Vec::new());
        };
        let journal = Self::with(file);
        let read = journal.select(None).await;
        journal.close().await;
        read
    }

    /// What is known of devices, in tables beside the guests'.
    #[must_use]
    pub fn devices(&self) -> DeviceRegister {
        DeviceRegister::over(self.file.clone())
    }

    /// Closes the file and waits until that is done.
    pub async fn close(&self) {
        self.file.close().await;
    }

    async fn over(file: JournalFile) -> Result<Self, JournalError> {
        match file.write(&Opening).await? {
            Found::Ours => {
                file.cut_log().await;
                Ok(Self::with(file))
            }
            Found::Newer(found) => Err(JournalError::Newer {
                path: file.path().to_owned(),
                found,
                known: VERSION,
            }),
            Found::Other(reason) => Err(file.damaged(reason).into()),
        }
    }

    fn with(file: JournalFile) -> Self {
        let known = Known::default();
        Self { file, known }
    }

    /// The only way by which a guest's rows are written.
    async fn write<W: Work<Error = SqlError>>(
        &self,
        guest: ConsumerUuid,
        work: &W,
    ) -> Result<W::Output, JournalError> {
        let write = self.known.doubt(guest);
        let done = self.file.write(work).await?;
        write.through();
        Ok(done)
    }

    /// A change of one guest's rows that must be there.
    async fn change<W: Work<Output = Changed, Error = SqlError>>(
        &self,
        guest: ConsumerUuid,
        work: &W,
    ) -> Result<(), JournalError> {
        match self.write(guest, work).await? {
            Changed::Yes => Ok(()),
            Changed::NoSuchGuest => Err(self.unknown(guest)),
        }
    }

    fn unknown(&self, guest: ConsumerUuid) -> JournalError {
        JournalError::Unknown {
            path: self.file.path().to_owned(),
            guest,
        }
    }

    fn changed(&self, guest: ConsumerUuid, steps: Vec<Statement>) -> Answer<'_, ()> {
        Box::pin(async move { self.change(guest, &Change { steps }).await })
    }

    async fn all(&self) -> Result<Vec<Arc<GuestRecord>>, JournalError> {
        let (mut records, doubted) = match self.known.all() {
            cache::Reading::Known(known) => known,
            cache::Reading::Due(began) => {
                let records = self.select(None).await?;
                let records: Vec<_> = records.into_iter().map(Arc::new).collect();
                self.known.read_all(began, &records);
                return Ok(records);
            }
        };
        if !doubted.is_empty() {
            for guest in doubted {
                records.extend(self.one(guest).await?);
            }
            records.sort_by_key(|record| record.request.uuid());
        }
        Ok(records)
    }

    async fn one(&self, guest: ConsumerUuid) -> Result<Option<Arc<GuestRecord>>, JournalError> {
        match self.known.guest(guest) {
            cache::Reading::Known(record) => Ok(record),
            cache::Reading::Due(began) => {
                let record = self.select(Some(guest)).await?.pop().map(Arc::new);
                self.known.read(guest, began, record.as_ref());
                Ok(record)
            }
        }
    }

    async fn select(&self, one: Option<ConsumerUuid>) -> Result<Vec<GuestRecord>, JournalError> {
        let read = async {
            let mut tx = self.file.read().await?;
            let (guests, steps) = match one {
                None => (Statement::new(GUESTS), Statement::new(STEPS)),
                Some(uuid) => (
                    Statement::new(ONE_GUEST).bind(uuid.to_string()),
                    Statement::new(ONE_GUESTS_STEPS).bind(uuid.to_string()),
                ),
            };
            let guests = tx.rows(guests).await?;
            let steps = tx.rows(steps).await?;
            records(&guests, &steps)
        };
        match read.await.map_err(|source| self.file.failed(source))? {
            Ok(records) => Ok(records),
            Err(unreadable) => Err(JournalError::Unreadable {
                path: self.file.path().to_owned(),
                guest: unreadable.guest,
                reason: unreadable.reason,
            }),
        }
    }
}

const GUESTS: &str = "SELECT uuid, request, course, power, devices, life FROM guest ORDER BY uuid";
const STEPS: &str = "SELECT guest, step, state, detail FROM step";
const ONE_GUEST: &str =
    "SELECT uuid, request, course, power, devices, life FROM guest WHERE uuid = ?";
const ONE_GUESTS_STEPS: &str = "SELECT guest, step, state, detail FROM step WHERE guest = ?";

fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value)
        .expect("the journal's values have text keys and whole numbers only")
}

fn step_row(uuid: ConsumerUuid, step: SpawnStep, record: &StepRecord) -> Statement {
    Statement::new(
        "INSERT INTO step (guest, step, state, detail) SELECT uuid, ?, ?, ? FROM guest WHERE uuid = ? \
         ON CONFLICT (guest, step) DO UPDATE SET state = excluded.state, detail = excluded.detail",
    )
    .bind(step.as_str())
    .bind(record.state.as_str())
    .bind(record.detail.as_str())
    .bind(uuid.to_string())
}

enum Changed {
    Yes,
    NoSuchGuest,
}

/// Statements in one transaction, each of which must find its guest.
struct Change {
    steps: Vec<Statement>,
}

impl Work for Change {
    type Output = Changed;
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<Changed, SqlError> {
        for step in &self.steps {
            // The first one misses it or none does, so nothing is half done.
            if tx.execute(step.clone()).await?.rows_affected == 0 {
                return Ok(Changed::NoSuchGuest);
            }
        }
        Ok(Changed::Yes)
    }
}

struct Accept<'a>(&'a GuestRequest);

impl Work for Accept<'_> {
    type Output = Accepted;
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<Accepted, SqlError> {
        let (uuid, request) = (self.0.uuid().to_string(), json(self.0));
        let known = Statement::new("SELECT request, course FROM guest WHERE uuid = ?").bind(&uuid);
        if let Some(row) = tx.row(known).await? {
            return Ok(if row.text(1)? == json(&Goal::Destroy) {
                Accepted::Ending
            } else if row.text(0)? == request {
                Accepted::Same
            } else {
                Accepted::Other
            });
        }
        let insert = "INSERT INTO guest (uuid, request, course, power) VALUES (?, ?, ?, ?)";
        let insert = Statement::new(insert)
            .bind(uuid)
            .bind(request)
            .bind(json(&Goal::Spawn))
            .bind(power_word(self.0.spec().power));
        tx.execute(insert).await?;
        Ok(Accepted::New)
    }
}

struct Claim<'a> {
    uuid: ConsumerUuid,
    names: &'a BTreeSet<String>,
    devices: &'a BoundDevices,
}

enum ClaimEnd {
    Ours,
    Taken { device: String, guest: String },
    Withheld { device: String, why: Withheld },
    NoSuchGuest,
}

impl Work for Claim<'_> {
    type Output = ClaimEnd;
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<ClaimEnd, SqlError> {
        let uuid = self.uuid.to_string();
        for device in self.names {
            let owner = Statement::new("SELECT guest FROM device WHERE name = ?").bind(device);
            if let Some(row) = tx.row(owner).await? {
                let guest = row.text(0)?;
                if guest != uuid {
                    let device = device.clone();
                    return Ok(ClaimEnd::Taken { device, guest });
                }
            } else if let Some(why) = register::withheld(tx, device).await? {
                let device = device.clone();
                return Ok(ClaimEnd::Withheld { device, why });
            }
        }
        let own = "UPDATE guest SET devices = ? WHERE uuid = ?";
        let own = Statement::new(own).bind(json(self.devices)).bind(&uuid);
        if tx.execute(own).await?.rows_affected == 0 {
            return Ok(ClaimEnd::NoSuchGuest);
        }
        let drop = Statement::new("DELETE FROM device WHERE guest = ?").bind(&uuid);
        tx.execute(drop).await?;
        let rows = self.names.iter().map(|name| [name.into(), (&uuid).into()]);
        tx.insert_rows(
            "INSERT INTO device (name, guest) VALUES",
            rows.collect(),
            "",
        )
        .await?;
        for name in self.names {
            tx.execute(register::claimed(name)).await?;
        }
        let done = StepRecord::from(StepState::Done);
        tx.execute(step_row(self.uuid, SpawnStep::Bind, &done))
            .await?;
        Ok(ClaimEnd::Ours)
    }
}

struct GiveBack<'a> {
    uuid: ConsumerUuid,
    released: &'a ReleasedDevices,
}

impl Work for GiveBack<'_> {
    type Output = Changed;
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<Changed, SqlError> {
        let undone = StepRecord::from(StepState::Undone);
        let undone = step_row(self.uuid, SpawnStep::Prepare, &undone);
        if tx.execute(undone).await?.rows_affected == 0 {
            return Ok(Changed::NoSuchGuest);
        }
        for step in register::given_back(self.released) {
            tx.execute(step).await?;
        }
        Ok(Changed::Yes)
    }
}

struct Forget(ConsumerUuid);

impl Work for Forget {
    type Output = ();
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
        let forget = Statement::new("DELETE FROM guest WHERE uuid = ?").bind(self.0.to_string());
        tx.execute(forget).await?;
        Ok(())
    }
}

struct Disclaim(ConsumerUuid);

impl Work for Disclaim {
    type Output = Changed;
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<Changed, SqlError> {
        let uuid = self.0.to_string();
        let none = Statement::new("UPDATE guest SET devices = NULL WHERE uuid = ?").bind(&uuid);
        if tx.execute(none).await?.rows_affected == 0 {
            return Ok(Changed::NoSuchGuest);
        }
        let drop = Statement::new("DELETE FROM device WHERE guest = ?").bind(&uuid);
        tx.execute(drop).await?;
        let undoing = StepRecord::from(StepState::Undoing);
        tx.execute(step_row(self.0, SpawnStep::Bind, &undoing))
            .await?;
        Ok(Changed::Yes)
    }
}

impl GuestJournal for SqlJournal {
    fn path(&self) -> String {
        self.file.path().to_owned()
    }

    fn guests(&self) -> Answer<'_, Vec<Arc<GuestRecord>>> {
        Box::pin(self.all())
    }

    fn guest(&self, uuid: ConsumerUuid) -> Answer<'_, Option<Arc<GuestRecord>>> {
        Box::pin(self.one(uuid))
    }

    fn accept<'a>(&'a self, request: &'a GuestRequest) -> Answer<'a, Accepted> {
        Box::pin(async move { self.write(request.uuid(), &Accept(request)).await })
    }

    fn turn<'a>(&'a self, uuid: ConsumerUuid, course: &'a Goal) -> Answer<'a, ()> {
        let turn =
            "UPDATE guest SET course = CASE course WHEN ? THEN course ELSE ? END WHERE uuid = ?";
        let turn = Statement::new(turn)
            .bind(json(&Goal::Destroy))
            .bind(json(course))
            .bind(uuid.to_string());
        self.changed(uuid, vec![turn])
    }

    fn want(&self, uuid: ConsumerUuid, power: DesiredPower) -> Answer<'_, ()> {
        let want = Statement::new("UPDATE guest SET power = ? WHERE uuid = ?")
            .bind(power_word(power))
            .bind(uuid.to_string());
        self.changed(uuid, vec![want])
    }

    fn note<'a>(
        &'a self,
        uuid: ConsumerUuid,
        step: SpawnStep,
        record: &'a StepRecord,
    ) -> Answer<'a, ()> {
        self.changed(uuid, vec![step_row(uuid, step, record)])
    }

    fn live<'a>(
        &'a self,
        uuid: ConsumerUuid,
        life: &'a InstanceOverrides,
        steps: &'a [(SpawnStep, StepRecord)],
    ) -> Answer<'a, ()> {
        let text = (!life.is_plain()).then(|| json(life));
        let live = Statement::new("UPDATE guest SET life = ? WHERE uuid = ?")
            .bind(text)
            .bind(uuid.to_string());
        let rows = steps
            .iter()
            .map(|(step, record)| step_row(uuid, *step, record));
        self.changed(uuid, std::iter::once(live).chain(rows).collect())
    }

    fn claim<'a>(
        &'a self,
        uuid: ConsumerUuid,
        names: &'a BTreeSet<String>,
        devices: &'a BoundDevices,
    ) -> Answer<'a, Claimed> {
        Box::pin(async move {
            let claim = Claim {
                uuid,
                names,
                devices,
            };
            match self.write(uuid, &claim).await? {
                ClaimEnd::Ours => Ok(Claimed::Ours),
                ClaimEnd::Taken { device, guest } => match guest.parse() {
                    Ok(guest) => Ok(Claimed::Taken { device, guest }),
                    Err(error) => Err(self.file.damaged(error).into()),
                },
                ClaimEnd::Withheld { device, why } => Ok(Claimed::Withheld { device, why }),
                ClaimEnd::NoSuchGuest => Err(self.unknown(uuid)),
            }
        })
    }

    fn give_back<'a>(
        &'a self,
        uuid: ConsumerUuid,
        released: &'a ReleasedDevices,
    ) -> Answer<'a, ()> {
        Box::pin(async move { self.change(uuid, &GiveBack { uuid, released }).await })
    }

    fn disclaim(&self, uuid: ConsumerUuid) -> Answer<'_, ()> {
        Box::pin(async move { self.change(uuid, &Disclaim(uuid)).await })
    }

    fn forget(&self, uuid: ConsumerUuid) -> Answer<'_, ()> {
        Box::pin(async move {
            self.write(uuid, &Forget(uuid)).await?;
            self.file.cut_log().await;
            Ok(())
        })
    }

    fn try_write(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            let insert = "INSERT INTO guest (uuid, request, course, power) VALUES ('', '', '', '')";
            let delete = "DELETE FROM guest WHERE uuid = ''";
            Ok(self.file.try_write(insert, delete).await?)
        })
    }
}
