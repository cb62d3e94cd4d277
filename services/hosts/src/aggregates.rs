//! Host aggregates: keys and values that operators of the cloud give to groups of hosts, availability zones among them.
//!
//! A zone is an aggregate's `availability_zone`, and a host of no such aggregate is in the default zone. A host is in one zone at
//! most, and it stays there while it has guests. Each change is planned on all aggregates as they are, with nobody else changing
//! one, and is refused or made as a whole ([`zones`]).

mod error;
mod of_hosts;
mod rows;
mod rules;
mod zones;

use std::collections::{BTreeMap, BTreeSet};

use berth_http::request_id::random_uuid;
use berth_store::{Moment, Statement, Transaction, Work};
use uuid::Uuid;

use crate::hosts::Hosts;
use crate::store::TableError;
pub use error::AggregateError;
pub(crate) use of_hosts::HostAggregates;

/// The key of metadata that names an availability zone.
pub const AVAILABILITY_ZONE: &str = "availability_zone";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostAggregate {
    /// Its number, which is its name in the API.
    pub id: i64,
    /// Its UUID, which an aggregate of Placement has as well.
    pub uuid: Uuid,
    /// What operators call it.
    pub name: String,
    /// What filters and weighers read.
    pub metadata: BTreeMap<String, String>,
    pub hosts: BTreeSet<String>,
    /// When it was made, by the database's clock.
    pub created_at: Moment,
    /// When its name or metadata were changed.
    pub updated_at: Option<Moment>,
}

impl HostAggregate {
    /// The zone that its hosts are in by it.
    #[must_use]
    pub fn availability_zone(&self) -> Option<&str> {
        self.metadata.get(AVAILABILITY_ZONE).map(String::as_str)
    }
}

/// What is to be changed of an aggregate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AggregateUpdate {
    pub name: Option<String>,
    /// New values by key; none takes the key away.
    pub metadata: BTreeMap<String, Option<String>>,
}

/// A change of one aggregate.
#[derive(Debug, Clone)]
enum Change {
    Update(AggregateUpdate),
    AddHost(String),
    RemoveHost(String),
}

impl Hosts {
    /// All aggregates, by number.
    pub async fn aggregates(&self) -> Result<Vec<HostAggregate>, AggregateError> {
        Ok(rows::all(&mut self.tables.read().await?).await?)
    }

    pub async fn aggregate(&self, id: i64) -> Result<HostAggregate, AggregateError> {
        let mut all = self.aggregates().await?.into_iter();
        let found = all.find(|aggregate| aggregate.id == id);
        found.ok_or(AggregateError::NotFound { id })
    }

    /// Makes an aggregate without hosts.
    pub async fn create_aggregate(
        &self,
        name: &str,
        metadata: BTreeMap<String, String>,
    ) -> Result<HostAggregate, AggregateError> {
        rules::name(name)?;
        for (key, value) in &metadata {
            rules::entry(key, value)?;
        }
        let create = Create {
            uuid: random_uuid(),
            name,
            metadata,
        };
        self.tables.write_aggregates(&create).await
    }

    /// Changes name or metadata; the aggregate as it is then.
    ///
    /// # Errors
    /// As [`Hosts::create_aggregate`]; [`AggregateError::TwoZones`] and [`AggregateError::HasGuests`] where one of its hosts would
    /// come into a second zone, or leave its zone with guests.
    pub async fn update_aggregate(
        &self,
        id: i64,
        update: AggregateUpdate,
    ) -> Result<HostAggregate, AggregateError> {
        if let Some(name) = &update.name {
            rules::name(name)?;
        }
        for (key, value) in &update.metadata {
            match value {
                Some(value) => rules::entry(key, value)?,
                None => rules::key(key)?,
            }
        }
        self.change(id, Change::Update(update)).await
    }

    /// Puts a host in; the aggregate as it is then.
    pub async fn add_aggregate_host(
        &self,
        id: i64,
        host: &str,
    ) -> Result<HostAggregate, AggregateError> {
        self.change(id, Change::AddHost(host.to_owned())).await
    }

    /// Takes a host out; the aggregate as it is then.
    pub async fn remove_aggregate_host(
        &self,
        id: i64,
        host: &str,
    ) -> Result<HostAggregate, AggregateError> {
        self.change(id, Change::RemoveHost(host.to_owned())).await
    }

    /// Removes an aggregate without hosts.
    pub async fn delete_aggregate(&self, id: i64) -> Result<(), AggregateError> {
        self.tables.write_aggregates(&Delete(id)).await
    }

    /// The availability zones with the hosts in each, the default zone's too.
    pub async fn availability_zones(
        &self,
    ) -> Result<BTreeMap<String, BTreeSet<String>>, AggregateError> {
        let mut tx = self.tables.read().await?;
        let all = rows::all(&mut tx).await?;
        let default = &self.options.default_availability_zone;
        let mut zones: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let hosts = Statement::new("SELECT host FROM compute_hosts");
        for row in tx.rows(hosts).await? {
            let host = row.text(0)?;
            let zone = zones::of_host(&all, &host).next().unwrap_or(default);
            zones.entry(zone.to_owned()).or_default().insert(host);
        }
        Ok(zones)
    }

    async fn change(&self, id: i64, change: Change) -> Result<HostAggregate, AggregateError> {
        let apply = Apply {
            id,
            change,
            default_zone: &self.options.default_availability_zone,
        };
        self.tables.write_aggregates(&apply).await
    }
}

struct Create<'a> {
    uuid: Uuid,
    name: &'a str,
    metadata: BTreeMap<String, String>,
}

impl Work for Create<'_> {
    type Output = HostAggregate;
    type Error = AggregateError;

    async fn run(&self, tx: &mut Transaction) -> Result<HostAggregate, AggregateError> {
        let all = rows::all(tx).await?;
        rules::is_free(&all, self.name)?;
        let id = rows::insert(tx, self.uuid, self.name, &self.metadata).await?;
        one(rows::all(tx).await?, id)
    }
}

struct Delete(i64);

impl Work for Delete {
    type Output = ();
    type Error = AggregateError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), AggregateError> {
        let aggregate = one(rows::all(tx).await?, self.0)?;
        if let Some(host) = aggregate.hosts.first() {
            return Err(AggregateError::NotEmpty {
                name: aggregate.name.clone(),
                host: host.clone(),
            });
        }
        let delete = Statement::new("DELETE FROM host_aggregates WHERE id = ?").bind(self.0);
        tx.execute(delete).await?;
        Ok(())
    }
}

struct Apply<'a> {
    id: i64,
    change: Change,
    default_zone: &'a str,
}

impl Work for Apply<'_> {
    type Output = HostAggregate;
    type Error = AggregateError;

    async fn run(&self, tx: &mut Transaction) -> Result<HostAggregate, AggregateError> {
        let before = rows::all(tx).await?;
        let was = one(before.clone(), self.id)?;
        let is = self.planned(tx, &before, was.clone()).await?;
        let after = before
            .iter()
            .map(|aggregate| match aggregate.id == self.id {
                true => is.clone(),
                false => aggregate.clone(),
            });
        let moves = zones::moves(&before, &after.collect::<Vec<_>>(), self.default_zone)?;
        for zone_change in moves {
            let guests = rows::guests(tx, &zone_change.host).await?;
            if guests > 0 {
                return Err(zone_change.refused(guests));
            }
        }
        rows::write(tx, &was, &is).await?;
        one(rows::all(tx).await?, self.id)
    }
}

impl Apply<'_> {
    /// The aggregate as it is to be.
    async fn planned(
        &self,
        tx: &mut Transaction,
        all: &[HostAggregate],
        mut aggregate: HostAggregate,
    ) -> Result<HostAggregate, AggregateError> {
        let name = aggregate.name.clone();
        match self.change.clone() {
            Change::Update(update) => {
                if let Some(name) = update.name.filter(|name| *name != aggregate.name) {
                    rules::is_free(all, &name)?;
                    aggregate.name = name;
                }
                for (key, value) in update.metadata {
                    match value {
                        Some(value) => aggregate.metadata.insert(key, value),
                        None => aggregate.metadata.remove(&key),
                    };
                }
            }
            Change::AddHost(host) => {
                if !rows::is_host(tx, &host).await? {
                    return Err(AggregateError::NoSuchHost { host });
                }
                if !aggregate.hosts.insert(host.clone()) {
                    return Err(AggregateError::HostIsMember { name, host });
                }
            }
            Change::RemoveHost(host) => {
                if !aggregate.hosts.remove(&host) {
                    return Err(AggregateError::HostIsNoMember { name, host });
                }
            }
        }
        Ok(aggregate)
    }
}

fn one(all: Vec<HostAggregate>, id: i64) -> Result<HostAggregate, AggregateError> {
    let mut all = all.into_iter();
    let found = all.find(|aggregate| aggregate.id == id);
    found.ok_or(AggregateError::NotFound { id })
}

/// The keys and values of a row.
fn metadata(text: &str) -> Result<BTreeMap<String, String>, TableError> {
    let read = serde_json::from_str(text);
    read.map_err(|_| crate::store::foreign(text, "host_aggregates", "metadata"))
}
