//! A service for one test, and what tests say to it.

use axum::Router;
use axum::body::Body;
use berth_placement::{PlacementApiOptions, prepare, router};
use berth_store::{SqlStore, Statement};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

/// Uuids that read well in a failure.
pub(crate) const HOST: &str = "11111111-0000-0000-0000-000000000001";
pub(crate) const GPU_0: &str = "11111111-0000-0000-0000-000000000010";
pub(crate) const GPU_1: &str = "11111111-0000-0000-0000-000000000011";
pub(crate) const ABSENT: &str = "99999999-0000-0000-0000-000000000000";

pub(crate) fn consumer(n: usize) -> String {
    format!("cccccccc-0000-0000-0000-{n:012}")
}

/// An answer, read whole.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    /// The message of an error document, without the stock sentence.
    pub(crate) fn detail(&self) -> &str {
        let detail = self.body["errors"][0]["detail"].as_str().unwrap();
        detail
            .split_once("\n\n")
            .map_or("", |(_, message)| message.trim())
    }

    pub(crate) fn code(&self) -> &str {
        self.body["errors"][0]["code"].as_str().unwrap_or("")
    }
}

/// One Placement with a database of its own.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) store: SqlStore,
    router: Router,
    version: &'static str,
    token: &'static str,
}

impl Service {
    pub(crate) async fn start() -> Self {
        Self::with(PlacementApiOptions::default()).await
    }

    pub(crate) async fn with(options: PlacementApiOptions) -> Self {
        Self::over(SqlStore::in_memory().await.unwrap(), options).await
    }

    pub(crate) async fn over(store: SqlStore, options: PlacementApiOptions) -> Self {
        prepare(&store).await.unwrap();
        Self {
            router: router(store.clone(), options),
            store,
            version: "1.39",
            token: "admin",
        }
    }

    /// The same service asked at another microversion.
    pub(crate) fn at(&self, version: &'static str) -> Self {
        Self {
            version,
            ..self.clone()
        }
    }

    /// The same service with this caller's token.
    pub(crate) fn by(&self, token: &'static str) -> Self {
        Self {
            token,
            ..self.clone()
        }
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Reply {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&bytes).into_owned()));
        Reply {
            status: parts.status,
            headers: parts.headers,
            body,
        }
    }

    pub(crate) fn request(&self, method: &str, path: &str) -> http::request::Builder {
        Request::builder()
            .method(method)
            .uri(path)
            .header("x-auth-token", self.token)
            .header(
                "openstack-api-version",
                format!("placement {}", self.version),
            )
    }

    async fn bodiless(&self, method: &str, path: &str) -> Reply {
        self.send(self.request(method, path).body(Body::empty()).unwrap())
            .await
    }

    async fn with_body(&self, method: &str, path: &str, body: &Value) -> Reply {
        let request = self
            .request(method, path)
            .header("content-type", "application/json");
        self.send(request.body(Body::from(body.to_string())).unwrap())
            .await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.bodiless("GET", path).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        self.bodiless("DELETE", path).await
    }

    pub(crate) async fn put_empty(&self, path: &str) -> Reply {
        self.bodiless("PUT", path).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Reply {
        self.with_body("PUT", path, &body).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Reply {
        self.with_body("POST", path, &body).await
    }

    pub(crate) async fn provider(&self, uuid: &str, parent: Option<&str>) {
        let body = json!({"uuid": uuid, "name": uuid, "parent_provider_uuid": parent});
        let reply = self.at("1.39").post("/resource_providers", body).await;
        assert_eq!(reply.status, 200, "{reply:?}");
    }

    pub(crate) async fn generation(&self, provider: &str) -> i64 {
        let reply = self
            .at("1.39")
            .get(&format!("/resource_providers/{provider}"))
            .await;
        reply.body["generation"].as_i64().unwrap()
    }

    /// Sets a provider's inventories, e.g. `json!({"VCPU": {"total": 8}})`.
    pub(crate) async fn inventories(&self, provider: &str, inventories: Value) {
        let body = json!({
            "resource_provider_generation": self.generation(provider).await,
            "inventories": inventories,
        });
        let path = format!("/resource_providers/{provider}/inventories");
        let reply = self.at("1.39").put(&path, body).await;
        assert_eq!(reply.status, 200, "{reply:?}");
    }

    /// Claims for a consumer that has nothing yet.
    pub(crate) async fn claim(&self, consumer: &str, provider: &str, resources: Value) -> Reply {
        let body = allocations(&[(provider, resources)], None);
        self.at("1.39")
            .put(&format!("/allocations/{consumer}"), body)
            .await
    }

    pub(crate) async fn usages(&self, provider: &str) -> Value {
        let path = format!("/resource_providers/{provider}/usages");
        self.at("1.39").get(&path).await.body["usages"].clone()
    }

    pub(crate) async fn allocations_of(&self, consumer: &str) -> Value {
        let path = format!("/allocations/{consumer}");
        self.at("1.39").get(&path).await.body["allocations"].clone()
    }

    /// Every row of every table that a write may touch, as text.
    pub(crate) async fn rows(&self) -> Vec<String> {
        let mut tx = self.store.read().await.unwrap();
        let mut all = Vec::new();
        for (table, columns) in TABLES {
            let sql = format!("SELECT concat_ws('|', {columns}) FROM {table} ORDER BY 1");
            for row in tx.rows(Statement::new(sql)).await.unwrap() {
                all.push(format!("{table}: {}", row.text(0).unwrap()));
            }
        }
        all
    }
}

const TABLES: [(&str, &str); 9] = [
    (
        "resource_providers",
        "uuid, name, generation, root_provider_id, coalesce(parent_provider_id, ''), updated_at",
    ),
    (
        "inventories",
        "id, resource_provider_id, resource_class_id, total, reserved, max_unit, allocation_ratio",
    ),
    (
        "allocations",
        "id, resource_provider_id, consumer_id, resource_class_id, used, created_at",
    ),
    (
        "consumers",
        "id, uuid, project_id, user_id, generation, coalesce(consumer_type_id, '')",
    ),
    ("consumer_types", "id, name"),
    ("projects", "id, external_id"),
    ("users", "id, external_id"),
    ("resource_provider_traits", "resource_provider_id, trait_id"),
    (
        "resource_provider_aggregates",
        "resource_provider_id, aggregate_id",
    ),
];

/// The body of one consumer's allocations.
pub(crate) fn allocations(held: &[(&str, Value)], generation: Option<i64>) -> Value {
    let by_provider: serde_json::Map<String, Value> = held
        .iter()
        .map(|(provider, resources)| ((*provider).to_owned(), json!({ "resources": resources })))
        .collect();
    json!({
        "allocations": by_provider,
        "project_id": "project",
        "user_id": "user",
        "consumer_generation": generation,
        "consumer_type": "INSTANCE",
    })
}

/// Asserts status and message of a refusal.
#[track_caller]
pub(crate) fn refused(reply: &Reply, status: u16, message: &str) {
    assert_eq!(reply.status, status, "{reply:?}");
    assert!(
        reply.detail().contains(message),
        "{:?} has no {message:?}",
        reply.detail()
    );
}
