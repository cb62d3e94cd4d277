//! Server rows: the properties of a server that only the API stores. Whether the guest exists and how far its boot is,
//! the conductor knows (`server_status`); the guest's current state, its agent knows (`agents`).
//!
//! Life of a row:
//!
//! ```text
//! created --> handed to the conductor --> settled (boot ended) --> deleting --> removed once the guest is gone
//!        \--> refused by the conductor ---------------------------/
//! ```
//!
//! The row exists before the guest is requested from the conductor, and until the conductor no longer has the guest. Each step survives
//! a crash: `server_reconciler` continues unfinished rows.

mod actions;
mod attributes;
mod create;
mod drive_updates;
mod error;
mod listing;
mod metadata;
mod rows;
mod tags;
mod update;
mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use berth_networks::PortOwner;
use berth_store::SqlTimestamp;
use berth_wire::guest::FlavorBody;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub(crate) use actions::{ActionChanges, ActionEnd, ServerActionStart};
pub(crate) use attributes::{ROOT_DEVICE, ServerAttribute, Zones, launched_at, zone};
pub use create::NewServers;
pub(crate) use drive_updates::PendingDriveUpdates;
pub use error::ServerError;
pub(crate) use listing::{ServerFilters, ServerSortKey, ServerSortOrder, TagFilters};
pub(crate) use metadata::{Others, check as check_metadata};
pub(crate) use rows::{ServerPage, ServerSelection, list};
pub(crate) use tags::{MOST_TAGS, TagOutcome, check as check_tag};
pub use update::ServerUpdate;
pub(crate) use update::StoredAgentReport;
pub(crate) use usage::{ServerOnNode, used_in};

use crate::compute::Compute;
use crate::server_state::{GuestObservation, TaskState};

/// The flavor of a server, as it was when the server was created. Stored as JSON: the guest API's form, and what only the
/// compute API shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerFlavor {
    /// The id in the API.
    pub flavorid: String,
    /// Swap in MiB, as in `body`: earlier releases read it here.
    pub swap: i64,
    /// The other properties, in the form of the guest API.
    pub body: FlavorBody,
}

/// Who locked a server. Only operators may release an operator's lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locker {
    /// A user of the server's project.
    Owner,
    /// An operator of the cloud.
    Admin,
}

impl Locker {
    /// The value in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Admin => "admin",
        }
    }
}

/// The text is neither `owner` nor `admin`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a server is locked by `owner` or `admin`")]
pub struct UnknownLocker;

impl FromStr for Locker {
    type Err = UnknownLocker;

    fn from_str(word: &str) -> Result<Self, UnknownLocker> {
        match word {
            "owner" => Ok(Self::Owner),
            "admin" => Ok(Self::Admin),
            _ => Err(UnknownLocker),
        }
    }
}

/// A lock on a server: most actions are refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    pub by: Locker,
    /// The reason, if one was given.
    pub reason: Option<String>,
}

/// Whether the conductor has accepted the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConductorHandoff {
    /// Not handed over yet, or the answer was lost.
    Pending {
        request: String,
    },
    Accepted,
    Refused {
        reason: String,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct ServerRecord {
    /// The row number, never reused. Part of the instance name.
    pub(crate) id: i64,
    /// The same as the UUID of its guest.
    pub uuid: Uuid,
    pub project_id: String,
    /// The user who created the server.
    pub user_id: String,
    pub name: String,
    /// The host name inside the guest.
    pub hostname: String,
    pub description: Option<String>,
    /// Identifies the request; all servers of one request have the same.
    pub reservation_id: String,
    /// The index within the request.
    pub launch_index: i64,
    /// The name of the key pair given at creation.
    pub key_name: Option<String>,
    /// The image of the root disk; during a rebuild the new one.
    pub image: Option<Uuid>,
    pub flavor: ServerFlavor,
    /// The requested availability zone.
    pub zone: Option<String>,
    /// The requested server group.
    pub server_group: Option<Uuid>,
    /// `AUTO` or `MANUAL`.
    pub disk_config: String,
    /// An address that users store here. Berth does not use it.
    pub access_ip_v4: Option<String>,
    pub access_ip_v6: Option<String>,
    pub handoff: ConductorHandoff,
    /// The journal of the conductor that the server was handed to. `None` in rows of earlier releases, until a
    /// conductor reports the guest.
    pub(crate) owner: Option<Uuid>,
    /// Whether the server is being deleted.
    pub deleting: bool,
    pub task: Option<TaskState>,
    /// The last report of its agent.
    pub last_report: Option<GuestObservation>,
    pub lock: Option<Lock>,
    pub created_at: SqlTimestamp,
    pub updated_at: Option<SqlTimestamp>,
    /// When the end of the boot was first observed, successful or not.
    pub settled_at: Option<SqlTimestamp>,
    pub metadata: BTreeMap<String, String>,
    pub tags: BTreeSet<String>,
}

impl ServerRecord {
    /// The server as the owner of its ports.
    pub(crate) fn port_owner(&self) -> PortOwner<'_> {
        PortOwner {
            server: self.uuid,
            project_id: &self.project_id,
        }
    }

    /// The name of the guest on the hypervisor, in Nova's format.
    #[must_use]
    pub fn instance_name(&self) -> String {
        instance_name(self.id)
    }
}

fn instance_name(id: i64) -> String {
    format!("instance-{id:08x}")
}

/// Parses an instance name; `None` for other names.
pub(crate) fn number_of(name: &str) -> Option<i64> {
    let number = name.strip_prefix("instance-");
    let number = number.and_then(|digits| i64::from_str_radix(digits, 16).ok());
    number.filter(|number| instance_name(*number) == name)
}

impl Compute {
    /// The servers of a project, or all, newest first.
    pub async fn servers(
        &self,
        project_id: Option<&str>,
    ) -> Result<Vec<ServerRecord>, ServerError> {
        let mut tx = self.tables.read().await?;
        let rows = match project_id {
            None => ServerSelection::All,
            Some(project) => ServerSelection::Project(project),
        };
        Ok(rows::list(&mut tx, rows).await?)
    }

    /// One page of servers, newest first.
    pub(crate) async fn server_page(
        &self,
        part: ServerPage<'_>,
    ) -> Result<Vec<ServerRecord>, ServerError> {
        let mut tx = self.tables.read().await?;
        Ok(rows::list(&mut tx, ServerSelection::Part(part)).await?)
    }

    pub async fn server(&self, uuid: Uuid) -> Result<ServerRecord, ServerError> {
        rows::find(&mut self.tables.read().await?, uuid).await
    }
}
