//! [`PlacementClient`]: Placement's API in model types. Every call pins the microversion that it needs ([`pins`]) and
//! sends one request unless documented differently. Versions are never discovered implicitly.
//!
//! | module | calls |
//! |---|---|
//! | `providers` | the tree, one provider, sharing providers, create, rename, delete |
//! | `inventories` | inventories, usages |
//! | `names` | traits and resource classes, aggregates of a provider |
//! | `allocations` | of a provider, of a consumer, and writes for tests and tools |
//! | `candidates` | GET /allocation_candidates |
//! | `claim` | claims a candidate for a guest |
//! | `reshape` | POST /reshaper |

mod allocations;
mod candidates;
mod claim;
mod error;
mod inventories;
mod names;
mod providers;
mod reshape;
mod responses;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use berth_model::Generation;
use berth_wire::placement::VersionDocument;
use berth_wire::{BodyError, decode};
use http::{Method, StatusCode};
use serde::de::DeserializeOwned;

pub use allocations::TypedAllocations;
pub use candidates::{Candidate, Candidates};
pub use claim::{ClaimError, Claimant, GrantedClaim, NotReleased};
pub use error::{PlacementError, PlacementRefusal};

use crate::adapter::AdapterCall;
use crate::answer::AdapterAnswer;
use crate::{
    Adapter, AdapterOptions, Auth, AuthOptions, ConnectError, HttpService, OptionsError,
    RequestObserver, ServiceCallError,
};

/// The microversions that calls pin: the lowest one with the required fields. Writes use at least 1.23, the first with
/// error codes. Any Placement with the reshaper (1.30) has all but the last three.
pub mod pins {
    /// The tree, providers by name and UUID: parents and `in_tree`.
    pub const PROVIDERS: u16 = 14;
    /// Sharing providers: `required` on providers.
    pub const SHARING: u16 = 18;
    /// Create (returns the provider from 1.20), rename, delete.
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

/// A value with the generation of its provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WithGeneration<T> {
    pub generation: Generation,
    pub value: T,
}

/// The outcome of a delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteOutcome {
    Deleted,
    /// It did not exist.
    AlreadyGone,
}

const SERVICE: &str = "placement";

/// A client of Placement. Clones share connections and session.
#[derive(Clone)]
pub struct PlacementClient {
    adapter: Adapter,
    /// Whether Placement has answered. Then a strange answer is that of a proxy, and not of a wrong URL.
    was_reached: Arc<AtomicBool>,
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

    /// Creates the client over a given HTTP service, such as a decorated one or a unix socket.
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
            was_reached: Arc::default(),
            uuids_per_request: Self::UUIDS_PER_REQUEST,
            requests_at_once: None,
        }
    }

    /// Adds an observer of its requests.
    #[must_use]
    pub fn with_observer(self, observer: Arc<dyn RequestObserver>) -> Self {
        Self {
            adapter: self.adapter.with_observer(observer),
            ..self
        }
    }

    /// The longest time without a notification to observers during a call, given `timeout` and the retry options. It is
    /// that of a reshape with `logins` consecutive logins (each client that shares the session may cause one).
    #[must_use]
    pub fn longest_quiet(&self, logins: u32) -> Duration {
        self.adapter.longest_quiet(reshape::TIMEOUT_FACTOR, logins)
    }

    /// Limits the number of aggregates per request (at least 1).
    #[must_use]
    pub fn with_uuids_per_request(self, uuids: usize) -> Self {
        Self {
            uuids_per_request: uuids.max(1),
            ..self
        }
    }

    /// Sets how many concurrent requests suit this service. One in the same process answers concurrent requests
    /// with a single read.
    #[must_use]
    pub fn with_requests_at_once(self, requests: usize) -> Self {
        Self {
            requests_at_once: Some(requests),
            ..self
        }
    }

    /// The number of concurrent requests that suits this service, if known.
    #[must_use]
    pub fn requests_at_once(&self) -> Option<usize> {
        self.requests_at_once
    }

    /// GET /: the microversions that this Placement speaks.
    pub async fn version_document(&self) -> Result<VersionDocument, PlacementError> {
        let answer = self.adapter.call(version_request()).await?;
        responses::parsed(answer, "a version document", Ok)
            .map_err(|error| self.with_account(error))
    }

    /// Sends a call. The first answers are only accepted from Placement, so that a wrong URL is reported as such.
    async fn ask(&self, call: AdapterCall) -> Result<AdapterAnswer, PlacementError> {
        let answer = self.adapter.call(call).await?;
        if !self.was_reached.load(Ordering::Relaxed) {
            if responses::is_doubtful(&answer) {
                self.require_placement().await?;
            } else if answer.status.is_success() {
                self.was_reached.store(true, Ordering::Relaxed);
            }
        }
        Ok(answer)
    }

    /// Checks with the version document, which needs no token, that Placement answers at the URL.
    async fn require_placement(&self) -> Result<(), PlacementError> {
        let answer = self.adapter.call(version_request()).await?;
        let status = answer.status;
        // Garbage says nothing about the URL.
        let is_garbage = status.is_success() && !responses::is_document(&answer.body);
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS || is_garbage {
            return Ok(());
        }
        let document = decode::<VersionDocument>(&answer.body).ok();
        let is_placement = document.is_some_and(|document| document.highest_minor().is_some());
        if status.is_success() && is_placement {
            self.was_reached.store(true, Ordering::Relaxed);
            return Ok(());
        }
        let url = self.adapter.auth().access().await;
        let url = url.map_err(ServiceCallError::from)?;
        Err(PlacementError::NotPlacement {
            url: url.endpoint.as_str().to_owned(),
            found: match status.is_success() {
                true => "no version document".to_owned(),
                false => format!("GET / answers {}", status.as_u16()),
            },
        })
    }

    /// Sends a call and ignores the response body.
    async fn send_expecting_success(&self, call: AdapterCall) -> Result<(), PlacementError> {
        let answer = self.ask(call).await?;
        responses::require_success(answer)
            .map(drop)
            .map_err(|error| self.with_account(error))
    }

    /// Sends a call and parses its response.
    async fn parse<T: DeserializeOwned, V>(
        &self,
        call: AdapterCall,
        expected: &'static str,
        into: impl FnOnce(T) -> Result<V, BodyError>,
    ) -> Result<V, PlacementError> {
        let answer = self.ask(call).await?;
        responses::parsed(answer, expected, into).map_err(|error| self.with_account(error))
    }

    /// Adds the account to the error, for hints about missing roles.
    fn with_account(&self, error: PlacementError) -> PlacementError {
        error.with_account(&self.adapter.auth().account())
    }
}

fn version_request() -> AdapterCall {
    read("/", "/".to_owned(), None)
}

/// A GET at microversion 1.`minor`.
fn read(route: &'static str, path: String, minor: impl Into<Option<u16>>) -> AdapterCall {
    AdapterCall {
        microversion: minor.into().map(|minor| (1, minor)),
        ..AdapterCall::new(Method::GET, route, path, None)
    }
}

/// A PUT or DELETE: repeating it has no further effect or is refused by the generation.
fn write(
    method: Method,
    route: &'static str,
    path: String,
    minor: u16,
    body: Option<Vec<u8>>,
) -> AdapterCall {
    AdapterCall {
        method,
        body,
        ..read(route, path, minor)
    }
}
