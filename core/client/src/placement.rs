//! Placement's calls in model types. Every call pins the microversion it needs ([`pins`]) and sends one request, except
//! where its documentation says so; nothing is discovered unless asked.
//!
//! | file | calls |
//! |---|---|
//! | `providers` | the tree, one provider, sharing providers, create, rename, delete |
//! | `inventories` | inventories, usages |
//! | `names` | traits and resource classes, aggregates of a provider |
//! | `allocations` | of a provider, of a consumer, and the writes that tests and tools need |
//! | `candidates` | GET /allocation_candidates |
//! | `claim` | a candidate that becomes a guest's, and is built upon or released |
//! | `reshape` | POST /reshaper |

mod allocations;
mod candidates;
mod claim;
mod error;
mod inventories;
mod names;
mod providers;
mod reading;
mod reshape;

use std::sync::Arc;
use std::time::Duration;

use berth_model::Generation;
use berth_wire::BodyError;
use berth_wire::placement::VersionDocument;
use http::Method;
use serde::de::DeserializeOwned;

pub use allocations::TypedAllocations;
pub use candidates::{Candidate, Candidates};
pub use claim::{ClaimError, Claimant, Claimed, NotReleased};
pub use error::{PlacementError, Refusal};

use crate::adapter::{Answer, Call};
use crate::call::Repeat;
use crate::{
    Adapter, AdapterOptions, Auth, AuthOptions, ConnectError, HttpService, OptionsError,
    RequestObserver,
};

/// The microversions that calls pin: the lowest with the fields that a call needs. Writes ask for 1.23 at least, because
/// only from there on does a refusal carry its code; any Placement that can reshape (1.30) has all but the last three.
pub mod pins {
    /// The tree, providers by name and UUID: parents and `in_tree`.
    pub const PROVIDERS: u16 = 14;
    /// Sharing providers: `required` on providers.
    pub const SHARING: u16 = 18;
    /// Create (answers with the provider from 1.20), rename, delete.
    pub const PROVIDER_WRITES: u16 = 23;
    /// Inventories: reserved may equal total.
    pub const INVENTORIES: u16 = 26;
    /// Traits, and traits of a provider.
    pub const TRAITS: u16 = 6;
    pub const TRAIT_WRITES: u16 = 23;
    /// Aggregates with the provider's generation.
    pub const AGGREGATES: u16 = 19;
    pub const AGGREGATE_WRITES: u16 = 23;
    /// The list of classes.
    pub const CLASSES: u16 = 2;
    /// PUT of a class creates or confirms (from 1.7).
    pub const CLASS_WRITES: u16 = 23;
    /// Usages of a provider.
    pub const USAGES: u16 = 14;
    /// Allocations with the consumer's generation.
    pub const ALLOCATIONS: u16 = 28;
    pub const RESHAPER: u16 = 30;
    /// Another parent for a provider.
    pub const REPARENT: u16 = 37;
    /// Allocations with the consumer's type.
    pub const CONSUMER_TYPES: u16 = 38;
}

/// A value with the generation of its provider at which it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered<T> {
    pub generation: Generation,
    pub value: T,
}

/// What came of a delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deleted {
    /// It is gone now.
    Deleted,
    /// It was not there.
    AlreadyGone,
}

const SERVICE: &str = "placement";

/// Placement, wherever it is. Clones share connections and session.
#[derive(Clone)]
pub struct PlacementClient {
    adapter: Adapter,
    uuids_per_request: usize,
    requests_at_once: Option<usize>,
}

impl PlacementClient {
    /// How many aggregates one request names (`sharing_providers_max_uuids_per_request`).
    pub const UUIDS_PER_REQUEST: usize = 200;

    /// Placement through `http`.
    #[must_use]
    pub fn new(http: HttpService, auth: Auth, options: &AdapterOptions) -> Self {
        Self::over(Adapter::new(SERVICE, http, auth, options))
    }

    /// Placement over the network, all by the options. Nothing is sent yet.
    pub fn from_options(
        options: &AuthOptions,
        observer: Option<Arc<dyn RequestObserver>>,
    ) -> Result<Self, ConnectError> {
        Adapter::from_options(SERVICE, options, observer).map(Self::over)
    }

    /// The same through a given service: a decorated one, or a unix socket.
    pub fn from_options_over(
        http: HttpService,
        options: &AuthOptions,
        observer: Option<Arc<dyn RequestObserver>>,
    ) -> Result<Self, OptionsError> {
        Adapter::from_options_over(SERVICE, http, options, observer).map(Self::over)
    }

    fn over(adapter: Adapter) -> Self {
        Self {
            adapter,
            uuids_per_request: Self::UUIDS_PER_REQUEST,
            requests_at_once: None,
        }
    }

    /// The same, with one more who counts its requests.
    #[must_use]
    pub fn with_observer(self, observer: Arc<dyn RequestObserver>) -> Self {
        Self {
            adapter: self.adapter.with_observer(observer),
            ..self
        }
    }

    /// The longest that an observer of this client may lawfully hear nothing while one of its calls is under way, by
    /// `timeout` and the retry options: that of a reshape, where `logins` logins are waited for in a row (each client that
    /// shares the session may make one).
    #[must_use]
    pub fn longest_quiet(&self, logins: u32) -> Duration {
        self.adapter.longest_quiet(reshape::PATIENCE, logins)
    }

    /// The same, naming at most this many aggregates per request (at least 1).
    #[must_use]
    pub fn with_uuids_per_request(self, uuids: usize) -> Self {
        Self {
            uuids_per_request: uuids.max(1),
            ..self
        }
    }

    /// The same, for a service that is best asked this many things side by side: one in this process answers them with one
    /// reading of its database.
    #[must_use]
    pub fn with_requests_at_once(self, requests: usize) -> Self {
        Self {
            requests_at_once: Some(requests),
            ..self
        }
    }

    /// How many things this service is best asked side by side, where that is known.
    #[must_use]
    pub fn requests_at_once(&self) -> Option<usize> {
        self.requests_at_once
    }

    /// GET /: the microversions that this Placement speaks.
    pub async fn version_document(&self) -> Result<VersionDocument, PlacementError> {
        self.parse(read("/", "/".to_owned(), None), "a version document", Ok)
            .await
    }

    async fn ask(&self, call: Call) -> Result<Answer, PlacementError> {
        Ok(self.adapter.call(call).await?)
    }

    /// Sends a call whose answer has no body that matters.
    async fn done(&self, call: Call) -> Result<(), PlacementError> {
        let answer = self.ask(call).await?;
        reading::done(answer)
            .map(drop)
            .map_err(|error| self.told(error))
    }

    /// Sends a call and reads its answer.
    async fn parse<T: DeserializeOwned, V>(
        &self,
        call: Call,
        expected: &'static str,
        into: impl FnOnce(T) -> Result<V, BodyError>,
    ) -> Result<V, PlacementError> {
        let answer = self.ask(call).await?;
        reading::parsed(answer, expected, into).map_err(|error| self.told(error))
    }

    /// The error with the account, which a missing role's mend names.
    fn told(&self, error: PlacementError) -> PlacementError {
        error.asked_by(&self.adapter.auth().account())
    }
}

/// A GET at microversion 1.`minor`.
fn read(route: &'static str, path: String, minor: impl Into<Option<u16>>) -> Call {
    Call {
        method: Method::GET,
        route,
        path,
        microversion: minor.into().map(|minor| (1, minor)),
        body: None,
        repeat: Repeat::Safe,
        patience: 1,
    }
}

/// A PUT or DELETE: doing it twice comes to the same, or is refused by the generation.
fn write(
    method: Method,
    route: &'static str,
    path: String,
    minor: u16,
    body: Option<Vec<u8>>,
) -> Call {
    Call {
        method,
        body,
        ..read(route, path, minor)
    }
}
