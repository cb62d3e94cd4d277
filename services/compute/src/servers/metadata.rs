//! Metadata of servers: key-value pairs set by users. The config drive has them, too.

use std::collections::BTreeMap;

use berth_quota::{QuotaLimit, QuotaLimits, QuotaResource};
use berth_store::{Statement, Transaction, Work};
use berth_wire::guest::ConfigDriveChangeBody;
use uuid::Uuid;

use super::{ServerError, drive_updates, rows};
use crate::compute::Compute;
use crate::project_quotas::limits_of;

/// The maximum length of a key or value in bytes; the limit of config drives.
const LONGEST: usize = 255;

/// Validates a key and its value. Returns what is wrong, if anything.
pub(crate) fn check(key: &str, value: &str) -> Option<&'static str> {
    let plain = |one: char| one.is_ascii_alphanumeric() || "-_:. ".contains(one);
    if !(1..=LONGEST).contains(&key.len()) || !key.chars().all(plain) {
        return Some("a key has 1 to 255 letters, digits, blanks, -, _, : and .");
    }
    if value.len() > LONGEST {
        return Some("a value has at most 255 bytes");
    }
    None
}

/// Whether keys that are not given stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Others {
    Stay,
    Go,
}

impl Compute {
    /// Sets metadata. Returns all metadata of the server.
    pub(crate) async fn set_metadata(
        &self,
        uuid: Uuid,
        metadata: BTreeMap<String, String>,
        others: Others,
    ) -> Result<BTreeMap<String, String>, ServerError> {
        let work = SetMetadata {
            uuid,
            metadata,
            others,
            quotas: &self.inner.options.quotas,
        };
        let all = self.tables.write(&work).await?;
        self.send_drive_update(uuid);
        Ok(all)
    }

    pub async fn delete_metadata(&self, uuid: Uuid, key: &str) -> Result<(), ServerError> {
        let key = key.to_owned();
        self.tables.write(&DeleteMetadata { uuid, key }).await?;
        self.send_drive_update(uuid);
        Ok(())
    }
}

/// Refuses more items than the limits of a project allow.
pub(super) fn check_count(
    limits: &QuotaLimits,
    metadata: &BTreeMap<String, String>,
) -> Result<(), ServerError> {
    let limit = limits.of(&QuotaResource::MetadataItems);
    let count = u64::try_from(metadata.len()).unwrap_or(u64::MAX);
    match limit.allows(count) {
        true => Ok(()),
        false => Err(ServerError::ManyMetadata {
            most: QuotaLimit::number(limit),
        }),
    }
}

struct SetMetadata<'a> {
    uuid: Uuid,
    metadata: BTreeMap<String, String>,
    others: Others,
    quotas: &'a QuotaLimits,
}

impl Work for SetMetadata<'_> {
    type Output = BTreeMap<String, String>;
    type Error = ServerError;

    async fn run(&self, tx: &mut Transaction) -> Result<BTreeMap<String, String>, ServerError> {
        let server = rows::lock(tx, self.uuid).await?;
        let mut all = match self.others {
            Others::Stay => server.metadata.clone(),
            Others::Go => BTreeMap::new(),
        };
        all.extend(self.metadata.clone());
        check_count(&limits_of(tx, self.quotas, &server.project_id).await?, &all)?;
        replace(tx, server.id, &all).await?;
        drive_updates::queue(tx, &server, ConfigDriveChangeBody::default()).await?;
        Ok(all)
    }
}

struct DeleteMetadata {
    uuid: Uuid,
    key: String,
}

impl Work for DeleteMetadata {
    type Output = ();
    type Error = ServerError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ServerError> {
        let server = rows::lock(tx, self.uuid).await?;
        let sql = "DELETE FROM compute_server_metadata WHERE server_id = ? AND item = ?";
        let delete = Statement::new(sql).bind(server.id).bind(&self.key);
        if tx.execute(delete).await?.rows_affected == 0 {
            return Err(ServerError::NoMetadata);
        }
        Ok(drive_updates::queue(tx, &server, ConfigDriveChangeBody::default()).await?)
    }
}

pub(super) async fn replace(
    tx: &mut Transaction,
    server: i64,
    metadata: &BTreeMap<String, String>,
) -> Result<(), ServerError> {
    let sql = "DELETE FROM compute_server_metadata WHERE server_id = ?";
    tx.execute(Statement::new(sql).bind(server)).await?;
    put(tx, server, metadata).await
}

pub(super) async fn put(
    tx: &mut Transaction,
    server: i64,
    metadata: &BTreeMap<String, String>,
) -> Result<(), ServerError> {
    for (key, value) in metadata {
        let sql = "INSERT INTO compute_server_metadata (server_id, item, setting) VALUES (?, ?, ?)";
        let insert = Statement::new(sql).bind(server).bind(key).bind(value);
        tx.execute(insert).await?;
    }
    Ok(())
}
