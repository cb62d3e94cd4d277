//! The other end of the admin API: what `berth agent status`, `disable` and `enable` and `berth config diff` ask with.

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

/// How long the agent may take to answer what it only has to look up, unless told otherwise.
const AT_ONCE: Duration = Duration::from_secs(10);

/// The largest answer that is read: the tree of a host with thousands of devices.
const BODY_LIMIT: usize = 32 << 20;

/// Why the agent did not answer as hoped.
#[derive(Debug, thiserror::Error)]
pub enum AdminClientError {
    /// Nobody answers on the socket, or at the address.
    #[error("the agent does not answer on {socket}; is it running (systemctl status berth-agent)?")]
    Away {
        /// The socket, or the root of its API.
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
    /// The answer is not what this version understands.
    #[error(
        "the agent's answer on {socket} is not understood: {reason}; agent and command may be of different versions"
    )]
    NotUnderstood { socket: String, reason: String },
}

/// Asks a running agent.
#[derive(Clone)]
pub struct AdminClient {
    http: HttpService,
    /// What it is reached by, for people.
    place: String,
    /// The root of its API.
    root: String,
    at_once: Duration,
}

impl AdminClient {
    /// A client of the agent with this socket; nothing is sent yet.
    pub fn new(socket: &Path) -> Result<Self, AdminClientError> {
        let options = TransportOptions {
            body_limit: BODY_LIMIT,
            ..TransportOptions::default()
        };
        let http =
            HttpService::unix(socket, &options).map_err(|source| AdminClientError::Away {
                socket: socket.display().to_string(),
                source,
            })?;
        Ok(Self {
            http,
            place: socket.display().to_string(),
            root: "http://agent".to_owned(),
            at_once: AT_ONCE,
        })
    }

    /// A client of the agent whose API has this root (`https://HOST:PORT`, its `[agent] listen`), over these connections.
    #[must_use]
    pub fn over(http: HttpService, root: &str) -> Self {
        let root = root.trim_end_matches('/').to_owned();
        Self {
            http,
            place: root.clone(),
            root,
            at_once: AT_ONCE,
        }
    }

    /// The same with another time for what the agent only has to look up (10 s); what waits for a pass waits a minute and a
    /// half.
    #[must_use]
    pub fn answering_within(mut self, deadline: Duration) -> Self {
        self.at_once = deadline;
        self
    }

    /// GET /healthz. An agent that is not well answers too.
    pub async fn health(&self) -> Result<HealthBody, AdminClientError> {
        let answer = self.send(Method::GET, "/healthz", Bytes::new()).await?;
        self.understand(answer.body())
    }

    pub async fn state(&self) -> Result<StateBody, AdminClientError> {
        self.ask(Method::GET, "/v1/state", Bytes::new()).await
    }

    pub async fn plan(&self) -> Result<PlanBody, AdminClientError> {
        self.ask(Method::GET, "/v1/plan", Bytes::new()).await
    }

    /// GET /v1/config: the configuration in force, secrets masked.
    pub async fn config(&self) -> Result<serde_json::Value, AdminClientError> {
        let body: ConfigBody = self.ask(Method::GET, "/v1/config", Bytes::new()).await?;
        Ok(body.config)
    }

    /// GET /metrics, as text.
    pub async fn metrics(&self) -> Result<String, AdminClientError> {
        let answer = self.accepted(Method::GET, "/metrics", Bytes::new()).await?;
        Ok(String::from_utf8_lossy(answer.body()).into_owned())
    }

    /// POST /v1/tick: a pass now, and what comes of it.
    pub async fn tick(&self) -> Result<TickBody, AdminClientError> {
        self.ask(Method::POST, "/v1/tick", Bytes::new()).await
    }

    pub async fn disable(&self, reason: &str) -> Result<DisabledBody, AdminClientError> {
        let body = DisableBody {
            reason: reason.to_owned(),
        };
        let body = serde_json::to_vec(&body).expect("a text is JSON");
        self.ask(Method::PUT, "/v1/disabled", body.into()).await
    }

    pub async fn enable(&self) -> Result<DisabledBody, AdminClientError> {
        self.ask(Method::DELETE, "/v1/disabled", Bytes::new()).await
    }

    /// Sends, and reads the answer.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<T, AdminClientError> {
        let answer = self.accepted(method, path, body).await?;
        self.understand(answer.body())
    }

    /// Sends; any status but 200 is a refusal.
    async fn accepted(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Bytes>, AdminClientError> {
        let answer = self.send(method, path, body).await?;
        if answer.status() == StatusCode::OK {
            return Ok(answer);
        }
        let refused: ErrorBody = self.understand(answer.body())?;
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
            Method::GET => self.at_once,
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
        answer.map_err(|source| AdminClientError::Away {
            socket: self.shown(),
            source,
        })
    }

    fn understand<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, AdminClientError> {
        #[derive(serde::Deserialize)]
        struct Version {
            api: String,
        }
        let not_understood = |reason: String| AdminClientError::NotUnderstood {
            socket: self.shown(),
            reason,
        };
        let version: Version =
            serde_json::from_slice(body).map_err(|error| not_understood(error.to_string()))?;
        if version.api != API {
            return Err(not_understood(format!(
                "it speaks {:?}, this is {API:?}",
                version.api
            )));
        }
        serde_json::from_slice(body).map_err(|error| not_understood(error.to_string()))
    }

    fn shown(&self) -> String {
        self.place.clone()
    }
}
