//! The service catalog: service types and endpoint URLs, from the configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use berth_wire::identity::{CatalogEntry, EndpointEntry};

use crate::users::derived;

/// The interface of an endpoint: who it is meant for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndpointInterface {
    Public,
    Internal,
    Admin,
}

impl EndpointInterface {
    pub const ALL: [Self; 3] = [Self::Public, Self::Internal, Self::Admin];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Internal => "internal",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for EndpointInterface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text names no interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an interface is public, internal or admin")]
pub struct InvalidInterface;

impl FromStr for EndpointInterface {
    type Err = InvalidInterface;

    fn from_str(text: &str) -> Result<Self, InvalidInterface> {
        let found = Self::ALL.into_iter().find(|it| it.as_str() == text);
        found.ok_or(InvalidInterface)
    }
}

/// One URL of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub region: String,
    pub interface: EndpointInterface,
    pub url: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogService {
    /// The service type that clients look up: `placement`, `compute`, `accelerator`.
    pub service_type: String,
    /// Its name, for people.
    pub name: String,
    pub endpoints: Vec<Endpoint>,
}

/// The service catalog. Ids are derived from types, names, regions and interfaces, so they are the
/// same after each start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Catalog {
    entries: Vec<CatalogEntry>,
}

impl Catalog {
    /// A catalog of these services, in this order.
    #[must_use]
    pub fn new(services: impl IntoIterator<Item = CatalogService>) -> Self {
        Self {
            entries: services.into_iter().map(entry).collect(),
        }
    }

    /// The services as tokens show them.
    pub(crate) fn entries(&self) -> &[CatalogEntry] {
        &self.entries
    }

    /// Every endpoint with its service.
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = (&CatalogEntry, &EndpointEntry)> {
        self.entries
            .iter()
            .flat_map(|service| service.endpoints.iter().map(move |it| (service, it)))
    }

    /// The names of all regions.
    pub(crate) fn regions(&self) -> Vec<&str> {
        let names: BTreeMap<&str, ()> = self
            .endpoints()
            .map(|(_, endpoint)| (endpoint.region_id.as_str(), ()))
            .collect();
        names.into_keys().collect()
    }
}

fn entry(service: CatalogService) -> CatalogEntry {
    let CatalogService {
        service_type,
        name,
        endpoints,
    } = service;
    let id = derived("service", &[&service_type, &name]);
    let endpoints = endpoints
        .into_iter()
        .map(|endpoint| EndpointEntry {
            id: derived(
                "endpoint",
                &[&id, &endpoint.region, endpoint.interface.as_str()],
            ),
            interface: endpoint.interface.as_str(),
            region_id: endpoint.region.clone(),
            region: endpoint.region,
            url: endpoint.url,
        })
        .collect();
    CatalogEntry {
        endpoints,
        id,
        service_type,
        name,
    }
}
