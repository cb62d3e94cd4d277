//! Members of groups who are nowhere: their conductor's journal was lost, and nobody else takes them out.
//!
//! Whether one is, is seen from outside: no host tells of it, and Placement has nothing for it (that the caller asks). A conductor that
//! stands still between place and claim looks the same, so it asks after the claim whether its guest still has the place
//! ([`Hosts::claimed`]); one of the two comes first, and the other one sees it.

use super::ServerGroupError;
use super::place::{GroupMember, id, touch};
use crate::hosts::Hosts;
use crate::store::{TableError, typed};
use berth_store::{Row, Statement, Transaction, Work};

/// A member as it was placed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlacedMember {
    /// Who it is, and whose.
    pub member: GroupMember,
    pub host: String,
    /// Whether its owner has claimed it there ([`Hosts::claimed`]).
    pub is_claimed: bool,
}

impl Hosts {
    /// The members of all groups of whom no host tells.
    pub async fn untold_members(&self) -> Result<Vec<PlacedMember>, TableError> {
        let mut placed = read(&mut self.tables.read().await?).await?;
        if placed.is_empty() {
            return Ok(placed);
        }
        let told = self.told_instances().await?;
        placed.retain(|placed| !told.contains(&placed.member.instance.to_string()));
        Ok(placed)
    }

    /// Takes out a member who is nowhere, if it is still as it was read; whether it was.
    pub async fn remove_absent(&self, placed: &PlacedMember) -> Result<bool, ServerGroupError> {
        self.tables.write(&Remove(placed)).await
    }
}

async fn read(tx: &mut Transaction) -> Result<Vec<PlacedMember>, TableError> {
    let sql = "SELECT g.uuid, m.instance_uuid, m.owner, m.host, m.claimed FROM server_group_members m \
               JOIN server_groups g ON g.id = m.group_id";
    let rows = tx.rows(Statement::new(sql)).await?;
    let of_members = |row: &Row, at: usize, column| {
        let text = row.text(at)?;
        typed(&text, "server_group_members", column)
    };
    let placed = rows.iter().map(|row| {
        Ok(PlacedMember {
            member: GroupMember {
                group: typed(&row.text(0)?, "server_groups", "uuid")?,
                instance: of_members(row, 1, "instance_uuid")?,
                owner: of_members(row, 2, "owner")?,
            },
            host: row.text(3)?,
            is_claimed: row.int(4)? != 0,
        })
    });
    placed.collect()
}

struct Remove<'a>(&'a PlacedMember);

impl Work for Remove<'_> {
    type Output = bool;
    type Error = ServerGroupError;

    async fn run(&self, tx: &mut Transaction) -> Result<bool, ServerGroupError> {
        let PlacedMember {
            member,
            host,
            is_claimed,
        } = self.0;
        touch(tx, member.group).await?;
        let Some(id) = id(tx, member.group).await? else {
            return Ok(false);
        };
        let sql = "DELETE FROM server_group_members \
                   WHERE instance_uuid = ? AND owner = ? AND host = ? AND claimed = ? AND group_id = ?";
        let delete = Statement::new(sql)
            .bind(member.instance.to_string())
            .bind(member.owner.to_string())
            .bind(host)
            .bind(i64::from(*is_claimed))
            .bind(id);
        Ok(tx.execute(delete).await?.rows_affected == 1)
    }
}
