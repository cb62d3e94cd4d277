//! A compute API that only hears events, and answers as the test says.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_accelerator::{EventsBell, Options, deliver_events};
use berth_client::{AdapterOptions, Auth, ComputeClient, HttpService, Secret, TransportError};
use bytes::Bytes;
use http::{Request, Response};
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

use crate::service::{HOST, RP, Service, card, options};

#[derive(Default)]
struct Heard {
    /// Statuses to be answered; 200 when there is none; 0 stands for no answer at all.
    answers: VecDeque<u16>,
    events: Vec<Value>,
    heads: Vec<(String, String)>,
}

/// The receiver. Clones hear the same.
#[derive(Clone)]
pub(crate) struct Receiver {
    heard: Arc<Mutex<Heard>>,
    news: Arc<Notify>,
    pub(crate) bell: EventsBell,
}

impl Receiver {
    pub(crate) fn answering(answers: impl IntoIterator<Item = u16>) -> Self {
        let heard = Heard {
            answers: answers.into_iter().collect(),
            ..Heard::default()
        };
        Self {
            heard: Arc::new(Mutex::new(heard)),
            news: Arc::new(Notify::new()),
            bell: EventsBell::default(),
        }
    }

    /// A service that rings for this receiver, with sixteen handles and a profile of one.
    pub(crate) async fn service(&self) -> Service {
        let service = Service::with(self.options()).await;
        service.report(HOST, json!([card(0, RP, 16)])).await;
        service.profile("dp", 1).await;
        service
    }

    pub(crate) fn options(&self) -> Options {
        Options {
            bell: self.bell.clone(),
            ..options()
        }
    }

    fn hear(&self, request: &Request<Bytes>) -> Result<Response<Bytes>, TransportError> {
        let mut heard = self.heard.lock().unwrap();
        let header = |name: &str| request.headers()[name].to_str().unwrap().to_owned();
        heard
            .heads
            .push((request.uri().to_string(), header("openstack-api-version")));
        heard
            .events
            .push(serde_json::from_slice(request.body()).unwrap());
        let status = heard.answers.pop_front().unwrap_or(200);
        self.news.notify_one();
        if status == 0 {
            return Err(TransportError::Refused {
                peer: "the receiver".to_owned(),
            });
        }
        Ok(Response::builder()
            .status(status)
            .body(Bytes::from_static(b"{\"events\": []}"))
            .unwrap())
    }

    /// Begins to send what is in the outbox.
    pub(crate) fn deliver(&self, service: &Service) -> Delivery {
        let receiver = self.clone();
        let http = HttpService::new(tower::service_fn(move |request: Request<Bytes>| {
            let answer = receiver.hear(&request);
            async move { answer }
        }));
        let token = Secret::from("t");
        let auth = Auth::admin_token("http://compute.example/v2.1", &token).unwrap();
        let client = ComputeClient::new(http, auth, &AdapterOptions::default());
        let (stop, stopped) = oneshot::channel::<()>();
        let ended = async {
            stopped.await.ok();
        };
        let delivering = deliver_events(service.store.clone(), client, self.bell.clone(), ended);
        Delivery {
            stop,
            task: tokio::spawn(delivering),
        }
    }

    /// What was told, once it is this much.
    pub(crate) async fn told(&self, count: usize) -> Vec<Value> {
        let enough = async {
            loop {
                let events = self.heard.lock().unwrap().events.clone();
                if events.len() >= count {
                    return events;
                }
                self.news.notified().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), enough)
            .await
            .expect("the receiver is told")
    }

    /// URL and version of each POST.
    pub(crate) fn heads(&self) -> Vec<(String, String)> {
        self.heard.lock().unwrap().heads.clone()
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
}
