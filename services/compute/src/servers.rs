//! Servers: what the API alone keeps of each. That there is a guest, and how far it is, is the conductor's to say (`courses`); what
//! it is now, its agent's (`agents`).
//!
//! A server is a row from before its guest is asked for until nobody knows that guest any more; whoever asked is told of it in
//! between, whatever is killed (`keeper`).

mod actions;
mod attributes;
mod create;
mod error;
mod listing;
mod metadata;
mod rows;
mod tags;
mod update;
mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use berth_store::Moment;
use berth_wire::guest::FlavorBody;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub(crate) use actions::{Begin, Besides, Ended};
pub(crate) use attributes::{Attribute, ROOT_DEVICE, Zones, launched_at, zone};
pub use create::NewServers;
pub use error::ServerError;
pub(crate) use listing::{Filters, ServerSortKey, Sorting, TagFilters};
pub(crate) use metadata::{Others, check as check_metadata};
pub(crate) use rows::{Part, Rows, read};
pub(crate) use tags::{MOST_TAGS, Tagged, check as check_tag};
pub(crate) use update::AgentWord;
pub use update::ServerUpdate;
pub(crate) use usage::ServerOnNode;

use crate::compute::Compute;
use crate::server_state::{Seen, TaskState};

/// The most keys of a server's metadata (Nova's quota `metadata_items`), which its config drive takes.
pub(crate) const MOST_METADATA: usize = 128;

/// A flavor as it was when a server was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerFlavor {
    /// Its id in the API.
    pub flavorid: String,
    pub swap: i64,
    /// All else of it, as the guest has it.
    pub body: FlavorBody,
}

/// Who locked a server: only an operator opens what an operator locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locker {
    /// Somebody of its project.
    Owner,
    /// An operator of the cloud.
    Admin,
}

impl Locker {
    /// As its row has it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Admin => "admin",
        }
    }
}

/// A word that is neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("whoever locks is owner or admin")]
pub struct NoLocker;

impl FromStr for Locker {
    type Err = NoLocker;

    fn from_str(word: &str) -> Result<Self, NoLocker> {
        match word {
            "owner" => Ok(Self::Owner),
            "admin" => Ok(Self::Admin),
            _ => Err(NoLocker),
        }
    }
}

/// That a server is locked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    pub by: Locker,
    /// Why, where that was said.
    pub reason: Option<String>,
}

/// How far the row of a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Handed {
    /// The conductor may not know the guest yet. What it is asked for is in the row.
    NotYet {
        request: String,
    },
    /// The conductor knew it.
    Over,
    /// The conductor does not take it, for this reason.
    Refused {
        reason: String,
    },
}

/// A server as it is in the database at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// Another number for each server there ever was.
    pub(crate) id: i64,
    /// Its UUID, which is its guest's.
    pub uuid: Uuid,
    pub project_id: String,
    /// Who asked for it.
    pub user_id: String,
    /// What its users call it.
    pub name: String,
    /// What it calls itself.
    pub hostname: String,
    /// What its users say of it.
    pub description: Option<String>,
    /// Of one request: all of its servers have the same.
    pub reservation_id: String,
    /// Its place among them.
    pub launch_index: i64,
    /// The key pair that it was asked for with.
    pub key_name: Option<String>,
    /// The image that it was made of, or is to be made of anew.
    pub image: Option<Uuid>,
    pub flavor: ServerFlavor,
    /// The availability zone that was asked for.
    pub zone: Option<String>,
    /// The server group that it was asked for in.
    pub server_group: Option<Uuid>,
    /// `AUTO` or `MANUAL`.
    pub disk_config: String,
    /// What its users say of its addresses.
    pub access_ip_v4: Option<String>,
    pub access_ip_v6: Option<String>,
    /// Whether the conductor knows it.
    pub handed: Handed,
    /// Whose journal knows its guest, or is to: the conductor's that it was asked for. None in a row of an earlier release, until
    /// a conductor is seen to know the guest.
    pub(crate) owner: Option<Uuid>,
    /// Whether it is to go.
    pub deleting: bool,
    /// What was asked for through the API and is under way.
    pub task: Option<TaskState>,
    /// What its agent said of it last.
    pub last: Option<Seen>,
    /// Whether it is locked.
    pub lock: Option<Lock>,
    /// When it was asked for, by the database's clock.
    pub created_at: Moment,
    /// When it was changed last.
    pub updated_at: Option<Moment>,
    /// When it was first seen that its boot had come to its end, a good one or not.
    pub settled_at: Option<Moment>,
    /// What its users say of it, by key.
    pub metadata: BTreeMap<String, String>,
    /// The words that its users put on it.
    pub tags: BTreeSet<String>,
}

impl Server {
    /// Its name on the hypervisor, as Nova forms it.
    #[must_use]
    pub fn instance_name(&self) -> String {
        instance_name(self.id)
    }
}

/// The name on the hypervisor of the server with this number.
fn instance_name(id: i64) -> String {
    format!("instance-{id:08x}")
}

/// The number of the server whose name on the hypervisor this is; none of another name.
pub(crate) fn number_of(name: &str) -> Option<i64> {
    let number = name.strip_prefix("instance-");
    let number = number.and_then(|digits| i64::from_str_radix(digits, 16).ok());
    number.filter(|number| instance_name(*number) == name)
}

impl Compute {
    /// The servers of a project, or all; those that were asked for last come first.
    pub async fn servers(&self, project_id: Option<&str>) -> Result<Vec<Server>, ServerError> {
        let mut tx = self.tables.read().await?;
        let rows = match project_id {
            None => Rows::All,
            Some(project) => Rows::Project(project),
        };
        Ok(rows::read(&mut tx, rows).await?)
    }

    /// A part of them, the last asked for first.
    pub(crate) async fn part_of_servers(&self, part: Part<'_>) -> Result<Vec<Server>, ServerError> {
        let mut tx = self.tables.read().await?;
        Ok(rows::read(&mut tx, Rows::Part(part)).await?)
    }

    pub async fn server(&self, uuid: Uuid) -> Result<Server, ServerError> {
        rows::one(&mut self.tables.read().await?, uuid).await
    }
}
