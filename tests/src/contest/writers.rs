//! The writers of a contest: a seed determines their requests, and one answer in twenty is not awaited.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use berth_client::JitterRng;
use bytes::Bytes;
use futures_util::future::join_all;
use http::{Method, Request, Response};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::Barrier;
use uuid::Uuid;

use super::{ContestAnswer, ContestCall, ContestHistory, DesiredAllocation, Event};
use crate::exchange::{ExchangeError, address_of, exchange};

const LOST_IN_A_HUNDRED: u64 = 5;

/// The provider of a contest.
#[must_use]
pub fn provider_uuid(contest: u64) -> Uuid {
    Uuid::from_u128(0x9_0000_0000_0000 << 64 | u128::from(contest))
}

/// A consumer of a contest.
#[must_use]
pub fn consumer_uuid(contest: u64, number: u32) -> Uuid {
    Uuid::from_u128(u128::from(number) << 80 | 0xc << 76 | u128::from(contest))
}

/// Numbers that a writer has for its consumers.
const OWN: u32 = 3;

/// A contest to be held.
#[derive(Clone, Debug)]
pub struct Contest {
    /// Which; it draws what the writers do, and names the provider and the consumers.
    pub number: u64,
    pub writers: u32,
    pub capacity: u64,
    /// Whether some give back by DELETE, which raises no generation of the provider.
    pub releases: bool,
    /// The services' URLs, without a slash at the end.
    pub services: Vec<String>,
}

/// One request to a Placement, at its newest microversion, as `admin`.
pub async fn ask(
    service: &str,
    method: Method,
    path: &str,
    body: &Value,
) -> Result<Response<Bytes>, ExchangeError> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("x-auth-token", "admin")
        .header("openstack-api-version", "placement 1.39")
        .header("content-type", "application/json");
    exchange(address_of(service)?, request.body(bytes_of(body))?).await
}

fn bytes_of(body: &Value) -> Bytes {
    match body {
        Value::Null => Bytes::new(),
        body => Bytes::from(body.to_string()),
    }
}

impl Contest {
    /// How many numbers its consumers have.
    #[must_use]
    pub fn consumers(&self) -> u32 {
        self.writers * OWN + OWN
    }

    /// Creates the provider, runs all writers at once, and then lets one more writer claim the remaining units.
    pub async fn hold(&self) -> Result<ContestHistory, String> {
        let mut running = self.open().await?;
        running.run_writers().await?;
        Ok(running.claim_remaining(&self.services).await)
    }

    pub async fn open(&self) -> Result<RunningContest, String> {
        let generation = self.make_provider().await?;
        Ok(RunningContest {
            shared: Arc::new(ContestState {
                contest: self.clone(),
                clock: AtomicU64::new(0),
                start: Barrier::new(self.writers as usize),
            }),
            generation,
            events: Vec::new(),
        })
    }

    async fn make_provider(&self) -> Result<i64, String> {
        let uuid = provider_uuid(self.number).to_string();
        let service = &self.services[0];
        let body = json!({"name": format!("contest-{}", self.number), "uuid": uuid});
        let make = ask(service, Method::POST, "/resource_providers", &body).await;
        let made = make.map_err(|error| error.to_string())?;
        if made.status() != 200 {
            return Err(format!("the provider: {made:?}"));
        }
        let body = json!({"resource_provider_generation": 0, "inventories": {"VCPU": {"total": self.capacity}}});
        let path = format!("/resource_providers/{uuid}/inventories");
        let set = ask(service, Method::PUT, &path, &body).await;
        let set = set.map_err(|error| error.to_string())?;
        let answer: Value = serde_json::from_slice(set.body()).unwrap_or_default();
        answer["resource_provider_generation"]
            .as_i64()
            .ok_or_else(|| format!("the inventory: {set:?}"))
    }
}

/// A contest under way.
#[derive(Debug)]
pub struct RunningContest {
    shared: Arc<ContestState>,
    generation: i64,
    events: Vec<Event>,
}

impl RunningContest {
    /// A function that returns the number of events so far. It does not borrow the contest.
    pub fn event_count(&self) -> impl Fn() -> u64 + Send + Sync + use<> {
        let shared = Arc::clone(&self.shared);
        move || shared.clock.load(Ordering::SeqCst)
    }

    /// Runs all writers at once, and waits until each has finished.
    pub async fn run_writers(&mut self) -> Result<(), String> {
        let writers = (0..self.shared.contest.writers).map(|number| {
            let services = self.shared.contest.services.clone();
            let writer = ContestWriter::new(&self.shared, number, services);
            tokio::spawn(writer.write())
        });
        for done in join_all(writers).await {
            let events = done.map_err(|error| format!("a writer panicked: {error}"))?;
            self.events.extend(events);
        }
        Ok(())
    }

    /// One more writer claims the remaining units, and reads the result.
    pub async fn claim_remaining(self, services: &[String]) -> ContestHistory {
        let contest = &self.shared.contest;
        let last = ContestWriter::new(&self.shared, contest.writers, services.to_vec());
        let mut events = self.events;
        events.extend(last.claim_remaining().await);
        ContestHistory {
            capacity: contest.capacity,
            generation: self.generation,
            events,
        }
    }
}

/// What all writers of a contest share.
#[derive(Debug)]
struct ContestState {
    contest: Contest,
    clock: AtomicU64,
    start: Barrier,
}

impl ContestState {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }
}

struct ContestWriter {
    contest: Arc<ContestState>,
    number: u32,
    services: Vec<String>,
    rng: JitterRng,
    events: Vec<Event>,
}

impl ContestWriter {
    fn new(contest: &Arc<ContestState>, number: u32, services: Vec<String>) -> Self {
        let seed = contest.contest.number << 16 | u64::from(number);
        Self {
            contest: Arc::clone(contest),
            number,
            services,
            rng: JitterRng::seeded(seed),
            events: Vec::new(),
        }
    }

    fn below(&self, limit: u64) -> u64 {
        self.rng.next() % limit
    }

    /// Claims, changes its mind, claims again.
    async fn write(mut self) -> Vec<Event> {
        let [first, second, third] = [0, 1, 2].map(|own| self.number * OWN + own);
        self.contest.start.wait().await;
        let mut units = 1 + self.below(2);
        let mut outcome = self.claim(first, units).await;
        if outcome == Some(ContestAnswer::Full) && units == 2 {
            units = 1;
            outcome = self.claim(first, units).await;
        }
        if outcome == Some(ContestAnswer::Done) {
            let want = |consumer, units, generation| DesiredAllocation {
                consumer,
                units,
                generation,
            };
            let call = match self.below(5) {
                0 if self.contest.contest.releases => ContestCall::Release(first),
                0 => ContestCall::Write(vec![want(first, 0, Some(1))]),
                1 => ContestCall::Write(vec![want(first, 0, Some(1)), want(second, units, None)]),
                2 => ContestCall::Write(vec![want(first, 3 - units, Some(1))]),
                3 => ContestCall::Write(vec![want(first, 3, Some(1)), want(second, 1, None)]),
                _ => ContestCall::Read,
            };
            self.send(call).await;
        }
        self.claim(third, 1).await;
        self.events
    }

    async fn claim_remaining(mut self) -> Vec<Event> {
        let own = self.number * OWN;
        let mut generation = None;
        // A request for more units than exist must fail.
        for units in 1..=self.contest.contest.capacity + 1 {
            let call = ContestCall::Write(vec![DesiredAllocation {
                consumer: own,
                units,
                generation,
            }]);
            if self.ask(call).await != Some(ContestAnswer::Done) {
                break;
            }
            generation = Some(generation.unwrap_or(0) + 1);
        }
        self.ask(ContestCall::Read).await;
        self.events
    }

    async fn claim(&mut self, consumer: u32, units: u64) -> Option<ContestAnswer> {
        self.send(ContestCall::Write(vec![DesiredAllocation {
            consumer,
            units,
            generation: None,
        }]))
        .await
    }

    /// Asks, or sends and does not wait for the answer.
    async fn send(&mut self, call: ContestCall) -> Option<ContestAnswer> {
        if self.below(100) < LOST_IN_A_HUNDRED {
            self.lose(call).await;
            return None;
        }
        self.ask(call).await
    }

    async fn ask(&mut self, call: ContestCall) -> Option<ContestAnswer> {
        let (service, url) = self.service();
        let (method, path, body) = self.request(&call);
        let asked = self.contest.now();
        let answer = ask(&url, method, &path, &body).await.ok();
        let answered = answer.map(|answer| (self.contest.now(), self.answer(&answer)));
        let outcome = answered.clone().map(|(_, answer)| answer);
        self.events.push(Event {
            writer: self.number,
            service,
            call,
            asked,
            answered,
        });
        outcome
    }

    /// The whole request goes out, and the connection is closed at once or a little later: so some are done, and some not.
    async fn lose(&mut self, call: ContestCall) {
        let (service, url) = self.service();
        let (method, path, body) = self.request(&call);
        let asked = self.contest.now();
        if let Ok(address) = address_of(&url)
            && let Ok(mut stream) = TcpStream::connect(address).await
        {
            let body = bytes_of(&body);
            let head = format!(
                "{method} {path} HTTP/1.1\r\nhost: {address}\r\nx-auth-token: admin\r\n\
                 openstack-api-version: placement 1.39\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            // Whether it arrives is as unknown as the answer.
            let _ = stream.write_all(&[head.as_bytes(), &body].concat()).await;
            tokio::time::sleep(Duration::from_millis(self.below(2) * self.below(40))).await;
        }
        self.events.push(Event {
            writer: self.number,
            service,
            call,
            asked,
            answered: None,
        });
    }

    fn service(&self) -> (u32, String) {
        let at = self.below(self.services.len() as u64) as usize;
        (at as u32, self.services[at].clone())
    }

    fn request(&self, call: &ContestCall) -> (Method, String, Value) {
        let contest = self.contest.contest.number;
        let provider = provider_uuid(contest).to_string();
        let wanted = |want: &DesiredAllocation| {
            let allocations = match want.units {
                0 => json!({}),
                units => json!({&provider: {"resources": {"VCPU": units}}}),
            };
            json!({
                "allocations": allocations, "project_id": format!("project-{}", want.consumer % 3), "user_id": "user",
                "consumer_generation": want.generation, "consumer_type": "INSTANCE",
            })
        };
        let path = |consumer| format!("/allocations/{}", consumer_uuid(contest, consumer));
        match call {
            ContestCall::Write(wants) => match wants.as_slice() {
                [one] => (Method::PUT, path(one.consumer), wanted(one)),
                several => {
                    let body = several.iter().map(|want| {
                        let uuid = consumer_uuid(contest, want.consumer);
                        (uuid.to_string(), wanted(want))
                    });
                    let body = Value::Object(body.collect());
                    (Method::POST, "/allocations".to_owned(), body)
                }
            },
            ContestCall::Release(consumer) => (Method::DELETE, path(*consumer), Value::Null),
            ContestCall::Read => {
                let path = format!("/resource_providers/{provider}/allocations");
                (Method::GET, path, Value::Null)
            }
        }
    }

    fn answer(&self, answer: &Response<Bytes>) -> ContestAnswer {
        let text = String::from_utf8_lossy(answer.body());
        match answer.status().as_u16() {
            204 => ContestAnswer::Done,
            200 => self
                .seen(answer.body())
                .unwrap_or(ContestAnswer::Failed(200)),
            404 => ContestAnswer::NotThere,
            409 if text.contains("placement.concurrent_update") => ContestAnswer::Conflict,
            409 if text.contains("exceed the capacity") => ContestAnswer::Full,
            status => ContestAnswer::Failed(status),
        }
    }

    fn seen(&self, body: &[u8]) -> Option<ContestAnswer> {
        let body: Value = serde_json::from_slice(body).ok()?;
        let contest = &self.contest.contest;
        let numbers = (0..contest.consumers()).map(|n| (consumer_uuid(contest.number, n), n));
        let numbers: BTreeMap<Uuid, u32> = numbers.collect();
        let mut held = BTreeMap::new();
        for (uuid, allocation) in body["allocations"].as_object()? {
            let number = numbers.get(&uuid.parse().ok()?)?;
            held.insert(*number, allocation["resources"]["VCPU"].as_u64()?);
        }
        Some(ContestAnswer::Seen {
            generation: body["resource_provider_generation"].as_i64()?,
            held,
        })
    }
}
