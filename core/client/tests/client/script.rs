//! A scripted HTTP service: a function answers, and every request is recorded.

use std::sync::{Arc, Mutex};

use berth_client::{
    AdapterOptions, Auth, HttpService, JitterRng, PlacementClient, Secret, TransportError,
};
use bytes::Bytes;
use http::{Request, Response};

pub(crate) type Reply = Result<Response<Bytes>, TransportError>;

/// A recorded request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordedRequest {
    pub(crate) method: String,
    pub(crate) uri: String,
    pub(crate) token: Option<String>,
    pub(crate) service_token: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) id: String,
    pub(crate) body: String,
}

impl RecordedRequest {
    /// Method, path with query, microversion: the form in which tests compare requests.
    pub(crate) fn line(&self) -> String {
        let path = self
            .uri
            .strip_prefix("http://placement")
            .unwrap_or(&self.uri);
        let version = self.version.as_deref().unwrap_or("-");
        format!("{} {path} [{version}]", self.method)
    }
}

/// The service and its recorded requests.
#[derive(Clone)]
pub(crate) struct Script {
    pub(crate) http: HttpService,
    seen: Arc<Mutex<Vec<RecordedRequest>>>,
}

impl Script {
    /// `answer` is called with each request and its number, from 0.
    pub(crate) fn new(
        answer: impl Fn(usize, &RecordedRequest) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (kept, answer) = (Arc::clone(&seen), Arc::new(answer));
        let http = HttpService::new(tower::service_fn(move |request: Request<Bytes>| {
            let request = note(&request);
            let number = {
                let mut kept = kept.lock().unwrap();
                kept.push(request.clone());
                kept.len() - 1
            };
            let answer = Arc::clone(&answer);
            async move {
                tokio::task::yield_now().await;
                answer(number, &request)
            }
        }));
        Self { http, seen }
    }

    /// Answers in this order, then repeats the last one.
    pub(crate) fn of(answers: Vec<Reply>) -> Self {
        Self::new(move |number, _| answers[number.min(answers.len() - 1)].clone())
    }

    pub(crate) fn seen(&self) -> Vec<RecordedRequest> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.seen().iter().map(RecordedRequest::line).collect()
    }

    /// Placement without Keystone behind this script.
    pub(crate) fn placement(&self) -> PlacementClient {
        self.placement_with(&options())
    }

    pub(crate) fn placement_with(&self, options: &AdapterOptions) -> PlacementClient {
        let auth = Auth::admin_token("http://placement", &Secret::from("admin")).unwrap();
        PlacementClient::new(self.http.clone(), auth, options)
    }
}

/// Seeded, so that every run is the same.
pub(crate) fn options() -> AdapterOptions {
    AdapterOptions {
        rng: Arc::new(JitterRng::seeded(1)),
        ..AdapterOptions::default()
    }
}

fn note(request: &Request<Bytes>) -> RecordedRequest {
    let header = |name: &str| {
        request
            .headers()
            .get(name)
            .map(|value| value.to_str().unwrap().to_owned())
    };
    RecordedRequest {
        method: request.method().to_string(),
        uri: request.uri().to_string(),
        token: header("x-auth-token"),
        service_token: header("x-service-token"),
        version: header("openstack-api-version"),
        id: header("x-openstack-request-id").unwrap_or_default(),
        body: String::from_utf8(request.body().to_vec()).unwrap(),
    }
}

pub(crate) fn answer(status: u16, body: impl Into<String>) -> Reply {
    Ok(Response::builder()
        .status(status)
        .header("x-openstack-request-id", "req-answer")
        .body(Bytes::from(body.into()))
        .unwrap())
}

/// An error document of Placement.
pub(crate) fn error_reply(status: u16, code: &str, message: &str) -> Reply {
    let detail = format!("The stock sentence.\\n\\n {message}  ");
    answer(
        status,
        format!(
            r#"{{"errors": [{{"status": {status}, "title": "T", "detail": "{detail}", "code": "{code}", "request_id": "req-answer"}}]}}"#
        ),
    )
}

pub(crate) fn connection_reset() -> Reply {
    Err(TransportError::Closed {
        reason: "connection reset by peer".to_owned(),
    })
}

pub(crate) fn connection_refused() -> Reply {
    Err(TransportError::Refused {
        peer: "placement:80".to_owned(),
    })
}
