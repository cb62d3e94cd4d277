//! Server groups: which guests are to be together or apart, and where each of them was put.
//!
//! A group is held by its generation and by nothing that could be left behind: a request reads the group whole, chooses by what it
//! read, and puts its guest on a host only if nobody changed the group in between ([`Hosts::place`], before the claim in Placement).
//! Whoever came second reads again and chooses again. So of any number of requests at once each chooses by a group that has all
//! who came before it, and the last of them is told truly that there is no host.

mod absent;
mod place;
mod rules;

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_http::request_id::random_uuid;
use berth_scheduler::HostState;
use berth_scheduler::host_state::Instance;
use berth_scheduler::request::ServerGroup;
use berth_store::{Disposition, Moment, Retryable, Row, SqlError, Statement, Transaction, Work};
use berth_wire::BodyError;
use uuid::Uuid;

use crate::hosts::Hosts;
use crate::store::{TableError, foreign, typed};
pub use absent::PlacedMember;
pub use place::GroupMember;
pub use rules::{GroupPolicy, NewServerGroup};

const COLUMNS: &str =
    "id, uuid, project_id, user_id, name, policy, max_server_per_host, generation, created_at";

/// A group as it is in the database at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptServerGroup {
    pub uuid: Uuid,
    pub project_id: String,
    pub user_id: String,
    /// What its owner calls it.
    pub name: String,
    /// What is wanted of its members.
    pub policy: GroupPolicy,
    /// Of [`GroupPolicy::AntiAffinity`]: so many members may be on one host; 1 where nothing is said.
    pub max_server_per_host: Option<u32>,
    /// Another after each change of its members.
    pub generation: i64,
    /// When it was made, by the database's clock.
    pub created_at: Moment,
    /// The host that each member was put on.
    pub members: BTreeMap<Uuid, String>,
}

impl KeptServerGroup {
    /// As the scheduler reads it, for one of its guests. Where that guest was put before is left out: it may have been put there by
    /// a caller who died before the claim, and is about to be put somewhere again.
    #[must_use]
    pub fn for_instance(&self, instance: Uuid) -> ServerGroup {
        ServerGroup {
            policy: self.policy.as_str().to_owned(),
            members: self.members.keys().map(Uuid::to_string).collect(),
            hosts: self
                .others(instance)
                .map(|(_, host)| host.clone())
                .collect(),
            max_server_per_host: self.max_server_per_host.map(i64::from),
        }
    }

    /// Puts the other members on the hosts that they were put on, where the hosts do not tell of them yet: filters count the
    /// guests that a host has, and a guest is told only when its build has begun.
    pub fn occupy(&self, instance: Uuid, states: &mut [Arc<HostState>]) {
        let mut by_host: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (member, host) in self.others(instance) {
            by_host.entry(host).or_default().push(member.to_string());
        }
        for state in states {
            for member in by_host.get(state.host.as_str()).into_iter().flatten() {
                if !state.instances.contains(member) {
                    let state = Arc::make_mut(state);
                    state.instances.insert(member.clone(), Instance::default());
                }
            }
        }
    }

    fn others(&self, instance: Uuid) -> impl Iterator<Item = (&Uuid, &String)> {
        let members = self.members.iter();
        members.filter(move |(member, _)| **member != instance)
    }
}

/// Why a group could not be made, read or changed.
#[derive(Debug, thiserror::Error)]
pub enum ServerGroupError {
    /// A field is not what it may be.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// There is no such group.
    #[error("there is no server group {group}")]
    NotFound {
        group: Uuid,
    },
    /// Somebody changed the group since it was read: read it again, and choose again.
    #[error("server group {group} is not at generation {generation} any more")]
    Changed {
        group: Uuid,
        generation: i64,
    },
    /// A guest is in one group at most.
    #[error(
        "instance {instance} is a member of server group {other}, and a guest is in one group at most"
    )]
    OtherGroup {
        instance: Uuid,
        /// The group that it is in.
        other: Uuid,
    },
    /// Another conductor boots the guest, or did before its journal was lost.
    #[error(
        "instance {instance} was put in server group {group} by another conductor, which boots it; take another UUID"
    )]
    OtherOwner {
        instance: Uuid,
        group: Uuid,
    },
    #[error(transparent)]
    Table(#[from] TableError),
}

impl From<SqlError> for ServerGroupError {
    fn from(error: SqlError) -> Self {
        Self::Table(error.into())
    }
}

impl ServerGroupError {
    /// What a loop does about it.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Changed { .. } => Disposition::Refresh,
            Self::Table(error) => error.disposition(),
            Self::Body(_)
            | Self::NotFound { .. }
            | Self::OtherGroup { .. }
            | Self::OtherOwner { .. } => Disposition::Fatal,
        }
    }
}

impl Retryable for ServerGroupError {
    fn disposition(&self) -> Disposition {
        match self {
            // The caller has to choose again; the same transaction again would find the same.
            Self::Changed { .. } => Disposition::Fatal,
            other => other.disposition(),
        }
    }
}

impl Hosts {
    /// Makes a group without members.
    pub async fn create_group(
        &self,
        group: NewServerGroup,
    ) -> Result<KeptServerGroup, ServerGroupError> {
        group.check()?;
        let uuid = random_uuid();
        self.tables.write(&Create { uuid, group }).await
    }

    /// A group with all its members, as of one moment.
    pub async fn group(&self, group: Uuid) -> Result<KeptServerGroup, ServerGroupError> {
        one(&mut self.tables.read().await?, group).await
    }

    /// The groups of a project, or all, in the order in which they were made.
    pub async fn groups(
        &self,
        project_id: Option<&str>,
    ) -> Result<Vec<KeptServerGroup>, ServerGroupError> {
        let only = project_id.map_or("", |_| "WHERE g.project_id = ?");
        let mut tx = self.tables.read().await?;
        Ok(read(&mut tx, only, project_id).await?)
    }

    /// Removes a group. Its guests stay where they are.
    pub async fn delete_group(&self, group: Uuid) -> Result<(), ServerGroupError> {
        self.tables.write(&Delete(group)).await
    }
}

struct Create {
    uuid: Uuid,
    group: NewServerGroup,
}

impl Work for Create {
    type Output = KeptServerGroup;
    type Error = ServerGroupError;

    async fn run(&self, tx: &mut Transaction) -> Result<KeptServerGroup, ServerGroupError> {
        let Self { uuid, group } = self;
        let now = tx.dialect().now();
        let sql = format!(
            "INSERT INTO server_groups (uuid, project_id, user_id, name, policy, max_server_per_host, generation, created_at) \
             VALUES (?, ?, ?, ?, ?, ?, 0, {now})"
        );
        let insert = Statement::recurring(sql)
            .bind(uuid.to_string())
            .bind(&group.project_id)
            .bind(&group.user_id)
            .bind(&group.name)
            .bind(group.policy.as_str())
            .bind(group.max_server_per_host.map(i64::from));
        tx.execute(insert).await?;
        one(tx, *uuid).await
    }
}

struct Delete(Uuid);

impl Work for Delete {
    type Output = ();
    type Error = ServerGroupError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ServerGroupError> {
        // Who puts a guest in at the same time comes after, and finds no group.
        let uuid = self.0.to_string();
        let sql = "UPDATE server_groups SET generation = generation + 1 WHERE uuid = ?";
        let touched = tx.execute(Statement::new(sql).bind(&uuid)).await?;
        if touched.rows_affected == 0 {
            return Err(ServerGroupError::NotFound { group: self.0 });
        }
        for sql in [
            "DELETE FROM server_group_members WHERE group_id IN (SELECT id FROM server_groups WHERE uuid = ?)",
            "DELETE FROM server_groups WHERE uuid = ?",
        ] {
            tx.execute(Statement::new(sql).bind(&uuid)).await?;
        }
        Ok(())
    }
}

async fn one(tx: &mut Transaction, group: Uuid) -> Result<KeptServerGroup, ServerGroupError> {
    let uuid = group.to_string();
    let found = read(tx, "WHERE g.uuid = ?", Some(&uuid)).await?.pop();
    found.ok_or(ServerGroupError::NotFound { group })
}

/// The groups of a condition with at most one value.
async fn read(
    tx: &mut Transaction,
    condition: &str,
    value: Option<&str>,
) -> Result<Vec<KeptServerGroup>, TableError> {
    let of_groups = format!("SELECT {COLUMNS} FROM server_groups g {condition} ORDER BY id");
    let rows = tx
        .rows(Statement::recurring(of_groups).bind_all(value))
        .await?;
    let of_members = format!(
        "SELECT m.group_id, m.instance_uuid, m.host FROM server_group_members m \
         JOIN server_groups g ON g.id = m.group_id {condition}"
    );
    let mut members: BTreeMap<i64, BTreeMap<Uuid, String>> = BTreeMap::new();
    for row in tx
        .rows(Statement::recurring(of_members).bind_all(value))
        .await?
    {
        let instance = typed(&row.text(1)?, "server_group_members", "instance_uuid")?;
        members
            .entry(row.int(0)?)
            .or_default()
            .insert(instance, row.text(2)?);
    }
    rows.iter().map(|row| of_row(row, &mut members)).collect()
}

fn of_row(
    row: &Row,
    members: &mut BTreeMap<i64, BTreeMap<Uuid, String>>,
) -> Result<KeptServerGroup, TableError> {
    let (policy, most) = (row.text(5)?, row.opt_int(6)?);
    let most = most.map(|most| {
        u32::try_from(most)
            .map_err(|_| foreign(&most.to_string(), "server_groups", "max_server_per_host"))
    });
    Ok(KeptServerGroup {
        uuid: typed(&row.text(1)?, "server_groups", "uuid")?,
        project_id: row.text(2)?,
        user_id: row.text(3)?,
        name: row.text(4)?,
        policy: typed(&policy, "server_groups", "policy")?,
        max_server_per_host: most.transpose()?,
        generation: row.int(7)?,
        created_at: row.moment(8)?,
        members: members.remove(&row.int(0)?).unwrap_or_default(),
    })
}
