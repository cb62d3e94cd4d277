//! The compute API of one test, and its users.

use std::any::Any;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use berth_compute::{Compute, ComputeApiOptions, ComputeOptions, ComputeParts, prepare, router};
use berth_conductor::journal::{BootGoal, SqlBootJournal};
use berth_http::auth::{ProjectLookup, Validation};
use berth_http::{
    Caller, HostAccount, TokenError, TokenRequest, TokenScope, ValidateToken, found_at, under,
};
use berth_quota::{QuotaHook, QuotaLimits};
use berth_store::{SqlError, SqlStore, Transaction, Work};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;
use uuid::Uuid;

use super::cloud::{Cloud, IMAGE};
use super::place;

/// The prefix of all paths.
const PREFIX: &str = "/compute";

/// The tokens: alice and bob are users of projects with their names. The token of the user `unscoped` has no project.
struct Table;

impl ValidateToken for Table {
    fn validate<'a>(&'a self, request: TokenRequest<'a>) -> Validation<'a> {
        let roles: &[&str] = match request.token {
            "admin" => &["admin", "member", "reader"],
            "alice" | "bob" | "unscoped" => &["member", "reader"],
            "cyborg" => &["service"],
            host if host.starts_with("host/") => &["service"],
            _ => return Box::pin(async { Err(TokenError::Refused) }),
        };
        let caller = Caller {
            user_id: request.token.to_owned(),
            scope: match request.token {
                "unscoped" => TokenScope::Unscoped,
                token => TokenScope::Project(format!("project-of-{token}")),
            },
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
            host: HostAccount::of_user_name(request.token),
            ..Caller::default()
        };
        Box::pin(async move { Ok(caller) })
    }

    fn project_exists<'a>(&'a self, project_id: &'a str) -> ProjectLookup<'a> {
        Box::pin(async move { Ok(Some(project_id.starts_with("project-of-"))) })
    }
}

/// A response with its body.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Reply {
    /// The message of an error document with this key.
    pub(crate) fn message(&self, kind: &str) -> &str {
        assert_eq!(self.body[kind]["code"], self.status.as_u16(), "{self:?}");
        self.body[kind]["message"].as_str().unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |it| it.to_str().unwrap())
    }
}

/// A request to be sent.
pub(crate) struct Ask<'a> {
    pub(crate) token: &'a str,
    pub(crate) version: &'a str,
    pub(crate) headers: Vec<(&'a str, &'a str)>,
}

/// A process with the API.
pub(crate) struct Service {
    pub(crate) store: SqlStore,
    /// Keeps the database alive, if the store alone does not.
    kept: Arc<dyn Any + Send + Sync>,
    router: Router,
    pub(crate) compute: Compute,
    pub(crate) cloud: Cloud,
}

impl Service {
    pub(crate) async fn start() -> Self {
        Self::with_quota(None).await
    }

    /// With a network service.
    pub(crate) async fn with_neutron() -> Self {
        let (store, kept) = place::fresh().await;
        Self::of(store, kept, None, Cloud::with_neutron().await).await
    }

    /// With this quota hook.
    pub(crate) async fn with_quota(quota: Option<QuotaHook>) -> Self {
        let (store, kept) = place::fresh().await;
        Self::over(store, kept, quota).await
    }

    /// With these limits for every project; all other tests have none.
    pub(crate) async fn with_limits(quotas: QuotaLimits) -> Self {
        let (store, kept) = place::fresh().await;
        let cloud = Cloud::new().await;
        Self::limited(store, kept, (None, quotas), cloud).await
    }

    /// A second process with its own conductor and the same database.
    pub(crate) async fn second_process(&self) -> Self {
        self.second_process_with_quota(None).await
    }

    /// The same, with these limits.
    pub(crate) async fn second_process_with_limits(&self, quotas: QuotaLimits) -> Self {
        let (store, kept) = (self.store.clone(), Arc::clone(&self.kept));
        Self::limited(store, kept, (None, quotas), Cloud::new().await).await
    }

    /// The same, with this quota hook.
    pub(crate) async fn second_process_with_quota(&self, quota: Option<QuotaHook>) -> Self {
        Self::over(self.store.clone(), Arc::clone(&self.kept), quota).await
    }

    /// A second process with this journal for its conductor.
    pub(crate) async fn second_process_with(&self, journal: SqlBootJournal) -> Self {
        let (store, kept) = (self.store.clone(), Arc::clone(&self.kept));
        Self::of(store, kept, None, Cloud::with(journal).await).await
    }

    pub(crate) async fn over(
        store: SqlStore,
        kept: Arc<dyn Any + Send + Sync>,
        quota: Option<QuotaHook>,
    ) -> Self {
        Self::of(store, kept, quota, Cloud::new().await).await
    }

    async fn of(
        store: SqlStore,
        kept: Arc<dyn Any + Send + Sync>,
        quota: Option<QuotaHook>,
        cloud: Cloud,
    ) -> Self {
        let unlimited = (quota, QuotaLimits::unlimited());
        Self::limited(store, kept, unlimited, cloud).await
    }

    async fn limited(
        store: SqlStore,
        kept: Arc<dyn Any + Send + Sync>,
        (quota, quotas): (Option<QuotaHook>, QuotaLimits),
        cloud: Cloud,
    ) -> Self {
        prepare(&store).await.unwrap();
        let options = ComputeApiOptions {
            tokens: Arc::new(Table),
            ..ComputeApiOptions::default()
        };
        let (parts, how) = cloud.parts(store.clone());
        let how = ComputeOptions { quotas, ..how };
        let compute = Compute::new(ComputeParts { quota, ..parts }, how);
        let routes = router(compute.clone(), options);
        Self {
            compute,
            cloud,
            store,
            kept,
            router: found_at(
                under(routes, PREFIX.parse().unwrap()),
                "http://cloud.example",
            ),
        }
    }

    pub(crate) async fn send(
        &self,
        ask: Ask<'_>,
        method: &str,
        path: &str,
        body: Option<Value>,
    ) -> Reply {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{PREFIX}{path}"))
            .header("host", "evil.example");
        if !ask.token.is_empty() {
            request = request.header("x-auth-token", ask.token);
        }
        if !ask.version.is_empty() {
            let version = format!("compute {}", ask.version);
            request = request.header("openstack-api-version", version);
        }
        for (name, value) in ask.headers {
            request = request.header(name, value);
        }
        let body = match body {
            None => Body::empty(),
            Some(body) => {
                request = request.header("content-type", "application/json");
                Body::from(body.to_string())
            }
        };
        let response = self.router.clone().oneshot(request.body(body).unwrap());
        let (parts, body) = response.await.unwrap().into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Reply {
            status: parts.status,
            headers: parts.headers,
            body: serde_json::from_slice(&bytes).unwrap_or_default(),
        }
    }

    /// Sends a request with a microversion such as `2.61`.
    pub(crate) async fn ask(
        &self,
        token: &str,
        version: &str,
        method: &str,
        path: &str,
        body: Option<Value>,
    ) -> Reply {
        let headers = Vec::new();
        let ask = Ask {
            token,
            version,
            headers,
        };
        self.send(ask, method, &format!("/v2.1{path}"), body).await
    }

    pub(crate) async fn get(&self, token: &str, version: &str, path: &str) -> Reply {
        self.ask(token, version, "GET", path, None).await
    }

    /// Creates a flavor; `more` adds fields to the required ones.
    pub(crate) async fn flavor(&self, id: &str, more: Value) -> Reply {
        let mut flavor =
            json!({"id": id, "name": format!("n-{id}"), "ram": 512, "vcpus": 1, "disk": 10});
        let Value::Object(more) = more else {
            panic!("fields are an object");
        };
        flavor.as_object_mut().unwrap().extend(more);
        let body = json!({"flavor": flavor});
        self.ask("admin", "2.82", "POST", "/flavors", Some(body))
            .await
    }

    /// Requests a server of the flavor `f`; `more` adds fields to the required ones.
    pub(crate) async fn ask_for(&self, token: &str, version: &str, more: Value) -> Reply {
        let mut server =
            json!({"name": "s", "flavorRef": "f", "imageRef": IMAGE, "networks": "none"});
        let Value::Object(more) = more else {
            panic!("fields are an object");
        };
        server.as_object_mut().unwrap().extend(more);
        let body = json!({"server": server});
        self.ask(token, version, "POST", "/servers", Some(body))
            .await
    }

    /// Creates a server of alice.
    pub(crate) async fn server(&self, more: Value) -> Uuid {
        let made = self.ask_for("alice", "2.82", more).await;
        assert_eq!(made.status, 202, "{made:?}");
        made.body["server"]["id"].as_str().unwrap().parse().unwrap()
    }

    /// Creates a server and marks it active at the conductor and the agent.
    pub(crate) async fn running(&self, more: Value) -> Uuid {
        let uuid = self.server(more).await;
        self.cloud.set_goal(uuid, &BootGoal::Active).await;
        self.cloud.agent.set_guest(uuid, "active", "running");
        uuid
    }

    /// The document of a server.
    pub(crate) async fn shown(&self, token: &str, version: &str, server: Uuid) -> Value {
        let path = format!("/servers/{server}");
        let shown = self.get(token, version, &path).await;
        assert_eq!(shown.status, 200, "{shown:?}");
        shown.body["server"].clone()
    }

    /// Runs the reconciler until no unfinished work is left.
    pub(crate) async fn settle(&self) {
        self.settle_with(&self.compute).await;
    }

    /// The same in a new process with the same database, as after a crash.
    pub(crate) async fn restart(&self) -> Compute {
        let (parts, how) = self.cloud.parts(self.store.clone());
        let next = Compute::new(parts, how);
        self.settle_with(&next).await;
        next
    }

    async fn settle_with(&self, compute: &Compute) {
        for _ in 0..200 {
            compute.reconcile().await.unwrap();
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }

    /// Changes the database directly.
    pub(crate) async fn change(&self, sql: &'static str) {
        change(&self.store, sql).await;
    }

    /// Changes the database of the hosts directly.
    pub(crate) async fn change_hosts(&self, sql: &'static str) {
        change(&self.cloud.store, sql).await;
    }
}

/// Changes a database directly.
pub(crate) async fn change(store: &SqlStore, sql: &'static str) {
    store.write(&Change(sql)).await.unwrap();
}

/// SQL statements in one transaction.
struct Change(&'static str);

impl Work for Change {
    type Output = ();
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
        tx.script(self.0).await
    }
}
