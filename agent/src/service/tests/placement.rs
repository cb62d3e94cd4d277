//! A minimal scripted Placement in memory: providers, inventories, traits, generations and a reshape.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_client::{AdapterOptions, Auth, HttpService, PlacementClient, TransportError};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::metrics::Metrics;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PlacementBehaviour {
    Fine,
    Refused,
    /// Requests whose method and path contain this text get this status.
    Status(&'static str, StatusCode),
    /// Requests whose method and path contain this text wait for [`PlacementBehaviour::Fine`], and are then performed.
    Held(String),
    /// Every response takes this long.
    Slow(Duration),
}

#[derive(Debug, Clone)]
struct Provider {
    name: String,
    parent: Value,
    generation: i64,
    inventories: Value,
    traits: Value,
}

#[derive(Debug, Default)]
struct World {
    providers: BTreeMap<String, Provider>,
    requests: Vec<String>,
}

#[derive(Clone)]
pub(super) struct FakePlacement {
    world: Arc<Mutex<World>>,
    behaviour: Arc<watch::Sender<PlacementBehaviour>>,
}

impl FakePlacement {
    pub(super) fn empty() -> Self {
        Self {
            world: Arc::default(),
            behaviour: Arc::new(watch::channel(PlacementBehaviour::Fine).0),
        }
    }

    pub(super) fn set(&self, behaviour: PlacementBehaviour) {
        self.behaviour.send_replace(behaviour);
    }

    pub(super) fn client(&self, metrics: &Metrics, timeout: Duration) -> PlacementClient {
        let this = self.clone();
        let http = HttpService::new(tower::service_fn(move |request| {
            this.clone().serve(request)
        }));
        let options = AdapterOptions {
            timeout,
            observer: Some(Arc::new(metrics.clone())),
            ..AdapterOptions::default()
        };
        PlacementClient::new(http, Auth::none("http://placement").unwrap(), &options)
    }

    /// Requests so far, as method and path.
    pub(super) fn requests(&self) -> Vec<String> {
        self.world.lock().unwrap().requests.clone()
    }

    fn provider(&self, name: &str) -> Option<Provider> {
        self.world
            .lock()
            .unwrap()
            .providers
            .values()
            .find(|provider| provider.name == name)
            .cloned()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.provider(name).is_some()
    }

    /// Creates a root provider of another service.
    pub(super) fn plant(&self, name: &str) {
        let uuid = uuid::Uuid::new_v4().to_string();
        self.world
            .lock()
            .unwrap()
            .create(&json!({"uuid": uuid, "name": name}));
    }

    /// Creates a child of another service with a trait, under the UUID that the agent would use.
    pub(super) fn plant_child(&self, parent: &str, name: &str, given: &str) {
        let parent = self.uuid(parent).unwrap();
        let root: berth_model::ProviderUuid = parent.parse().unwrap();
        let uuid = root.child(&name.parse().unwrap()).to_string();
        let mut world = self.world.lock().unwrap();
        world.create(&json!({"uuid": uuid, "name": name, "parent_provider_uuid": parent}));
        world.providers.get_mut(&uuid).unwrap().traits = json!([given]);
    }

    pub(super) fn remove(&self, name: &str) {
        self.world
            .lock()
            .unwrap()
            .providers
            .retain(|_, provider| provider.name != name);
    }

    pub(super) fn uuid(&self, name: &str) -> Option<String> {
        let world = self.world.lock().unwrap();
        world
            .providers
            .iter()
            .find(|(_, provider)| provider.name == name)
            .map(|(uuid, _)| uuid.clone())
    }

    /// A field of an inventory; null if it does not exist.
    pub(super) fn inventory(&self, name: &str, class: &str, field: &str) -> Value {
        self.provider(name).map_or(Value::Null, |provider| {
            provider.inventories[class][field].clone()
        })
    }

    pub(super) fn has_trait(&self, name: &str, wanted: &str) -> bool {
        let traits = self
            .provider(name)
            .map_or(Value::Null, |provider| provider.traits);
        traits
            .as_array()
            .is_some_and(|traits| traits.contains(&json!(wanted)))
    }

    async fn serve(self, request: Request<Bytes>) -> Result<Response<Bytes>, TransportError> {
        let line = format!(
            "{} {}",
            request.method(),
            request.uri().path_and_query().unwrap()
        );
        self.world.lock().unwrap().requests.push(line.clone());
        let now = self.behaviour.borrow().clone();
        match now {
            PlacementBehaviour::Refused => {
                return Err(TransportError::Refused {
                    peer: "placement:8778".to_owned(),
                });
            }
            PlacementBehaviour::Status(text, status) if line.contains(text) => {
                return Ok(refusal(status));
            }
            PlacementBehaviour::Held(text) if line.contains(&text) => {
                let fine = |behaviour: &PlacementBehaviour| *behaviour == PlacementBehaviour::Fine;
                self.behaviour.subscribe().wait_for(fine).await.unwrap();
            }
            PlacementBehaviour::Slow(time) => tokio::time::sleep(time).await,
            _ => {}
        }
        Ok(self.world.lock().unwrap().answer(&request))
    }
}

fn refusal(status: StatusCode) -> Response<Bytes> {
    let detail = status.canonical_reason().unwrap_or_default();
    let errors = json!({"errors": [{"status": status.as_u16(), "title": detail, "detail": detail,
        "code": "placement.undefined_code", "request_id": "req-1"}]});
    answer(status, &errors)
}

fn answer(status: StatusCode, body: &Value) -> Response<Bytes> {
    let body = if body.is_null() {
        Bytes::new()
    } else {
        Bytes::from(body.to_string())
    };
    Response::builder()
        .status(status)
        .header("content-type", "application/json")
        .body(body)
        .unwrap()
}

fn ok(body: Value) -> Response<Bytes> {
    answer(StatusCode::OK, &body)
}

impl World {
    fn answer(&mut self, request: &Request<Bytes>) -> Response<Bytes> {
        let body: Value = serde_json::from_slice(request.body()).unwrap_or_default();
        let query = request.uri().query().unwrap_or_default();
        let path: Vec<&str> = request.uri().path().trim_matches('/').split('/').collect();
        match (request.method(), path.as_slice()) {
            (&Method::GET, ["traits"]) => {
                let names: Vec<&str> = query.trim_start_matches("name=in:").split(',').collect();
                ok(json!({ "traits": names }))
            }
            (&Method::PUT, ["traits" | "resource_classes", _]) => {
                answer(StatusCode::CREATED, &Value::Null)
            }
            (&Method::GET, ["resource_providers"]) => self.list(query),
            (&Method::POST, ["resource_providers"]) => self.create(&body),
            (&Method::POST, ["reshaper"]) => self.reshape(&body),
            (method, ["resource_providers", uuid]) => self.one(method, uuid, &body),
            (method, ["resource_providers", uuid, part]) => self.part(method, uuid, part, &body),
            _ => refusal(StatusCode::NOT_FOUND),
        }
    }

    fn shown(&self, uuid: &str) -> Value {
        let provider = &self.providers[uuid];
        json!({"uuid": uuid, "name": provider.name, "generation": provider.generation,
            "parent_provider_uuid": provider.parent, "root_provider_uuid": self.root(uuid)})
    }

    fn root(&self, uuid: &str) -> String {
        match self
            .providers
            .get(uuid)
            .and_then(|provider| provider.parent.as_str())
        {
            Some(parent) => self.root(parent),
            None => uuid.to_owned(),
        }
    }

    fn list(&self, query: &str) -> Response<Bytes> {
        let (key, value) = query.split_once('=').unwrap_or_default();
        let wanted = |uuid: &&String| match key {
            "in_tree" => self.root(uuid) == value,
            "name" => self.providers[*uuid].name == value,
            _ => false,
        };
        let found: Vec<Value> = self
            .providers
            .keys()
            .filter(wanted)
            .map(|uuid| self.shown(uuid))
            .collect();
        ok(json!({ "resource_providers": found }))
    }

    fn create(&mut self, body: &Value) -> Response<Bytes> {
        let uuid = body["uuid"].as_str().unwrap().to_owned();
        let provider = Provider {
            name: body["name"].as_str().unwrap().to_owned(),
            parent: body["parent_provider_uuid"].clone(),
            generation: 0,
            inventories: json!({}),
            traits: json!([]),
        };
        self.providers.insert(uuid.clone(), provider);
        ok(self.shown(&uuid))
    }

    fn one(&mut self, method: &Method, uuid: &str, body: &Value) -> Response<Bytes> {
        if !self.providers.contains_key(uuid) {
            return refusal(StatusCode::NOT_FOUND);
        }
        if let (&Method::PUT, Some(provider)) = (method, self.providers.get_mut(uuid)) {
            provider.name = body["name"].as_str().unwrap().to_owned();
        }
        if method == Method::DELETE {
            self.providers.remove(uuid);
            return answer(StatusCode::NO_CONTENT, &Value::Null);
        }
        ok(self.shown(uuid))
    }

    fn part(&mut self, method: &Method, uuid: &str, part: &str, body: &Value) -> Response<Bytes> {
        let Some(provider) = self.providers.get_mut(uuid) else {
            return refusal(StatusCode::NOT_FOUND);
        };
        if method == Method::PUT {
            if body["resource_provider_generation"] != json!(provider.generation) {
                return refusal(StatusCode::CONFLICT);
            }
            provider.generation += 1;
            match part {
                "inventories" => provider.inventories = body["inventories"].clone(),
                "traits" => provider.traits = body["traits"].clone(),
                _ => {}
            }
        }
        let value = match part {
            "inventories" => provider.inventories.clone(),
            "traits" => provider.traits.clone(),
            "aggregates" => json!([]),
            _ => json!({}),
        };
        ok(json!({ part: value, "resource_provider_generation": provider.generation }))
    }

    fn reshape(&mut self, body: &Value) -> Response<Bytes> {
        for (uuid, inventories) in body["inventories"].as_object().unwrap() {
            let provider = self.providers.get_mut(uuid).unwrap();
            provider.inventories = inventories["inventories"].clone();
            provider.generation += 1;
        }
        answer(StatusCode::NO_CONTENT, &Value::Null)
    }
}
