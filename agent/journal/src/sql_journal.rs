//! [`SqlJournal`]: the journal as the SQLite file `guests.db` in `state_path`.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use berth_model::ConsumerUuid;
use berth_store::{SqlError, Statement, Transaction, Work};
use berth_virt::guest_spec::DesiredPower;
use berth_workflow::{
    AcceptOutcome, Journal, JournalError, JournalFuture, JournalRecord as _, StepRecord, StepState,
};
use serde::Serialize;

use crate::bound_devices::BoundDevices;
use crate::cache::{CacheLookup, RecordCache};
use crate::guest_journal::{DeviceClaim, GuestJournal};
use crate::overrides::InstanceOverrides;
use crate::record::{Goal, GuestRecord, SpawnStep};
use crate::register::{self, DeviceRegister, Register, WithheldReason};
use crate::released::ReleasedDevices;
use crate::request::GuestRequest;

/// The journal in a file. Only one process can have it open. Clones share file and cache.
#[derive(Debug, Clone)]
pub struct SqlJournal {
    journal: Journal<GuestRecord>,
    cache: RecordCache,
}

impl SqlJournal {
    /// Opens `guests.db` in the folder, creates it if it is missing, and checks it ([`Journal::open`]).
    pub async fn open(state_path: &Path) -> Result<Self, JournalError> {
        Ok(Self::over(Journal::open(state_path).await?))
    }

    /// A journal in memory, for dry runs and tests.
    pub async fn in_memory() -> Result<Self, JournalError> {
        Ok(Self::over(Journal::in_memory().await?))
    }

    fn over(journal: Journal<GuestRecord>) -> Self {
        let cache = RecordCache::default();
        Self { journal, cache }
    }

    /// The device register of the journal in a folder. An agent may have the journal open. Empty if there is no journal, or if
    /// an earlier release without device tables wrote it.
    pub async fn observe_devices(state_path: &Path) -> Result<Register, JournalError> {
        let Some(journal) = Journal::<GuestRecord>::open_read_only(state_path).await? else {
            return Ok(Register::default());
        };
        let file = journal.file();
        let table = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'device_disabled'";
        let register = match file.rows(Statement::new(table)).await?.is_empty() {
            true => Ok(Register::default()),
            false => DeviceRegister::new(file.clone()).read().await,
        };
        file.close().await;
        register
    }

    /// The guests of the journal in a folder. An agent may have the journal open. None if there is no journal.
    pub async fn observe_guests(state_path: &Path) -> Result<Vec<GuestRecord>, JournalError> {
        let Some(journal) = Journal::<GuestRecord>::open_read_only(state_path).await? else {
            return Ok(Vec::new());
        };
        let records = journal.records(None).await;
        journal.file().close().await;
        records?.into_all()
    }

    /// The register of devices, in the same file.
    #[must_use]
    pub fn devices(&self) -> DeviceRegister {
        DeviceRegister::new(self.journal.file().clone())
    }

    /// Closes the file and waits until that is done.
    pub async fn close(&self) {
        self.journal.file().close().await;
    }

    /// Runs a write of a guest's rows. All writes go through here, so that the cache knows of them.
    async fn write<T>(
        &self,
        guest: ConsumerUuid,
        write: impl Future<Output = Result<T, JournalError>>,
    ) -> Result<T, JournalError> {
        let cached = self.cache.begin_write(guest);
        let written = write.await;
        // An unknown guest is a result like any other: nothing can be committed later.
        if matches!(written, Ok(_) | Err(JournalError::Unknown { .. })) {
            cached.complete();
        }
        written
    }

    fn change(&self, guest: ConsumerUuid, statements: Vec<Statement>) -> JournalFuture<'_, ()> {
        Box::pin(self.write(guest, self.journal.change(guest, statements)))
    }

    fn claimed(
        &self,
        uuid: ConsumerUuid,
        outcome: ClaimOutcome,
    ) -> Result<DeviceClaim, JournalError> {
        match outcome {
            ClaimOutcome::Claimed => Ok(DeviceClaim::Claimed),
            ClaimOutcome::Taken { device, guest } => match guest.parse() {
                Ok(guest) => Ok(DeviceClaim::Taken { device, guest }),
                Err(error) => Err(self.journal.file().damaged(error)),
            },
            ClaimOutcome::Withheld { device, why } => Ok(DeviceClaim::Withheld { device, why }),
            ClaimOutcome::NoSuchGuest => Err(self.journal.unknown(uuid)),
        }
    }

    async fn read_all(&self) -> Result<Vec<Arc<GuestRecord>>, JournalError> {
        let (mut records, stale) = match self.cache.all() {
            CacheLookup::Hit(cached) => cached,
            CacheLookup::Miss(time) => {
                let records = self.journal.records(None).await?.into_all()?;
                let records: Vec<_> = records.into_iter().map(Arc::new).collect();
                self.cache.insert_all(time, &records);
                return Ok(records);
            }
        };
        if !stale.is_empty() {
            for guest in stale {
                records.extend(self.read(guest).await?);
            }
            records.sort_by_key(|record| record.uuid());
        }
        Ok(records)
    }

    async fn read(&self, guest: ConsumerUuid) -> Result<Option<Arc<GuestRecord>>, JournalError> {
        match self.cache.guest(guest) {
            CacheLookup::Hit(record) => Ok(record),
            CacheLookup::Miss(time) => {
                let record = self.journal.record(guest).await?.map(Arc::new);
                self.cache.insert(guest, time, record.as_ref());
                Ok(record)
            }
        }
    }
}

fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value)
        .expect("the journal's values have text keys and whole numbers only")
}

fn step(guest: ConsumerUuid, step: SpawnStep, record: &StepRecord) -> Statement {
    Journal::<GuestRecord>::step_statement(guest, &step, record)
}

struct ClaimDevices<'a> {
    uuid: ConsumerUuid,
    names: &'a BTreeSet<String>,
    devices: &'a BoundDevices,
}

struct ClaimFunction<'a> {
    request: &'a GuestRequest,
    device: &'a str,
}

enum ClaimOutcome {
    Claimed,
    /// Another guest, by the text in its row, has the device.
    Taken {
        device: String,
        guest: String,
    },
    Withheld {
        device: String,
        why: WithheldReason,
    },
    NoSuchGuest,
}

/// Why a guest cannot claim a device; `None` if it can.
async fn claim_obstacle(
    tx: &mut Transaction,
    uuid: &str,
    device: &str,
) -> Result<Option<ClaimOutcome>, SqlError> {
    let owner = Statement::new("SELECT guest FROM device WHERE name = ?").bind(device);
    if let Some(row) = tx.row(owner).await? {
        let guest = row.text(0)?;
        let device = device.to_owned();
        return Ok((guest != uuid).then_some(ClaimOutcome::Taken { device, guest }));
    }
    let withheld = register::withheld_reason(tx, device).await?;
    Ok(withheld.map(|why| ClaimOutcome::Withheld {
        device: device.to_owned(),
        why,
    }))
}

impl Work for ClaimFunction<'_> {
    type Output = ClaimOutcome;
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<ClaimOutcome, SqlError> {
        let uuid = self.request.uuid().to_string();
        if let Some(obstacle) = claim_obstacle(tx, &uuid, self.device).await? {
            return Ok(obstacle);
        }
        let request = replace_request(self.request);
        if tx.execute(request).await?.rows_affected == 0 {
            return Ok(ClaimOutcome::NoSuchGuest);
        }
        let delete = Statement::new("DELETE FROM device WHERE name = ?").bind(self.device);
        tx.execute(delete).await?;
        let insert = Statement::new("INSERT INTO device (name, guest) VALUES (?, ?)")
            .bind(self.device)
            .bind(&uuid);
        tx.execute(insert).await?;
        tx.execute(register::forget_reset_at_deletion(self.device))
            .await?;
        Ok(ClaimOutcome::Claimed)
    }
}

fn replace_request(request: &GuestRequest) -> Statement {
    Statement::new("UPDATE guest SET request = ? WHERE uuid = ?")
        .bind(json(request))
        .bind(request.uuid().to_string())
}

fn replace_overrides(uuid: ConsumerUuid, overrides: &InstanceOverrides) -> Statement {
    let text = (!overrides.is_plain()).then(|| json(overrides));
    Statement::new("UPDATE guest SET life = ? WHERE uuid = ?")
        .bind(text)
        .bind(uuid.to_string())
}

impl Work for ClaimDevices<'_> {
    type Output = ClaimOutcome;
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<ClaimOutcome, SqlError> {
        let uuid = self.uuid.to_string();
        for device in self.names {
            if let Some(obstacle) = claim_obstacle(tx, &uuid, device).await? {
                return Ok(obstacle);
            }
        }
        let own = "UPDATE guest SET devices = ? WHERE uuid = ?";
        let own = Statement::new(own).bind(json(self.devices)).bind(&uuid);
        if tx.execute(own).await?.rows_affected == 0 {
            return Ok(ClaimOutcome::NoSuchGuest);
        }
        let delete = Statement::new("DELETE FROM device WHERE guest = ?").bind(&uuid);
        tx.execute(delete).await?;
        let rows = self.names.iter().map(|name| [name.into(), (&uuid).into()]);
        let insert = "INSERT INTO device (name, guest) VALUES";
        tx.insert_rows(insert, rows.collect(), "").await?;
        for name in self.names {
            tx.execute(register::forget_reset_at_deletion(name)).await?;
        }
        tx.execute(step(self.uuid, SpawnStep::Bind, &StepState::Done.into()))
            .await?;
        Ok(ClaimOutcome::Claimed)
    }
}

impl GuestJournal for SqlJournal {
    fn path(&self) -> String {
        self.journal.file().path().to_owned()
    }

    fn guests(&self) -> JournalFuture<'_, Vec<Arc<GuestRecord>>> {
        Box::pin(self.read_all())
    }

    fn guest(&self, uuid: ConsumerUuid) -> JournalFuture<'_, Option<Arc<GuestRecord>>> {
        Box::pin(self.read(uuid))
    }

    fn accept<'a>(&'a self, request: &'a GuestRequest) -> JournalFuture<'a, AcceptOutcome> {
        Box::pin(async move {
            let (uuid, text) = (request.uuid(), json(request));
            let insert = "INSERT INTO guest (uuid, request, course, power) VALUES (?, ?, ?, ?)";
            let insert = Statement::new(insert)
                .bind(uuid.to_string())
                .bind(&text)
                .bind(json(&Goal::Spawn))
                .bind(request.spec().power.to_string());
            self.write(uuid, self.journal.accept(uuid, &text, insert))
                .await
        })
    }

    fn set_goal<'a>(&'a self, uuid: ConsumerUuid, goal: &'a Goal) -> JournalFuture<'a, ()> {
        let sql = "UPDATE guest SET course = ? WHERE uuid = ? AND course <> ?";
        let statement = Statement::new(sql)
            .bind(json(goal))
            .bind(uuid.to_string())
            .bind(json(&Goal::Destroy));
        self.change(uuid, vec![statement])
    }

    fn set_power(&self, uuid: ConsumerUuid, power: DesiredPower) -> JournalFuture<'_, ()> {
        let statement = Statement::new("UPDATE guest SET power = ? WHERE uuid = ?")
            .bind(power.to_string())
            .bind(uuid.to_string());
        self.change(uuid, vec![statement])
    }

    fn record_step<'a>(
        &'a self,
        uuid: ConsumerUuid,
        name: SpawnStep,
        record: &'a StepRecord,
    ) -> JournalFuture<'a, ()> {
        self.change(uuid, vec![step(uuid, name, record)])
    }

    fn record_overrides<'a>(
        &'a self,
        uuid: ConsumerUuid,
        overrides: &'a InstanceOverrides,
        steps: &'a [(SpawnStep, StepRecord)],
    ) -> JournalFuture<'a, ()> {
        let overrides = replace_overrides(uuid, overrides);
        let steps = steps.iter().map(|(name, record)| step(uuid, *name, record));
        self.change(uuid, std::iter::once(overrides).chain(steps).collect())
    }

    fn claim_devices<'a>(
        &'a self,
        uuid: ConsumerUuid,
        names: &'a BTreeSet<String>,
        devices: &'a BoundDevices,
    ) -> JournalFuture<'a, DeviceClaim> {
        Box::pin(async move {
            let claim = ClaimDevices {
                uuid,
                names,
                devices,
            };
            let outcome = self.write(uuid, self.journal.file().write(&claim)).await?;
            self.claimed(uuid, outcome)
        })
    }

    fn claim_function<'a>(
        &'a self,
        request: &'a GuestRequest,
        device: &'a str,
    ) -> JournalFuture<'a, DeviceClaim> {
        Box::pin(async move {
            let (uuid, claim) = (request.uuid(), ClaimFunction { request, device });
            let outcome = self.write(uuid, self.journal.file().write(&claim)).await?;
            self.claimed(uuid, outcome)
        })
    }

    fn release_function<'a>(
        &'a self,
        request: &'a GuestRequest,
        overrides: &'a InstanceOverrides,
        device: &'a str,
        released: &'a ReleasedDevices,
    ) -> JournalFuture<'a, ()> {
        let uuid = request.uuid();
        let delete = Statement::new("DELETE FROM device WHERE name = ? AND guest = ?")
            .bind(device)
            .bind(uuid.to_string());
        let own = [
            replace_request(request),
            replace_overrides(uuid, overrides),
            delete,
        ];
        let release = register::release_statements(released);
        self.change(uuid, own.into_iter().chain(release).collect())
    }

    fn record_released_devices<'a>(
        &'a self,
        uuid: ConsumerUuid,
        released: &'a ReleasedDevices,
    ) -> JournalFuture<'a, ()> {
        let undone = step(uuid, SpawnStep::Prepare, &StepState::Undone.into());
        let release = register::release_statements(released);
        self.change(uuid, std::iter::once(undone).chain(release).collect())
    }

    fn drop_devices(&self, uuid: ConsumerUuid) -> JournalFuture<'_, ()> {
        let bind = |sql: &'static str| Statement::new(sql).bind(uuid.to_string());
        let statements = vec![
            bind("UPDATE guest SET devices = NULL WHERE uuid = ?"),
            bind("DELETE FROM device WHERE guest = ?"),
            step(uuid, SpawnStep::Bind, &StepState::Undoing.into()),
        ];
        self.change(uuid, statements)
    }

    fn delete_guest(&self, uuid: ConsumerUuid) -> JournalFuture<'_, ()> {
        Box::pin(self.write(uuid, self.journal.delete(uuid)))
    }

    fn try_write(&self) -> JournalFuture<'_, ()> {
        let insert = "INSERT INTO guest (uuid, request, course, power) VALUES ('', '', '', '')";
        let delete = "DELETE FROM guest WHERE uuid = ''";
        let statements = [insert, delete].map(Statement::new);
        Box::pin(self.journal.file().execute(statements.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{guest, request};

    #[tokio::test]
    async fn a_write_of_a_deleted_guest_leaves_no_stale_record_that_every_read_reads_again() {
        let journal = SqlJournal::in_memory().await.unwrap();
        journal.guests().await.unwrap();
        journal.accept(&request(1, &[])).await.unwrap();
        journal.delete_guest(guest(1)).await.unwrap();
        let late = journal.set_power(guest(1), DesiredPower::ShutOff).await;
        assert!(
            matches!(late, Err(JournalError::Unknown { .. })),
            "{late:?}"
        );
        assert_eq!(journal.guests().await.unwrap(), []);
        let CacheLookup::Hit((records, stale)) = journal.cache.all() else {
            panic!("all guests were read")
        };
        assert_eq!((records, stale), (vec![], vec![]));
    }
}
