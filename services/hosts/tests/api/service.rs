//! Hosts for one test, their callers, and what tests tell of them.

use std::any::Any;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use berth_hosts::{Hosts, HostsApiOptions, HostsOptions, prepare, router};
use berth_http::auth::Validation;
use berth_http::{
    Caller, HostAccount, LookUpProviderRoot, TokenError, TokenRequest, TokenScope, ValidateToken,
};
use berth_store::{SqlError, SqlStore, Statement, Transaction, Work};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;
use uuid::Uuid;

use super::place;

pub(crate) fn node(n: u128) -> Uuid {
    Uuid::from_u128(0xaaaa_0000_0000_0000_0000_0000_0000_0000 + n)
}

pub(crate) fn guest(n: u128) -> Uuid {
    Uuid::from_u128(0xcccc_0000_0000_0000_0000_0000_0000_0000 + n)
}

/// Tokens as an identity service would know them.
struct Table;

impl ValidateToken for Table {
    fn validate<'a>(&'a self, request: TokenRequest<'a>) -> Validation<'a> {
        let roles: &[&str] = match request.token {
            "admin" => &["admin"],
            "alice" => &["member", "reader"],
            "agent" | "service" => &["service"],
            host if host.starts_with("host/") => &["service"],
            _ => return Box::pin(async { Err(TokenError::Refused) }),
        };
        let caller = Caller {
            user_id: request.token.to_owned(),
            scope: TokenScope::Project("p".to_owned()),
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
            host: match request.token {
                "agent" => HostAccount::AnyHost,
                name => HostAccount::of_user_name(name),
            },
            ..Caller::default()
        };
        Box::pin(async move { Ok(caller) })
    }
}

/// An answer, read whole.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) body: Value,
}

impl Reply {
    /// What an error document says.
    pub(crate) fn message(&self) -> &str {
        self.body["errors"][0]["detail"]
            .as_str()
            .unwrap_or_default()
    }

    /// What the state is called.
    pub(crate) fn state(&self) -> String {
        self.body["state"].as_str().unwrap_or_default().to_owned()
    }
}

/// One process with hosts in a database.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) store: SqlStore,
    pub(crate) hosts: Hosts,
    /// What keeps the database, where that is more than the store.
    _kept: Arc<dyn Any + Send + Sync>,
    router: Router,
}

impl Service {
    pub(crate) async fn start() -> Self {
        Self::with(HostsOptions::default()).await
    }

    pub(crate) async fn with(options: HostsOptions) -> Self {
        let (store, kept) = place::fresh().await;
        let service = Self::over(store, options).await;
        Self {
            _kept: kept,
            ..service
        }
    }

    pub(crate) async fn over(store: SqlStore, options: HostsOptions) -> Self {
        prepare(&store).await.unwrap();
        let hosts = Hosts::new(store.clone(), options);
        let tokens = HostsApiOptions {
            tokens: Arc::new(Table),
            ..HostsApiOptions::default()
        };
        Self {
            router: router(hosts.clone(), tokens),
            store,
            hosts,
            _kept: Arc::new(()),
        }
    }

    /// The same with resource providers in Placement.
    pub(crate) fn with_providers(mut self, providers: Arc<dyn LookUpProviderRoot>) -> Self {
        self.hosts = self.hosts.with_providers(providers);
        let options = HostsApiOptions {
            tokens: Arc::new(Table),
            ..HostsApiOptions::default()
        };
        self.router = router(self.hosts.clone(), options);
        self
    }

    /// The same with other options, on the same open database.
    pub(crate) fn hosts_with(&self, options: HostsOptions) -> Hosts {
        Hosts::new(self.store.clone(), options)
    }

    pub(crate) async fn ask(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: Option<Value>,
    ) -> Reply {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("/internal/v1/hosts{path}"))
            .header("x-auth-token", token);
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        let response = self.router.clone().oneshot(request.body(body).unwrap());
        let (parts, body) = response.await.unwrap().into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Reply {
            status: parts.status,
            body: serde_json::from_slice(&bytes).unwrap_or_default(),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.ask("admin", "GET", path, None).await
    }

    /// What an agent tells; whatever comes of it.
    pub(crate) async fn reports(&self, host: &str, body: Value) -> Reply {
        let path = format!("/{host}/state");
        self.ask("agent", "PUT", &path, Some(body)).await
    }

    /// The same, and it is taken; what the state is called.
    pub(crate) async fn report(&self, host: &str, nodes: &[Value]) -> String {
        let reply = self.reports(host, state(nodes)).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.state()
    }

    pub(crate) async fn seen(&self, host: &str, state: &str) -> Reply {
        let body = json!({ "state": state });
        let path = format!("/{host}/seen");
        self.ask("agent", "PUT", &path, Some(body)).await
    }

    /// So many hosts, `host1` and so on, of one node each.
    pub(crate) async fn with_hosts(count: u128) -> Self {
        let service = Self::start().await;
        for n in 1..=count {
            service.report(&format!("host{n}"), &[node_body(n)]).await;
        }
        service
    }

    /// Changes the tables behind the service's back.
    pub(crate) async fn change(&self, sql: &'static str) {
        self.store.write(&Change(sql)).await.unwrap();
    }

    /// The host was heard of so long ago.
    pub(crate) async fn was_seen(&self, host: &str, seconds: u64) {
        let then = berth_store::SqlTimestamp::now().before(std::time::Duration::from_secs(seconds));
        let set = Statement::new("UPDATE compute_hosts SET last_seen_at = ? WHERE host = ?");
        self.store
            .write(&One(set.bind(then).bind(host)))
            .await
            .unwrap();
    }
}

/// Statements as a transaction of their own: what no request does.
struct Change(&'static str);

impl Work for Change {
    type Output = ();
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
        tx.script(self.0).await
    }
}

struct One(Statement);

impl Work for One {
    type Output = ();
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
        tx.execute(self.0.clone()).await.map(drop)
    }
}

/// A host's whole state.
pub(crate) fn state(nodes: &[Value]) -> Value {
    json!({"service": {"version": "0.1.0"}, "nodes": nodes})
}

/// The n-th node as its agent tells it.
pub(crate) fn node_body(n: u128) -> Value {
    json!({
        "uuid": node(n),
        "hypervisor_hostname": format!("node{n}"),
        "hypervisor_type": "QEMU",
        "hypervisor_version": 8_000_000,
        "host_ip": "192.0.2.7",
        "vcpus": 16,
        "vcpus_used": 2,
        "memory_mb": 65_536,
        "memory_mb_used": 4_608,
        "local_gb": 100,
        "local_gb_used": 10,
        "cpu_allocation_ratio": 4.0,
        "ram_allocation_ratio": 1.0,
        "disk_allocation_ratio": 1.0,
        "supported_instances": [["x86_64", "kvm", "hvm"]],
    })
}

/// The same with other fields.
pub(crate) fn node_with(n: u128, fields: Value) -> Value {
    let mut node = node_body(n);
    let all = node.as_object_mut().unwrap();
    let Value::Object(fields) = fields else {
        panic!("fields are an object");
    };
    all.extend(fields);
    node
}
