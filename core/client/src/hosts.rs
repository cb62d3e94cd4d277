//! What a compute host's agent tells the scheduler of its host: Berth's own routes, beside the conductor's. Nova's agents write
//! the same into its database, so a real Nova has no such route.
//!
//! Everything may be asked again: the state is the host's whole state, and a sign of life says nothing else. The options are
//! those of `[conductor]`. Callers: the agent (tells), commands (ask).

mod error;
mod reading;

use std::sync::Arc;

use berth_wire::encode;
use berth_wire::host_state::{HostSeenBody, HostStateBody, HostWanted};
use http::{Method, StatusCode};

pub use error::{HostsError, HostsRefusal};

use crate::adapter::{Answer, Call};
use crate::call::Repeat;
use crate::{
    Adapter, AdapterOptions, Auth, AuthOptions, ConnectError, HttpService, RequestObserver,
};

/// The service type: whoever has the conductor has the hosts' states.
const SERVICE: &str = "conductor";
const STATE: &str = "/internal/v1/hosts/{host}/state";
const SEEN: &str = "/internal/v1/hosts/{host}/seen";

/// What came of a sign of life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// The state that was named is the one that is known.
    Known(HostWanted),
    /// It is not: the host's state is to be told whole.
    Unknown,
}

/// Where hosts' states are kept. Clones share connections and session.
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

    /// PUT /internal/v1/hosts/{host}/state: the whole state of a host. `host` is a host's name, without anything that a path
    /// would have to escape.
    ///
    /// # Errors
    /// No answer, a refusal (a node is another host's, the role `service` is missing), or an answer that is none.
    pub async fn tell_state(
        &self,
        host: &str,
        state: &HostStateBody,
    ) -> Result<HostWanted, HostsError> {
        let path = format!("/internal/v1/hosts/{host}/state");
        let call = call(Method::PUT, STATE, path, Some(encode(state)));
        reading::parsed(self.ask(call).await?, "what is wanted of a host")
    }

    /// PUT /internal/v1/hosts/{host}/seen: the agent lives, and its host's state is the one that was told last.
    ///
    /// # Errors
    /// No answer, a refusal (the role `service` is missing), or an answer that is none.
    pub async fn seen(&self, host: &str, seen: &HostSeenBody) -> Result<Seen, HostsError> {
        let path = format!("/internal/v1/hosts/{host}/seen");
        let answer = self
            .ask(call(Method::PUT, SEEN, path, Some(encode(seen))))
            .await?;
        // 404: the host is not known at all. Where nothing takes states at all, telling it whole will say so.
        if [StatusCode::CONFLICT, StatusCode::NOT_FOUND].contains(&answer.status) {
            return Ok(Seen::Unknown);
        }
        reading::parsed(answer, "what is wanted of a host").map(Seen::Known)
    }

    /// GET /internal/v1/hosts/{host}/state: what is known of a host; none where nothing is.
    pub async fn state(&self, host: &str) -> Result<Option<HostStateBody>, HostsError> {
        let path = format!("/internal/v1/hosts/{host}/state");
        let answer = self.ask(call(Method::GET, STATE, path, None)).await?;
        let answer = reading::found(answer)?;
        answer
            .map(|answer| reading::parsed(answer, "the state of a host"))
            .transpose()
    }

    async fn ask(&self, call: Call) -> Result<Answer, HostsError> {
        Ok(self.adapter.call(call).await?)
    }
}

fn call(method: Method, route: &'static str, path: String, body: Option<Vec<u8>>) -> Call {
    Call {
        method,
        route,
        path,
        microversion: None,
        body,
        repeat: Repeat::Safe,
        patience: 1,
    }
}
