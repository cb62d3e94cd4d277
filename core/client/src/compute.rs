//! Client of the Compute API for external events: POST /os-server-external-events.

use berth_wire::compute::{ServerExternalEvent, ServerExternalEvents};
use berth_wire::encode;
use http::{Method, StatusCode};

use crate::adapter::AdapterCall;
use crate::{Adapter, AdapterOptions, Auth, Disposition, HttpService, ServiceCallError};

const ROUTE: &str = "/os-server-external-events";

/// The microversion with events of accelerator requests.
const EVENTS: (u16, u16) = (2, 82);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventsError {
    #[error(transparent)]
    Call(#[from] ServiceCallError),
    /// The receiver refuses them.
    #[error(
        "the receiver of events answers {} ({request_id}); check its URL, and that the account may tell it (Nova asks for \
         the role service or admin)",
        status.as_u16()
    )]
    Refused {
        status: StatusCode,
        /// The answer's request id; `-` if it has none.
        request_id: String,
    },
}

impl EventsError {
    /// Sending an event twice is harmless.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Call(error) => error.if_repeatable(),
            // A guest that does not exist yet may exist later.
            Self::Refused { status, .. }
                if status.is_server_error()
                    || matches!(
                        *status,
                        StatusCode::NOT_FOUND | StatusCode::TOO_MANY_REQUESTS
                    ) =>
            {
                Disposition::Retry
            }
            Self::Refused { .. } => Disposition::Fatal,
        }
    }
}

/// The Compute API of Nova, or of an agent. Clones share connections and session.
#[derive(Clone)]
pub struct ComputeClient {
    adapter: Adapter,
}

impl ComputeClient {
    /// The Compute API through `http`; the endpoint of `auth` is its root, `/v2.1` included.
    #[must_use]
    pub fn new(http: HttpService, auth: Auth, options: &AdapterOptions) -> Self {
        Self {
            adapter: Adapter::new("compute", http, auth, options),
        }
    }

    /// Sends events. An answer of 207 is a success whatever codes it contains: 422 means that a guest has no host yet,
    /// and then it polls once it has one.
    pub async fn external_events(
        &self,
        events: Vec<ServerExternalEvent>,
    ) -> Result<(), EventsError> {
        let body = Some(encode(&ServerExternalEvents { events }));
        let call = AdapterCall {
            microversion: Some(EVENTS),
            ..AdapterCall::new(Method::POST, ROUTE, ROUTE.to_owned(), body)
        };
        let answer = self.adapter.call(call).await?;
        if answer.status.is_success() {
            return Ok(());
        }
        Err(EventsError::Refused {
            status: answer.status,
            request_id: answer.request_id,
        })
    }
}
