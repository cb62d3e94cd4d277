//! A host with virtual GPUs that are moved repeatedly by a reshape from its root to a child and back, with all their
//! consumers.

use std::sync::atomic::{AtomicBool, Ordering};

use berth_tests::contest::ask;
use http::Method;
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// Each holds one CPU of the root, and one virtual GPU wherever these are.
const CONSUMERS: u32 = 20;

/// More than a process lives to see.
const MOVES: u32 = 10_000;

/// A host, and what is known of it.
#[derive(Debug)]
pub(crate) struct ReshapedHost {
    number: u32,
    /// Reshapes that were done.
    done: u64,
    /// Whether the last one was not answered.
    unknown: bool,
}

impl ReshapedHost {
    fn provider(&self, child: bool) -> String {
        Uuid::from_u128(0x5e << 120 | u128::from(self.number) << 8 | u128::from(child)).to_string()
    }

    fn consumer(&self, which: u32) -> String {
        Uuid::from_u128(0xc5 << 120 | u128::from(self.number) << 32 | u128::from(which)).to_string()
    }

    /// Makes the host, with the virtual GPUs on the root.
    pub(crate) async fn make(number: u32, service: &str) -> Result<Self, String> {
        let host = Self {
            number,
            done: 0,
            unknown: false,
        };
        let (root, child) = (host.provider(false), host.provider(true));
        let path = "/resource_providers";
        let body = json!({"name": format!("host-{number}"), "uuid": root});
        expect(service, Method::POST, path, &body).await?;
        let body = json!({"name": format!("host-{number}-gpu"), "uuid": child, "parent_provider_uuid": root});
        expect(service, Method::POST, path, &body).await?;
        let body =
            json!({"resource_provider_generation": 0, "inventories": inventories(false, false)});
        let path = format!("/resource_providers/{root}/inventories");
        expect(service, Method::PUT, &path, &body).await?;
        let body = host.allocations(false, None);
        expect(service, Method::POST, "/allocations", &body).await?;
        Ok(host)
    }

    /// Who holds what, with the virtual GPUs on the child or on the root.
    fn allocations(&self, on_child: bool, generation: Option<u64>) -> Value {
        let consumers = (0..CONSUMERS).map(|which| {
            let allocations = match on_child {
                true => json!({
                    self.provider(false): {"resources": {"VCPU": 1}},
                    self.provider(true): {"resources": {"VGPU": 1}},
                }),
                false => json!({self.provider(false): {"resources": {"VCPU": 1, "VGPU": 1}}}),
            };
            let wanted = json!({
                "allocations": allocations, "project_id": "project", "user_id": "user",
                "consumer_generation": generation, "consumer_type": "INSTANCE",
            });
            (self.consumer(which), wanted)
        });
        Value::Object(consumers.collect())
    }

    /// Reshapes until one is not answered, or not done; says when one was.
    pub(crate) async fn move_to_and_fro(&mut self, services: &[String], moved: &AtomicBool) {
        for turn in 0..MOVES {
            let service = &services[turn as usize % services.len()];
            if self.reshape(service).await.is_err() {
                return;
            }
            moved.store(true, Ordering::SeqCst);
        }
    }

    /// One reshape, to where the virtual GPUs are not.
    async fn reshape(&mut self, service: &str) -> Result<(), String> {
        let to_child = self.done.is_multiple_of(2);
        let mut providers = Map::new();
        for child in [false, true] {
            let path = format!("/resource_providers/{}", self.provider(child));
            let seen = expect(service, Method::GET, &path, &Value::Null).await?;
            let wanted = json!({
                "resource_provider_generation": seen["generation"], "inventories": inventories(child, to_child),
            });
            providers.insert(self.provider(child), wanted);
        }
        // Made by a write, and changed by each reshape since.
        let generation = self.done + 1;
        let body = json!({
            "inventories": providers, "allocations": self.allocations(to_child, Some(generation)),
        });
        let asked = ask(service, Method::POST, "/reshaper", &body).await;
        match asked.map(|answer| answer.status()) {
            Ok(status) if status.is_success() => {
                self.done += 1;
                Ok(())
            }
            Ok(status) if status.is_client_error() => Err(format!("refused: {status}")),
            other => {
                self.unknown = true;
                Err(format!("{other:?}"))
            }
        }
    }

    /// Reshapes that were done.
    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    /// Checks the position of the virtual GPUs and of all consumers: as after the last acknowledged reshape, or after
    /// the unanswered one.
    pub(crate) async fn check(&mut self, service: &str) -> Result<(), String> {
        let mut seen = Vec::new();
        for child in [false, true] {
            let path = format!("/resource_providers/{}", self.provider(child));
            for what in ["inventories", "allocations"] {
                let path = format!("{path}/{what}");
                let body = expect(service, Method::GET, &path, &Value::Null).await?;
                seen.push(body[what].clone());
            }
        }
        let outcomes = [Some(self.done), self.unknown.then_some(self.done + 1)];
        let outcome = outcomes
            .into_iter()
            .flatten()
            .find(|done| seen == self.expected(*done))
            .ok_or_else(|| format!("{self:?} is {seen:?}"))?;
        self.done = outcome;
        self.unknown = false;
        Ok(())
    }

    /// The inventories and allocations of root and child after so many reshapes.
    fn expected(&self, done: u64) -> Vec<Value> {
        let on_child = !done.is_multiple_of(2);
        let held = |resources: Value| {
            let consumers = (0..CONSUMERS).map(|which| {
                let held = json!({"resources": resources, "consumer_generation": done + 1});
                (self.consumer(which), held)
            });
            Value::Object(consumers.collect())
        };
        let (root, child) = match on_child {
            true => (held(json!({"VCPU": 1})), held(json!({"VGPU": 1}))),
            false => (held(json!({"VCPU": 1, "VGPU": 1})), json!({})),
        };
        vec![
            inventories(false, on_child),
            root,
            inventories(true, on_child),
            child,
        ]
    }
}

/// What the root or the child has.
fn inventories(child: bool, on_child: bool) -> Value {
    let of = |total: u32| json!({"total": total, "reserved": 0, "min_unit": 1, "max_unit": total, "step_size": 1, "allocation_ratio": 1.0});
    match (child, on_child) {
        (true, true) => json!({"VGPU": of(CONSUMERS)}),
        (true, false) => json!({}),
        (false, true) => json!({"VCPU": of(64)}),
        (false, false) => json!({"VCPU": of(64), "VGPU": of(CONSUMERS)}),
    }
}

/// The answer's body, where it was done.
async fn expect(service: &str, method: Method, path: &str, body: &Value) -> Result<Value, String> {
    let answer = ask(service, method.clone(), path, body).await;
    let answer = answer.map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(answer.body());
    if !answer.status().is_success() {
        return Err(format!("{method} {path}: {} {text}", answer.status()));
    }
    Ok(serde_json::from_str(&text).unwrap_or_default())
}
