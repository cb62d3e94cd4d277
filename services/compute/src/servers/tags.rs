//! Tags of servers: words set by users.

use std::collections::BTreeSet;

use berth_store::{Statement, Transaction, Work};
use uuid::Uuid;

use super::{ServerError, rows};
use crate::compute::Compute;

/// The maximum number of tags of a server.
pub(crate) const MOST_TAGS: usize = 50;

/// The maximum length of a tag in characters.
pub(crate) const LONGEST_TAG: usize = 60;

/// Validates a tag. Returns what is wrong, if anything.
pub(crate) fn check(tag: &str) -> Option<&'static str> {
    let long = !(1..=LONGEST_TAG).contains(&tag.chars().count());
    (long || tag.contains(['/', ','])).then_some("a tag has 1 to 60 characters, without / and ,")
}

/// The outcome of adding a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TagOutcome {
    New,
    /// The server already had the tag.
    Same,
}

#[derive(Debug, Clone)]
enum TagChange {
    Add(String),
    Remove(String),
    Replace(BTreeSet<String>),
}

impl Compute {
    pub(crate) async fn add_tag(&self, uuid: Uuid, tag: &str) -> Result<TagOutcome, ServerError> {
        self.change_tags(uuid, TagChange::Add(tag.to_owned())).await
    }

    pub async fn remove_tag(&self, uuid: Uuid, tag: &str) -> Result<(), ServerError> {
        let removed = self
            .change_tags(uuid, TagChange::Remove(tag.to_owned()))
            .await;
        removed.map(drop)
    }

    pub async fn replace_tags(
        &self,
        uuid: Uuid,
        tags: BTreeSet<String>,
    ) -> Result<(), ServerError> {
        let replaced = self.change_tags(uuid, TagChange::Replace(tags)).await;
        replaced.map(drop)
    }

    async fn change_tags(&self, uuid: Uuid, change: TagChange) -> Result<TagOutcome, ServerError> {
        self.tables.write(&ApplyTagChange { uuid, change }).await
    }
}

struct ApplyTagChange {
    uuid: Uuid,
    change: TagChange,
}

impl Work for ApplyTagChange {
    type Output = TagOutcome;
    type Error = ServerError;

    async fn run(&self, tx: &mut Transaction) -> Result<TagOutcome, ServerError> {
        let server = rows::lock(tx, self.uuid).await?;
        let mut tags = server.tags.clone();
        match &self.change {
            TagChange::Add(tag) if !tags.insert(tag.clone()) => return Ok(TagOutcome::Same),
            TagChange::Add(_) => {}
            TagChange::Remove(tag) if !tags.remove(tag) => {
                return Err(ServerError::NoTag {
                    uuid: self.uuid,
                    tag: tag.clone(),
                });
            }
            TagChange::Remove(_) => {}
            TagChange::Replace(all) => tags.clone_from(all),
        }
        if tags.len() > MOST_TAGS {
            return Err(ServerError::ManyTags { count: tags.len() });
        }
        let sql = "DELETE FROM compute_server_tags WHERE server_id = ?";
        tx.execute(Statement::new(sql).bind(server.id)).await?;
        put(tx, server.id, &tags).await?;
        Ok(TagOutcome::New)
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
