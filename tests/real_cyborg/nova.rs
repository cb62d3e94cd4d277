//! The receiver of Cyborg's events about binds: it forwards them to the agents of the tests, by guest, and records them
//! with the answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use berth_agent_api::{EventAuth, compute_api};
use berth_agent_instances::ExternalEvents;
use berth_agent_journal::SqlJournal;
use berth_client::IdentityClient;
use berth_model::ConsumerUuid;
use berth_tests::exchange::HttpCall;
use http_body_util::BodyExt as _;
use serde_json::Value;
use tower::ServiceExt as _;

/// What happens to the events of a guest.
#[derive(Clone)]
pub(crate) enum EventDelivery {
    /// They go to its agent in this process.
    Agent(Router),
    /// They go to its agent at this URL, without `/v2.1`.
    At(String),
    /// They are answered with this and go nowhere.
    Refused(StatusCode),
    /// They are lost on the way behind an answer of success.
    Lost,
}

#[derive(Debug, Clone)]
pub(crate) struct ReceivedEvent {
    pub(crate) events: Value,
    pub(crate) microversion: String,
    pub(crate) status: u16,
    pub(crate) answer: Value,
}

#[derive(Default)]
struct EventReceiver {
    mailboxes: HashMap<ConsumerUuid, EventDelivery>,
    received: HashMap<ConsumerUuid, Vec<ReceivedEvent>>,
    /// An agent that knows no guest.
    without_guests: Option<Router>,
    /// The URL of a compute API, without `/v2.1`, for guests without a mailbox: a user of the API cannot choose the
    /// UUID.
    compute: Option<String>,
    sources: Option<EventAuth>,
}

#[derive(Clone)]
pub(crate) struct Nova {
    url: String,
    receiver: Arc<Mutex<EventReceiver>>,
}

impl Nova {
    pub(crate) fn start() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a socket");
        let address = listener.local_addr().expect("an address");
        let nova = Self {
            url: format!("http://{address}/v2.1"),
            receiver: Arc::default(),
        };
        let router = Router::new().fallback(receive).with_state(nova.clone());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
                axum::serve(listener, router).await.expect("it serves");
            });
        });
        nova
    }

    /// From now on agents validate tokens with this Keystone.
    pub(crate) fn open(&self, identity: &IdentityClient) {
        let sources = EventAuth::WithToken {
            identity: Box::new(identity.clone()),
            roles: Arc::new(["service".to_owned(), "admin".to_owned()]),
        };
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let journal = runtime.block_on(SqlJournal::in_memory());
        let journal = Arc::new(journal.expect("memory"));
        let without_guests = compute_api(journal, ExternalEvents::default(), sources.clone());
        let mut receiver = self.receiver();
        receiver.without_guests = Some(without_guests);
        receiver.sources = Some(sources);
        // The journal's own tasks live on.
        std::mem::forget(runtime);
    }

    /// Who may tell events.
    pub(crate) fn sources(&self) -> EventAuth {
        self.receiver()
            .sources
            .clone()
            .expect("opened at the start")
    }

    /// `http://127.0.0.1:PORT/v2.1`.
    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    /// Sets what happens to a guest's events from now on.
    pub(crate) fn deliver(&self, guest: ConsumerUuid, mailbox: EventDelivery) {
        self.receiver().mailboxes.insert(guest, mailbox);
    }

    /// Sends the events of guests without a mailbox to this compute API until the value is dropped; events without a
    /// server there are handled as before.
    pub(crate) fn deliver_to_compute(&self, url: &str) -> ComputeNotification {
        self.receiver().compute = Some(url.to_owned());
        ComputeNotification(self.clone())
    }

    /// Cyborg's events for a guest so far.
    pub(crate) fn received(&self, guest: ConsumerUuid) -> Vec<ReceivedEvent> {
        self.receiver()
            .received
            .get(&guest)
            .cloned()
            .unwrap_or_default()
    }

    fn receiver(&self) -> MutexGuard<'_, EventReceiver> {
        self.receiver.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forwards events to a compute API while it exists.
pub(crate) struct ComputeNotification(Nova);

impl Drop for ComputeNotification {
    fn drop(&mut self) {
        self.0.receiver().compute = None;
    }
}

async fn receive(State(nova): State<Nova>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = body.collect().await.expect("a body").to_bytes();
    let events: Value = serde_json::from_slice(&body).unwrap_or_default();
    let guest = events["events"][0]["server_uuid"].as_str();
    let guest = guest.and_then(|text| text.parse::<ConsumerUuid>().ok());
    let microversion = head.headers.get("openstack-api-version");
    let microversion = microversion.and_then(|value| value.to_str().ok());
    let microversion = microversion.unwrap_or_default().to_owned();
    let (mailbox, without_guests, compute) = {
        let receiver = nova.receiver();
        let mailbox = guest.and_then(|guest| receiver.mailboxes.get(&guest).cloned());
        (
            mailbox,
            receiver.without_guests.clone(),
            receiver.compute.clone(),
        )
    };
    let request = Request::from_parts(head, Body::from(body));
    let of_compute = match (&mailbox, compute) {
        (None, Some(url)) => Some(forwarded(&url, &request, &events).await),
        _ => None,
    };
    let of_compute = of_compute.filter(|(_, _, answer)| !is_no_server(answer));
    let (status, headers, answer) = match mailbox {
        Some(EventDelivery::Refused(status)) => (status, Default::default(), Bytes::new()),
        Some(EventDelivery::Lost) => {
            let answer = Bytes::from(events.to_string());
            (StatusCode::OK, Default::default(), answer)
        }
        Some(EventDelivery::Agent(router)) => asked(router, request).await,
        Some(EventDelivery::At(url)) => forwarded(&url, &request, &events).await,
        None => match (of_compute, without_guests) {
            (Some(from_compute), _) => from_compute,
            (None, Some(router)) => asked(router, request).await,
            (None, None) => (
                StatusCode::SERVICE_UNAVAILABLE,
                Default::default(),
                Bytes::new(),
            ),
        },
    };
    if let Some(guest) = guest {
        let event = ReceivedEvent {
            events: events["events"].clone(),
            microversion,
            status: status.as_u16(),
            answer: serde_json::from_slice(&answer).unwrap_or_default(),
        };
        nova.receiver()
            .received
            .entry(guest)
            .or_default()
            .push(event);
    }
    (status, headers, answer).into_response()
}

/// Whether a compute API says that it has no server of the first event, or that it will not hear of it.
fn is_no_server(answer: &[u8]) -> bool {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    answer["events"][0]["code"] == 404 || answer["events"].is_null()
}

fn forwarded(
    url: &str,
    request: &Request,
    events: &Value,
) -> impl Future<Output = (StatusCode, http::HeaderMap, Bytes)> + use<> {
    let mut ask = HttpCall::post(format!("{url}{}", request.uri().path())).json(events);
    for name in ["x-auth-token", "openstack-api-version"] {
        let value = request.headers().get(name);
        let value = value.and_then(|value| value.to_str().ok());
        ask = ask.header(name, value.unwrap_or_default());
    }
    async move {
        let sent = tokio::task::spawn_blocking(move || ask.send()).await;
        let answer = sent.expect("no panic").expect("the agent answers");
        let body = Bytes::from(answer.text());
        (answer.status, http::HeaderMap::default(), body)
    }
}

async fn asked(router: Router, request: Request) -> (StatusCode, http::HeaderMap, Bytes) {
    let answer = router.oneshot(request).await.expect("a router answers");
    let (head, body) = answer.into_parts();
    let body = body.collect().await.expect("a body").to_bytes();
    let mut headers = head.headers;
    headers.remove("content-length");
    (head.status, headers, body)
}
