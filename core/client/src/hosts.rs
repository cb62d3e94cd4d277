//! Client for host states: an agent reports the state of its host to the scheduler. The routes are Berth's own, next to
//! the conductor's. Nova's agents write the same to its database, so Nova has no such routes.
//!
//! Every call may be repeated: a report has the whole state, and a heartbeat only confirms it. The options are those of
//! `[conductor]`. Callers: the agent (reports), commands (reads).

mod error;
mod responses;

use std::sync::Arc;

use berth_wire::encode;
use berth_wire::host_state::{HostSeenBody, HostStateBody, HostWanted};
use http::{Method, StatusCode};

pub use error::HostsError;

use crate::adapter::AdapterCall;
use crate::answer::AdapterAnswer;
use crate::{
    Adapter, AdapterOptions, Auth, AuthOptions, ConnectError, HttpService, RequestObserver,
};

/// The service type: the conductor also stores host states.
const SERVICE: &str = "conductor";
const STATE: &str = "/internal/v1/hosts/{host}/state";
const SEEN: &str = "/internal/v1/hosts/{host}/seen";

/// The result of a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeartbeatOutcome {
    /// The service has the named state.
    Known(HostWanted),
    /// The service has another state: the agent must report its whole state.
    Unknown,
}

/// A client of the service that stores host states. Clones share connections and session.
#[derive(Clone)]
pub struct HostsClient {
    adapter: Adapter,
}

impl HostsClient {
    /// The service through `http`; the endpoint of `auth` is its root.
    #[must_use]
    pub fn new(http: HttpService, auth: Auth, options: &AdapterOptions) -> Self {
        Self {
            adapter: Adapter::new(SERVICE, http, auth, options),
        }
    }

    /// The service over the network, all by the options of `[conductor]`. Nothing is sent yet.
    pub fn from_options(
        options: &AuthOptions,
        observer: Option<Arc<dyn RequestObserver>>,
    ) -> Result<Self, ConnectError> {
        let adapter = Adapter::from_options(SERVICE, options, observer)?;
        Ok(Self { adapter })
    }

    /// PUT /internal/v1/hosts/{host}/state: reports the whole state of a host. `host` needs no escaping in a path.
    ///
    /// Errors: No answer, a refusal (a node belongs to another host, the role `service` is missing),
    /// or an invalid answer.
    pub async fn report_state(
        &self,
        host: &str,
        state: &HostStateBody,
    ) -> Result<HostWanted, HostsError> {
        let path = format!("/internal/v1/hosts/{host}/state");
        let call = AdapterCall::new(Method::PUT, STATE, path, Some(encode(state)));
        responses::parsed(self.ask(call).await?, "the desired state of a host")
    }

    /// PUT /internal/v1/hosts/{host}/seen: a heartbeat. It names the last reported state.
    ///
    /// Errors: No answer, a refusal (the role `service` is missing), or an invalid answer.
    pub async fn send_heartbeat(
        &self,
        host: &str,
        seen: &HostSeenBody,
    ) -> Result<HeartbeatOutcome, HostsError> {
        let path = format!("/internal/v1/hosts/{host}/seen");
        let call = AdapterCall::new(Method::PUT, SEEN, path, Some(encode(seen)));
        let answer = self.ask(call).await?;
        // 404: the host is unknown. If there is no such service, reporting the whole state will show it.
        if [StatusCode::CONFLICT, StatusCode::NOT_FOUND].contains(&answer.status) {
            return Ok(HeartbeatOutcome::Unknown);
        }
        responses::parsed(answer, "the desired state of a host").map(HeartbeatOutcome::Known)
    }

    /// GET /internal/v1/hosts/{host}/state: the stored state of a host, if any.
    pub async fn state(&self, host: &str) -> Result<Option<HostStateBody>, HostsError> {
        let path = format!("/internal/v1/hosts/{host}/state");
        let call = AdapterCall::new(Method::GET, STATE, path, None);
        let answer = self.ask(call).await?;
        let answer = responses::unless_not_found(answer)?;
        answer
            .map(|answer| responses::parsed(answer, "the state of a host"))
            .transpose()
    }

    async fn ask(&self, call: AdapterCall) -> Result<AdapterAnswer, HostsError> {
        Ok(self.adapter.call(call).await?)
    }
}
