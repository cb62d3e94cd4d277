//! Server groups with their policies, members, and the host of each member.
//!
//! Concurrent placements in one group are serialised by compare-and-swap on the group's generation:
//!
//! ```text
//! read group (generation g) --> choose host --> place_member(g) --> claim in Placement --> confirm_member
//!      ^                                          |
//!      +------------- Changed: generation != g ---+
//! ```
//!
//! There is no lock that a crashed conductor could leave behind. Each placement is chosen from a group state that
//! includes all earlier placements, so a \"no valid host\" is correct even under concurrency.

mod placement;
mod rules;
mod stale_members;

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_http::request_id::random_uuid;
use berth_scheduler::HostState;
use berth_scheduler::host_state::Instance;
use berth_scheduler::request::ServerGroup;
use berth_store::{
    Disposition, Retryable, Row, SqlError, SqlTimestamp, Statement, Transaction, Work,
};
use berth_wire::BodyError;
use uuid::Uuid;

use crate::hosts::Hosts;
use crate::store::{HostTableError, typed, unexpected_value};
pub use placement::GroupMember;
pub use rules::{NewServerGroup, ServerGroupPolicy};
pub use stale_members::PlacedMember;

const COLUMNS: &str =
    "id, uuid, project_id, user_id, name, policy, max_server_per_host, generation, created_at";

/// A server group as stored, with its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredServerGroup {
    pub uuid: Uuid,
    pub project_id: String,
    pub user_id: String,
    pub name: String,
    pub policy: ServerGroupPolicy,
    /// Maximum number of members on one host, for [`ServerGroupPolicy::AntiAffinity`]; `None` means 1.
    pub max_server_per_host: Option<u32>,
    /// Increases with each change of the members.
    pub generation: i64,
    /// When it was made, by the database's clock.
    pub created_at: SqlTimestamp,
    /// Members with their hosts.
    pub members: BTreeMap<Uuid, String>,
}

impl StoredServerGroup {
    /// The group as input of the scheduler for one of its instances. The instance's own host is left out: it may
    /// stem from a conductor that crashed before the claim, and the instance is being placed again.
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

    /// Adds the other members to the states of their hosts, unless the hosts already report them. Filters count
    /// the guests of a host, and an agent reports a guest only after its build has begun.
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

/// Error of creating, reading or changing a group.
#[derive(Debug, thiserror::Error)]
pub enum ServerGroupError {
    /// A field is invalid.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The project has as many groups as it may have. The text is Nova's.
    #[error("Quota exceeded, too many server groups.")]
    TooMany,
    #[error("server group {group} not found")]
    NotFound { group: Uuid },
    /// The group was changed since it was read: read it again and choose again.
    #[error("server group {group} was changed concurrently: generation {generation} is outdated")]
    Changed { group: Uuid, generation: i64 },
    /// The instance is a member of another group.
    #[error(
        "instance {instance} is already a member of server group {other}; an instance can be in only one group"
    )]
    OtherGroup { instance: Uuid, other: Uuid },
    /// Another conductor placed the instance.
    #[error(
        "instance {instance} was placed in server group {group} by another conductor, which boots it; use another UUID"
    )]
    OtherOwner { instance: Uuid, group: Uuid },
    #[error(transparent)]
    Table(#[from] HostTableError),
}

impl From<SqlError> for ServerGroupError {
    fn from(error: SqlError) -> Self {
        Self::Table(error.into())
    }
}

impl ServerGroupError {
    /// How a caller's loop continues after the error.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Changed { .. } => Disposition::Refresh,
            Self::Table(error) => error.disposition(),
            Self::Body(_)
            | Self::TooMany
            | Self::NotFound { .. }
            | Self::OtherGroup { .. }
            | Self::OtherOwner { .. } => Disposition::Fatal,
        }
    }
}

impl Retryable for ServerGroupError {
    fn disposition(&self) -> Disposition {
        match self {
            // The caller must choose again; repeating the transaction would fail again.
            Self::Changed { .. } => Disposition::Fatal,
            other => other.disposition(),
        }
    }
}

impl Hosts {
    /// Creates a group without members. `most` is the largest number of groups of its project, if there is a limit.
    pub async fn create_group(
        &self,
        group: NewServerGroup,
        most: Option<u64>,
    ) -> Result<StoredServerGroup, ServerGroupError> {
        group.check()?;
        let uuid = random_uuid();
        self.tables.write(&CreateGroup { uuid, group, most }).await
    }

    /// A group with its members, read in one transaction.
    pub async fn group(&self, group: Uuid) -> Result<StoredServerGroup, ServerGroupError> {
        find_group(&mut self.tables.read().await?, group).await
    }

    /// The groups of a project, or all groups, in order of creation.
    pub async fn groups(
        &self,
        project_id: Option<&str>,
    ) -> Result<Vec<StoredServerGroup>, ServerGroupError> {
        let only = project_id.map_or("", |_| "WHERE g.project_id = ?");
        let mut tx = self.tables.read().await?;
        Ok(read_groups(&mut tx, only, project_id).await?)
    }

    /// Deletes a group. Its guests are not changed.
    pub async fn delete_group(&self, group: Uuid) -> Result<(), ServerGroupError> {
        self.tables.write(&DeleteGroup(group)).await
    }
}

struct CreateGroup {
    uuid: Uuid,
    group: NewServerGroup,
    most: Option<u64>,
}

impl CreateGroup {
    /// Counts the groups of the project. No other group is created before this transaction ends.
    async fn check_count(&self, tx: &mut Transaction) -> Result<(), ServerGroupError> {
        let Some(most) = self.most else {
            return Ok(());
        };
        let one_at_a_time = "UPDATE compute_hosts_schema SET version = version";
        tx.execute(Statement::new(one_at_a_time)).await?;
        let sql = "SELECT COUNT(*) FROM server_groups WHERE project_id = ?";
        let row = tx
            .row(Statement::new(sql).bind(&self.group.project_id))
            .await?;
        let count = row.map_or(Ok(0), |row| row.int(0))?;
        match u64::try_from(count).unwrap_or_default() < most {
            true => Ok(()),
            false => Err(ServerGroupError::TooMany),
        }
    }
}

impl Work for CreateGroup {
    type Output = StoredServerGroup;
    type Error = ServerGroupError;

    async fn run(&self, tx: &mut Transaction) -> Result<StoredServerGroup, ServerGroupError> {
        self.check_count(tx).await?;
        let Self { uuid, group, .. } = self;
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
        find_group(tx, *uuid).await
    }
}

struct DeleteGroup(Uuid);

impl Work for DeleteGroup {
    type Output = ();
    type Error = ServerGroupError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ServerGroupError> {
        // Changing the generation first makes concurrent placements fail with `NotFound`.
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

async fn find_group(
    tx: &mut Transaction,
    group: Uuid,
) -> Result<StoredServerGroup, ServerGroupError> {
    let uuid = group.to_string();
    let found = read_groups(tx, "WHERE g.uuid = ?", Some(&uuid))
        .await?
        .pop();
    found.ok_or(ServerGroupError::NotFound { group })
}

/// Reads the groups that match a condition with at most one parameter.
async fn read_groups(
    tx: &mut Transaction,
    condition: &str,
    value: Option<&str>,
) -> Result<Vec<StoredServerGroup>, HostTableError> {
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
    rows.iter()
        .map(|row| group_from_row(row, &mut members))
        .collect()
}

fn group_from_row(
    row: &Row,
    members: &mut BTreeMap<i64, BTreeMap<Uuid, String>>,
) -> Result<StoredServerGroup, HostTableError> {
    let (policy, most) = (row.text(5)?, row.opt_int(6)?);
    let most = most.map(|most| {
        u32::try_from(most).map_err(|_| {
            unexpected_value(&most.to_string(), "server_groups", "max_server_per_host")
        })
    });
    Ok(StoredServerGroup {
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
