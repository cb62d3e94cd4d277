//! Stores new servers. Handing them to the conductor is a separate step that can be repeated after a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use berth_quota::{GuestResources, QuotaAmounts, QuotaLimits, QuotaResource, server_count};
use berth_store::{Dialect, Statement, Transaction, Work};
use berth_wire::conductor::CreateGuest;
use uuid::Uuid;

use super::rows::{self, ServerSelection};
use super::usage::members_in;
use super::{ServerError, ServerFlavor, ServerRecord, metadata, used_in};
use crate::compute::Compute;
use crate::instance_actions::{self, NewAction};
use crate::project_quotas::{QuotaHolder, limits_of, lock};

/// The number of new servers read per query.
const AT_ONCE: usize = 500;

/// The maximum length of a name in characters.
const NAME: usize = 255;

/// Servers of one request. They differ only in their names.
#[derive(Debug, Clone, PartialEq)]
pub struct NewServers {
    pub project_id: String,
    pub user_id: String,
    /// The name. If there are several servers, each gets `-NUMBER` appended.
    pub name: String,
    /// The largest number of servers, at least 1.
    pub count: u32,
    /// The smallest number of servers. Between the two, as many are created as the quotas allow.
    pub min_count: u32,
    /// What each server will claim, by resource class; `None` if the accelerator service did not say.
    pub resources: Option<GuestResources>,
    pub description: Option<String>,
    /// The name of the key pair.
    pub key_name: Option<String>,
    pub image: Option<Uuid>,
    pub flavor: ServerFlavor,
    pub zone: Option<String>,
    pub server_group: Option<Uuid>,
    /// `AUTO` or `MANUAL`.
    pub disk_config: String,
    pub access_ip_v4: Option<String>,
    pub access_ip_v6: Option<String>,
    pub metadata: BTreeMap<String, String>,
    pub tags: BTreeSet<String>,
    /// The request to the conductor. UUID, name and hostname are filled in for each server.
    pub guest: CreateGuest,
    /// Shown in the history of the servers.
    pub request_id: String,
}

/// One of the new servers, with its own name.
struct NamedServer {
    uuid: Uuid,
    name: String,
    hostname: String,
    /// The request to the conductor, as JSON.
    request: String,
}

impl NewServers {
    fn named(&self, number: u32, count: u32) -> String {
        match count {
            1 => self.name.clone(),
            _ => format!("{}-{number}", self.name),
        }
    }

    fn each(&self, count: u32, reservation_id: &str) -> Vec<NamedServer> {
        let each = |number: u32| {
            let uuid = berth_http::request_id::random_uuid();
            let name = self.named(number, count);
            let hostname = hostname(&name, uuid);
            let mut guest = self.guest.clone();
            guest.uuid = Some(uuid);
            if let Some(drive) = &mut guest.config_drive {
                drive.hostname = Some(hostname.clone());
                drive.name = Some(name.clone());
                drive.launch_index = number - 1;
                drive.reservation_id = Some(reservation_id.to_owned());
            }
            let request = berth_wire::encode(&guest);
            NamedServer {
                uuid,
                name,
                hostname,
                request: String::from_utf8_lossy(&request).into_owned(),
            }
        };
        (1..=count).map(each).collect()
    }

    /// How many of the servers the quotas allow.
    pub(crate) fn count_within(
        &self,
        limits: &QuotaLimits,
        used: &QuotaAmounts,
    ) -> Result<u32, ServerError> {
        if self.resources.is_none() && limits.classes().next().is_some() {
            return Err(ServerError::UnknownResources);
        }
        let each = QuotaAmounts::of_server(&self.flavor.body, self.resources.clone());
        Ok(server_count(
            limits,
            used,
            &each,
            (self.min_count, self.count),
        )?)
    }
}

/// Derives the host name inside the guest from the server's name.
fn hostname(name: &str, uuid: Uuid) -> String {
    let parts = name.chars().filter_map(|one| match one {
        ' ' | '_' | '.' => Some('-'),
        one if one.is_ascii_alphanumeric() || one == '-' => Some(one.to_ascii_lowercase()),
        _ => None,
    });
    let text: String = parts.collect();
    let text: String = text.trim_matches('-').chars().take(63).collect();
    match text.trim_end_matches('-') {
        "" => format!("server-{uuid}"),
        text => text.to_owned(),
    }
}

impl Compute {
    /// Stores the servers, not yet handed over to the conductor, if the quotas of the project allow them.
    pub async fn create_servers(
        &self,
        asked: NewServers,
    ) -> Result<Vec<ServerRecord>, ServerError> {
        self.create_servers_after(asked, None).await
    }

    /// As [`Self::create_servers`]. `generation` is that of the [`super::usage::ProjectUsage`] for which the quota hook
    /// agreed. If other servers of the project were stored since, nothing is stored: [`ServerError::QuotaRaced`].
    pub(crate) async fn create_servers_after(
        &self,
        asked: NewServers,
        generation: Option<i64>,
    ) -> Result<Vec<ServerRecord>, ServerError> {
        let uuid = berth_http::request_id::random_uuid().simple().to_string();
        let reservation_id = format!("r-{}", uuid.get(..8).unwrap_or_default());
        // The last server has the longest name.
        let name = asked.named(asked.count, asked.count);
        if name.chars().count() > NAME {
            return Err(ServerError::LongName { name });
        }
        let create = InsertServers {
            reservation_id,
            owner: self.owner(),
            highest_number: self.inner.highest_number.load(Ordering::Relaxed),
            quotas: &self.inner.options.quotas,
            generation,
            asked,
        };
        self.tables.write(&create).await
    }
}

struct InsertServers<'a> {
    reservation_id: String,
    owner: Uuid,
    /// The highest number in the name of an existing guest. New row numbers must be greater.
    highest_number: i64,
    quotas: &'a QuotaLimits,
    /// No other transaction may have stored servers of the project after the one with this number; `None`: not checked.
    generation: Option<i64>,
    asked: NewServers,
}

impl Work for InsertServers<'_> {
    type Output = Vec<ServerRecord>;
    type Error = ServerError;

    async fn run(&self, tx: &mut Transaction) -> Result<Vec<ServerRecord>, ServerError> {
        let count = self.count(tx).await?;
        let each = self.asked.each(count, &self.reservation_id);
        for (at, one) in (0i64..).zip(&each) {
            self.insert(tx, at, one).await?;
            let action = NewAction {
                server: one.uuid,
                project_id: &self.asked.project_id,
                user_id: &self.asked.user_id,
                request_id: &self.asked.request_id,
                action: "create",
                event: "conductor_schedule_and_build_instances",
                body: None,
            };
            instance_actions::insert(tx, &action).await?;
        }
        let uuids: Vec<Uuid> = each.iter().map(|one| one.uuid).collect();
        let mut servers = Vec::with_capacity(uuids.len());
        for some in uuids.chunks(AT_ONCE) {
            servers.extend(rows::list(tx, ServerSelection::These(some)).await?);
        }
        servers.sort_by_key(|server| server.launch_index);
        Ok(servers)
    }
}

impl InsertServers<'_> {
    /// How many servers the quotas of the project allow. No other transaction adds servers to it before this one ends.
    async fn count(&self, tx: &mut Transaction) -> Result<u32, ServerError> {
        let asked = &self.asked;
        let project = asked.project_id.as_str();
        let generation = lock(tx, QuotaHolder::Project(project)).await?;
        if self.generation.is_some_and(|seen| generation != seen + 1) {
            return Err(ServerError::QuotaRaced);
        }
        let limits = limits_of(tx, self.quotas, project).await?;
        metadata::check_count(&limits, &asked.metadata)?;
        let count = asked.count_within(&limits, &used_in(tx, project).await?)?;
        if let Some(group) = asked.server_group {
            let members = members_in(tx, group).await?.saturating_add(count.into());
            if !limits
                .of(&QuotaResource::ServerGroupMembers)
                .allows(members)
            {
                return Err(ServerError::ManyGroupMembers);
            }
        }
        Ok(count)
    }

    /// The row number to use; `None` if the database may choose it. A guest's name contains its row number. After the
    /// database was lost, it would choose the numbers of existing guests again.
    async fn number(&self, tx: &mut Transaction) -> Result<Option<i64>, ServerError> {
        let highest = "SELECT COALESCE(MAX(id), 0) FROM compute_servers";
        let highest = tx.row(Statement::new(highest)).await?;
        let highest = highest.map_or(Ok(0), |row| row.int(0))?;
        if highest >= self.highest_number {
            return Ok(None);
        }
        if tx.dialect() == Dialect::Postgres {
            // A sequence ignores numbers that were inserted explicitly, so it is advanced.
            let sequence = "pg_get_serial_sequence('compute_servers', 'id')";
            let skip = format!("SELECT setval({sequence}, GREATEST(?, nextval({sequence})))");
            tx.row(Statement::new(skip).bind(self.highest_number))
                .await?;
            return Ok(None);
        }
        Ok(Some(self.highest_number + 1))
    }

    async fn insert(
        &self,
        tx: &mut Transaction,
        at: i64,
        one: &NamedServer,
    ) -> Result<(), ServerError> {
        let asked = &self.asked;
        let flavor = berth_wire::encode(&asked.flavor);
        let resources = asked
            .resources
            .as_ref()
            .map(|resources| String::from_utf8_lossy(&berth_wire::encode(resources)).into_owned());
        let number = self.number(tx).await?;
        let (column, mark) = number.map_or(("", ""), |_| ("id, ", "?, "));
        let sql = format!(
            "INSERT INTO compute_servers ({column}uuid, project_id, user_id, name, hostname, description, reservation_id, launch_index, \
             key_name, image, flavor, resources, zone, server_group, disk_config, access_ip_v4, access_ip_v6, request, owner, handed, \
             deleting, created_at) VALUES ({mark}?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, {})",
            tx.dialect().now()
        );
        let insert = Statement::recurring(sql)
            .bind_all(number)
            .bind(one.uuid.to_string())
            .bind(&asked.project_id)
            .bind(&asked.user_id)
            .bind(&one.name)
            .bind(&one.hostname)
            .bind(asked.description.clone())
            .bind(&self.reservation_id)
            .bind(at)
            .bind(asked.key_name.clone())
            .bind(asked.image.map(|image| image.to_string()))
            .bind(String::from_utf8_lossy(&flavor).into_owned())
            .bind(resources)
            .bind(asked.zone.clone())
            .bind(asked.server_group.map(|group| group.to_string()))
            .bind(&asked.disk_config)
            .bind(asked.access_ip_v4.clone())
            .bind(asked.access_ip_v6.clone())
            .bind(&one.request)
            .bind(self.owner.to_string());
        tx.execute(insert).await?;
        let id = rows::row_id(tx, one.uuid).await?;
        super::metadata::put(tx, id, &asked.metadata).await?;
        super::tags::put(tx, id, &asked.tags).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostname_is_what_a_resolver_takes() {
        let long = "a".repeat(80);
        for (name, expected) in [
            ("web", "web"),
            ("Web_1.example com", "web-1-example-com"),
            ("-x-", "x"),
            ("grün", "grn"),
            (long.as_str(), &long[..63]),
        ] {
            assert_eq!(hostname(name, Uuid::nil()), expected);
        }
        assert_eq!(
            hostname("…", Uuid::nil()),
            "server-00000000-0000-0000-0000-000000000000"
        );
    }
}
