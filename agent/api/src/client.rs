//! Client of the admin API, for `berth agent status`, `disable` and `enable` and for `berth config diff`.

use std::path::Path;
use std::time::Duration;

use berth_client::{HttpService, TransportError, TransportOptions};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::body::{
    API, ConfigBody, DisableBody, DisabledBody, ErrorBody, HealthBody, PlanBody, StateBody,
    TickBody,
};
use crate::router::PATIENCE;

/// Default timeout of requests that the agent answers from memory.
const QUICK_TIMEOUT: Duration = Duration::from_secs(10);

/// Largest accepted response body: the provider tree of a host with thousands of devices.
const BODY_LIMIT: usize = 32 << 20;

/// A failed request to the agent.
#[derive(Debug, thiserror::Error)]
pub enum AdminClientError {
    /// No connection to the socket or to the address, or no response in time.
    #[error("the agent does not answer on {socket}")]
    Unreachable {
        /// Path of the socket, or base URL of the API.
        socket: String,
        #[source]
        source: TransportError,
    },
    #[error("the agent answers {status}: {message}")]
    Refused {
        status: StatusCode,
        code: String,
        message: String,
    },
    /// The response is not valid in this version of the API.
    #[error(
        "the response of the agent on {socket} cannot be understood: {reason}; agent and command may have different versions"
    )]
    InvalidResponse { socket: String, reason: String },
}

/// Sends requests to a running agent.
#[derive(Clone)]
pub struct AdminClient {
    http: HttpService,
    /// Socket path or base URL, for messages.
    place: String,
    /// Base URL of the API.
    root: String,
    quick_timeout: Duration,
}

impl AdminClient {
    /// Creates a client for the agent with this unix socket. Sends nothing.
    pub fn new(socket: &Path) -> Result<Self, AdminClientError> {
        let options = TransportOptions {
            body_limit: BODY_LIMIT,
            ..TransportOptions::default()
        };
        let http = HttpService::unix(socket, &options).map_err(|source| {
            AdminClientError::Unreachable {
                socket: socket.display().to_string(),
                source,
            }
        })?;
        Ok(Self {
            http,
            place: socket.display().to_string(),
            root: "http://agent".to_owned(),
            quick_timeout: QUICK_TIMEOUT,
        })
    }

    /// Creates a client for the agent at this base URL (`https://HOST:PORT`, its `[agent] listen`), over the given
    /// connections.
    #[must_use]
    pub fn remote(http: HttpService, root: &str) -> Self {
        let root = root.trim_end_matches('/').to_owned();
        Self {
            http,
            place: root.clone(),
            root,
            quick_timeout: QUICK_TIMEOUT,
        }
    }

    /// Sets the timeout of requests that the agent answers from memory (default 10 s). Requests that wait for a cycle
    /// keep their timeout of 90 s.
    #[must_use]
    pub fn with_timeout(mut self, deadline: Duration) -> Self {
        self.quick_timeout = deadline;
        self
    }

    /// GET /healthz. Returns the body also if the agent is not healthy.
    pub async fn health(&self) -> Result<HealthBody, AdminClientError> {
        let answer = self.send(Method::GET, "/healthz", Bytes::new()).await?;
        self.decode(answer.body())
    }

    pub async fn state(&self) -> Result<StateBody, AdminClientError> {
        self.request(Method::GET, "/v1/state", Bytes::new()).await
    }

    pub async fn plan(&self) -> Result<PlanBody, AdminClientError> {
        self.request(Method::GET, "/v1/plan", Bytes::new()).await
    }

    /// GET /v1/config: the configuration in force, secrets masked.
    pub async fn config(&self) -> Result<serde_json::Value, AdminClientError> {
        let body: ConfigBody = self
            .request(Method::GET, "/v1/config", Bytes::new())
            .await?;
        Ok(body.config)
    }

    /// GET /metrics, as text.
    pub async fn metrics(&self) -> Result<String, AdminClientError> {
        let answer = self
            .send_accepted(Method::GET, "/metrics", Bytes::new())
            .await?;
        Ok(String::from_utf8_lossy(answer.body()).into_owned())
    }

    /// POST /v1/tick: runs a cycle now and returns its result.
    pub async fn tick(&self) -> Result<TickBody, AdminClientError> {
        self.request(Method::POST, "/v1/tick", Bytes::new()).await
    }

    pub async fn disable(&self, reason: &str) -> Result<DisabledBody, AdminClientError> {
        let body = DisableBody {
            reason: reason.to_owned(),
        };
        let body = serde_json::to_vec(&body).expect("a text is JSON");
        self.request(Method::PUT, "/v1/disabled", body.into()).await
    }

    pub async fn enable(&self) -> Result<DisabledBody, AdminClientError> {
        self.request(Method::DELETE, "/v1/disabled", Bytes::new())
            .await
    }

    /// Sends a request and decodes the response.
    pub(crate) async fn request<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<T, AdminClientError> {
        let answer = self.send_accepted(method, path, body).await?;
        self.decode(answer.body())
    }

    /// Sends a request; every status other than 200 is an error.
    async fn send_accepted(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Bytes>, AdminClientError> {
        let answer = self.send(method, path, body).await?;
        if answer.status() == StatusCode::OK {
            return Ok(answer);
        }
        let refused: ErrorBody = self.decode(answer.body())?;
        let (code, message) = (refused.error.code, refused.error.message);
        Err(AdminClientError::Refused {
            status: answer.status(),
            code,
            message,
        })
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Bytes>, AdminClientError> {
        let after = match method {
            Method::GET => self.quick_timeout,
            _ => PATIENCE + Duration::from_secs(30),
        };
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.root))
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body)
            .expect("method, address and header are well-formed");
        let answer = match timeout(after, self.http.send(request)).await {
            Ok(answer) => answer,
            Err(_) => Err(TransportError::Timeout { after }),
        };
        answer.map_err(|source| AdminClientError::Unreachable {
            socket: self.address_text(),
            source,
        })
    }

    fn decode<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, AdminClientError> {
        #[derive(serde::Deserialize)]
        struct ApiVersionBody {
            api: String,
        }
        let invalid = |reason: String| AdminClientError::InvalidResponse {
            socket: self.address_text(),
            reason,
        };
        let version: ApiVersionBody =
            serde_json::from_slice(body).map_err(|error| invalid(error.to_string()))?;
        if version.api != API {
            return Err(invalid(format!(
                "its API version is {:?}, expected {API:?}",
                version.api
            )));
        }
        serde_json::from_slice(body).map_err(|error| invalid(error.to_string()))
    }

    fn address_text(&self) -> String {
        self.place.clone()
    }
}
