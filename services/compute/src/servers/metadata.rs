//! What its users say of a server, by key. A server's config drive has what was said when it was asked for.

use std::collections::BTreeMap;

use berth_store::{Statement, Transaction, Work};
use uuid::Uuid;

use super::{MOST_METADATA, ServerError, rows};
use crate::compute::Compute;

/// The longest key, and the longest value, in bytes: what a config drive takes.
const LONGEST: usize = 255;

/// What is wrong with a key and its value; none where nothing is.
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

/// How new metadata stands to what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Others {
    Stay,
    Go,
}

impl Compute {
    /// Gives a server metadata; all of it, as it is then.
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
        };
        self.tables.write(&work).await
    }

    /// Takes a key from a server.
    pub async fn delete_metadata(&self, uuid: Uuid, key: &str) -> Result<(), ServerError> {
        let key = key.to_owned();
        self.tables.write(&Delete { uuid, key }).await
    }
}

struct SetMetadata {
    uuid: Uuid,
    metadata: BTreeMap<String, String>,
    others: Others,
}

impl Work for SetMetadata {
    type Output = BTreeMap<String, String>;
    type Error = ServerError;

    async fn run(&self, tx: &mut Transaction) -> Result<BTreeMap<String, String>, ServerError> {
        let server = rows::touch(tx, self.uuid).await?;
        let mut all = match self.others {
            Others::Stay => server.metadata,
            Others::Go => BTreeMap::new(),
        };
        all.extend(self.metadata.clone());
        if all.len() > MOST_METADATA {
            return Err(ServerError::ManyMetadata);
        }
        replace(tx, server.id, &all).await?;
        Ok(all)
    }
}

struct Delete {
    uuid: Uuid,
    key: String,
}

impl Work for Delete {
    type Output = ();
    type Error = ServerError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ServerError> {
        let server = rows::touch(tx, self.uuid).await?;
        let sql = "DELETE FROM compute_server_metadata WHERE server_id = ? AND item = ?";
        let delete = Statement::new(sql).bind(server.id).bind(&self.key);
        match tx.execute(delete).await?.rows_affected {
            0 => Err(ServerError::NoMetadata),
            _ => Ok(()),
        }
    }
}

/// This is all of it from now on.
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
