//! Host aggregates: named groups of hosts with metadata, including availability zones.
//!
//! The metadata key `availability_zone` puts the aggregate's hosts in a zone; all other hosts are in the default
//! zone. A host is in at most one zone, and cannot change its zone while it has guests. Each change is checked
//! against all aggregates, serialised with all other changes, and is applied completely or refused ([`zones`]).

mod aggregate;
mod error;
mod host_index;
mod rows;
mod rules;
mod zones;

use std::collections::{BTreeMap, BTreeSet};

use berth_http::request_id::random_uuid;
use berth_store::{Statement, Transaction, Work};
use uuid::Uuid;

use crate::hosts::Hosts;
pub use aggregate::{AVAILABILITY_ZONE, AggregateUpdate, HostAggregate};
pub use error::HostAggregateError;
pub(crate) use host_index::AggregateIndex;

#[derive(Debug, Clone)]
enum HostAggregateChange {
    Update(AggregateUpdate),
    AddHost(String),
    RemoveHost(String),
}

impl Hosts {
    /// All aggregates, sorted by ID.
    pub async fn aggregates(&self) -> Result<Vec<HostAggregate>, HostAggregateError> {
        Ok(rows::list(&mut self.tables.read().await?).await?)
    }

    pub async fn aggregate(&self, id: i64) -> Result<HostAggregate, HostAggregateError> {
        let mut all = self.aggregates().await?.into_iter();
        let found = all.find(|aggregate| aggregate.id == id);
        found.ok_or(HostAggregateError::NotFound { id })
    }

    /// Creates an aggregate without hosts.
    pub async fn create_aggregate(
        &self,
        name: &str,
        metadata: BTreeMap<String, String>,
    ) -> Result<HostAggregate, HostAggregateError> {
        rules::check_name(name)?;
        for (key, value) in &metadata {
            rules::check_entry(key, value)?;
        }
        let create = CreateAggregate {
            uuid: random_uuid(),
            name,
            metadata,
        };
        self.tables.write_aggregates(&create).await
    }

    /// Changes name or metadata. Returns the changed aggregate.
    ///
    /// Errors: [`HostAggregateError::TwoZones`] if a host would be in two zones, [`HostAggregateError::HasGuests`] if a
    /// host with guests would change its zone.
    pub async fn update_aggregate(
        &self,
        id: i64,
        update: AggregateUpdate,
    ) -> Result<HostAggregate, HostAggregateError> {
        if let Some(name) = &update.name {
            rules::check_name(name)?;
        }
        for (key, value) in &update.metadata {
            match value {
                Some(value) => rules::check_entry(key, value)?,
                None => rules::check_key(key)?,
            }
        }
        self.change(id, HostAggregateChange::Update(update)).await
    }

    /// Adds a host. Returns the changed aggregate.
    pub async fn add_aggregate_host(
        &self,
        id: i64,
        host: &str,
    ) -> Result<HostAggregate, HostAggregateError> {
        self.change(id, HostAggregateChange::AddHost(host.to_owned()))
            .await
    }

    /// Removes a host. Returns the changed aggregate.
    pub async fn remove_aggregate_host(
        &self,
        id: i64,
        host: &str,
    ) -> Result<HostAggregate, HostAggregateError> {
        self.change(id, HostAggregateChange::RemoveHost(host.to_owned()))
            .await
    }

    /// Deletes an aggregate that has no hosts.
    pub async fn delete_aggregate(&self, id: i64) -> Result<(), HostAggregateError> {
        self.tables.write_aggregates(&DeleteAggregate(id)).await
    }

    /// The availability zones with their hosts, including the default zone.
    pub async fn availability_zones(
        &self,
    ) -> Result<BTreeMap<String, BTreeSet<String>>, HostAggregateError> {
        let mut tx = self.tables.read().await?;
        let all = rows::list(&mut tx).await?;
        let default = &self.options.default_availability_zone;
        let mut zones: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let hosts = Statement::new("SELECT host FROM compute_hosts");
        for row in tx.rows(hosts).await? {
            let host = row.text(0)?;
            let zone = zones::zones_of_host(&all, &host).next().unwrap_or(default);
            zones.entry(zone.to_owned()).or_default().insert(host);
        }
        Ok(zones)
    }

    async fn change(
        &self,
        id: i64,
        change: HostAggregateChange,
    ) -> Result<HostAggregate, HostAggregateError> {
        let apply = ApplyAggregateChange {
            id,
            change,
            default_zone: &self.options.default_availability_zone,
        };
        self.tables.write_aggregates(&apply).await
    }
}

struct CreateAggregate<'a> {
    uuid: Uuid,
    name: &'a str,
    metadata: BTreeMap<String, String>,
}

impl Work for CreateAggregate<'_> {
    type Output = HostAggregate;
    type Error = HostAggregateError;

    async fn run(&self, tx: &mut Transaction) -> Result<HostAggregate, HostAggregateError> {
        let all = rows::list(tx).await?;
        rules::check_name_free(&all, self.name)?;
        let id = rows::insert(tx, self.uuid, self.name, &self.metadata).await?;
        find_one(rows::list(tx).await?, id)
    }
}

struct DeleteAggregate(i64);

impl Work for DeleteAggregate {
    type Output = ();
    type Error = HostAggregateError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), HostAggregateError> {
        let aggregate = find_one(rows::list(tx).await?, self.0)?;
        if let Some(host) = aggregate.hosts.first() {
            return Err(HostAggregateError::NotEmpty {
                name: aggregate.name.clone(),
                host: host.clone(),
            });
        }
        let delete = Statement::new("DELETE FROM host_aggregates WHERE id = ?").bind(self.0);
        tx.execute(delete).await?;
        Ok(())
    }
}

struct ApplyAggregateChange<'a> {
    id: i64,
    change: HostAggregateChange,
    default_zone: &'a str,
}

impl Work for ApplyAggregateChange<'_> {
    type Output = HostAggregate;
    type Error = HostAggregateError;

    async fn run(&self, tx: &mut Transaction) -> Result<HostAggregate, HostAggregateError> {
        let before = rows::list(tx).await?;
        let was = find_one(before.clone(), self.id)?;
        let is = self.planned(tx, &before, was.clone()).await?;
        let after = before
            .iter()
            .map(|aggregate| match aggregate.id == self.id {
                true => is.clone(),
                false => aggregate.clone(),
            });
        let moves = zones::zone_changes(&before, &after.collect::<Vec<_>>(), self.default_zone)?;
        for zone_change in moves {
            let guests = rows::count_guests(tx, &zone_change.host).await?;
            if guests > 0 {
                return Err(zone_change.into_error(guests));
            }
        }
        rows::update(tx, &was, &is).await?;
        find_one(rows::list(tx).await?, self.id)
    }
}

impl ApplyAggregateChange<'_> {
    /// The aggregate after the change.
    async fn planned(
        &self,
        tx: &mut Transaction,
        all: &[HostAggregate],
        mut aggregate: HostAggregate,
    ) -> Result<HostAggregate, HostAggregateError> {
        let name = aggregate.name.clone();
        match self.change.clone() {
            HostAggregateChange::Update(update) => {
                if let Some(name) = update.name.filter(|name| *name != aggregate.name) {
                    rules::check_name_free(all, &name)?;
                    aggregate.name = name;
                }
                for (key, value) in update.metadata {
                    match value {
                        Some(value) => aggregate.metadata.insert(key, value),
                        None => aggregate.metadata.remove(&key),
                    };
                }
            }
            HostAggregateChange::AddHost(host) => {
                if !rows::host_exists(tx, &host).await? {
                    return Err(HostAggregateError::NoSuchHost { host });
                }
                if !aggregate.hosts.insert(host.clone()) {
                    return Err(HostAggregateError::HostIsMember { name, host });
                }
            }
            HostAggregateChange::RemoveHost(host) => {
                if !aggregate.hosts.remove(&host) {
                    return Err(HostAggregateError::HostIsNoMember { name, host });
                }
            }
        }
        Ok(aggregate)
    }
}

fn find_one(all: Vec<HostAggregate>, id: i64) -> Result<HostAggregate, HostAggregateError> {
    let mut all = all.into_iter();
    let found = all.find(|aggregate| aggregate.id == id);
    found.ok_or(HostAggregateError::NotFound { id })
}
