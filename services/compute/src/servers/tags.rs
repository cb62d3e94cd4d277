//! The words that its users put on a server.

use std::collections::BTreeSet;

use berth_store::{Statement, Transaction, Work};
use uuid::Uuid;

use super::{ServerError, rows};
use crate::compute::Compute;

/// The most tags of a server.
pub(crate) const MOST_TAGS: usize = 50;

/// Characters of a tag, at most.
pub(crate) const LONGEST_TAG: usize = 60;

/// What is wrong with a tag; none where nothing is.
pub(crate) fn check(tag: &str) -> Option<&'static str> {
    let long = !(1..=LONGEST_TAG).contains(&tag.chars().count());
    (long || tag.contains(['/', ',']))
        .then_some("a tag has 1 to 60 characters, and neither / nor , among them")
}

/// What becomes of a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tagged {
    /// It was put there.
    New,
    /// It was there before.
    Same,
}

/// What is to become of a server's tags.
#[derive(Debug, Clone)]
enum Change {
    Add(String),
    Remove(String),
    Replace(BTreeSet<String>),
}

impl Compute {
    /// Puts a tag on a server.
    pub(crate) async fn add_tag(&self, uuid: Uuid, tag: &str) -> Result<Tagged, ServerError> {
        self.change_tags(uuid, Change::Add(tag.to_owned())).await
    }

    /// Takes a tag off a server.
    pub async fn remove_tag(&self, uuid: Uuid, tag: &str) -> Result<(), ServerError> {
        let removed = self.change_tags(uuid, Change::Remove(tag.to_owned())).await;
        removed.map(drop)
    }

    /// Puts these tags on a server, and no others.
    pub async fn replace_tags(
        &self,
        uuid: Uuid,
        tags: BTreeSet<String>,
    ) -> Result<(), ServerError> {
        let replaced = self.change_tags(uuid, Change::Replace(tags)).await;
        replaced.map(drop)
    }

    async fn change_tags(&self, uuid: Uuid, change: Change) -> Result<Tagged, ServerError> {
        self.tables.write(&Apply { uuid, change }).await
    }
}

struct Apply {
    uuid: Uuid,
    change: Change,
}

impl Work for Apply {
    type Output = Tagged;
    type Error = ServerError;

    async fn run(&self, tx: &mut Transaction) -> Result<Tagged, ServerError> {
        let server = rows::touch(tx, self.uuid).await?;
        let mut tags = server.tags.clone();
        match &self.change {
            Change::Add(tag) if !tags.insert(tag.clone()) => return Ok(Tagged::Same),
            Change::Add(_) => {}
            Change::Remove(tag) if !tags.remove(tag) => {
                return Err(ServerError::NoTag {
                    uuid: self.uuid,
                    tag: tag.clone(),
                });
            }
            Change::Remove(_) => {}
            Change::Replace(all) => tags.clone_from(all),
        }
        if tags.len() > MOST_TAGS {
            return Err(ServerError::ManyTags { count: tags.len() });
        }
        let sql = "DELETE FROM compute_server_tags WHERE server_id = ?";
        tx.execute(Statement::new(sql).bind(server.id)).await?;
        put(tx, server.id, &tags).await?;
        Ok(Tagged::New)
    }
}

pub(super) async fn put(
    tx: &mut Transaction,
    server: i64,
    tags: &BTreeSet<String>,
) -> Result<(), ServerError> {
    for tag in tags {
        let sql = "INSERT INTO compute_server_tags (server_id, tag) VALUES (?, ?)";
        tx.execute(Statement::new(sql).bind(server).bind(tag))
            .await?;
    }
    Ok(())
}
