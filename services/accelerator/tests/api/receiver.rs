//! A compute API that only hears events, and answers as the test says.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_accelerator::{AcceleratorApiOptions, EventNotifier, EventReceivers, deliver_events};
use berth_client::{AdapterOptions, Auth, ComputeClient, HttpService, Secret, TransportError};
use bytes::Bytes;
use http::{Request, Response};
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

use super::service::{HOST, RP, Service, card, options};

/// Stands for a receiver that takes the request and never answers.
pub(crate) const SILENT: u16 = 1;

/// A receiver for each host.
struct ByHost(BTreeMap<&'static str, ComputeClient>);

impl EventReceivers for ByHost {
    fn of_host(&self, host: &str) -> Option<ComputeClient> {
        self.0.get(host).cloned()
    }
}

#[derive(Default)]
struct ReceiverState {
    /// Statuses to be answered; 200 when there is none; 0 stands for no answer at all.
    answers: VecDeque<u16>,
    events: Vec<Value>,
    heads: Vec<(String, String)>,
}

/// The receiver. Clones hear the same.
#[derive(Clone)]
pub(crate) struct Receiver {
    state: Arc<Mutex<ReceiverState>>,
    news: Arc<Notify>,
    pub(crate) notifier: EventNotifier,
}

impl Receiver {
    pub(crate) fn answering(answers: impl IntoIterator<Item = u16>) -> Self {
        let state = ReceiverState {
            answers: answers.into_iter().collect(),
            ..ReceiverState::default()
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            news: Arc::new(Notify::new()),
            notifier: EventNotifier::default(),
        }
    }

    /// A service that notifies this receiver, with sixteen handles and a profile of one.
    pub(crate) async fn service(&self) -> Service {
        let service = Service::with(self.options()).await;
        service.report(HOST, json!([card(0, RP, 16)])).await;
        service.profile("dp", 1).await;
        service
    }

    pub(crate) fn options(&self) -> AcceleratorApiOptions {
        AcceleratorApiOptions {
            notifier: self.notifier.clone(),
            ..options()
        }
    }

    /// The answer; none that ever comes.
    fn record(&self, request: &Request<Bytes>) -> Option<Result<Response<Bytes>, TransportError>> {
        let mut state = self.state.lock().unwrap();
        let header = |name: &str| request.headers()[name].to_str().unwrap().to_owned();
        state
            .heads
            .push((request.uri().to_string(), header("openstack-api-version")));
        state
            .events
            .push(serde_json::from_slice(request.body()).unwrap());
        let status = state.answers.pop_front().unwrap_or(200);
        self.news.notify_one();
        match status {
            SILENT => None,
            0 => Some(Err(TransportError::Refused {
                peer: "the receiver".to_owned(),
            })),
            status => Some(Ok(Response::builder()
                .status(status)
                .body(Bytes::from_static(b"{\"events\": []}"))
                .unwrap())),
        }
    }

    fn client(&self) -> ComputeClient {
        let receiver = self.clone();
        let http = HttpService::new(tower::service_fn(move |request: Request<Bytes>| {
            let answer = receiver.record(&request);
            async move {
                match answer {
                    Some(answer) => answer,
                    None => std::future::pending().await,
                }
            }
        }));
        let token = Secret::from("t");
        let auth = Auth::admin_token("http://compute.example/v2.1", &token).unwrap();
        ComputeClient::new(http, auth, &AdapterOptions::default())
    }

    /// Begins to send what is in the outbox.
    pub(crate) fn deliver(&self, service: &Service) -> Delivery {
        self.deliver_to(service, self.client())
    }

    /// The same, to each of these hosts' own receiver.
    pub(crate) fn deliver_by_host<const N: usize>(
        &self,
        service: &Service,
        hosts: [(&'static str, &Self); N],
    ) -> Delivery {
        let hosts = hosts.map(|(host, receiver)| (host, receiver.client()));
        self.deliver_to(service, ByHost(BTreeMap::from(hosts)))
    }

    fn deliver_to(&self, service: &Service, receivers: impl EventReceivers) -> Delivery {
        let (stop, stopped) = oneshot::channel::<()>();
        let ended = async {
            stopped.await.ok();
        };
        let delivering = deliver_events(
            service.store.clone(),
            receivers,
            self.notifier.clone(),
            ended,
        );
        Delivery {
            stop,
            task: tokio::spawn(delivering),
        }
    }

    /// The received events, once there are `count` of them.
    pub(crate) async fn received(&self, count: usize) -> Vec<Value> {
        let enough = async {
            loop {
                let events = self.state.lock().unwrap().events.clone();
                if events.len() >= count {
                    return events;
                }
                self.news.notified().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), enough)
            .await
            .expect("the receiver gets the events")
    }

    /// URL and version of each POST.
    pub(crate) fn heads(&self) -> Vec<(String, String)> {
        self.state.lock().unwrap().heads.clone()
    }
}

/// The task that sends.
pub(crate) struct Delivery {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Delivery {
    pub(crate) async fn end(self) {
        self.stop.send(()).ok();
        self.task.await.unwrap();
    }

    /// Ends it as a kill of its process does: nothing more is written.
    #[allow(dead_code, reason = "only where another one is left")]
    pub(crate) fn kill(self) {
        self.task.abort();
    }
}
