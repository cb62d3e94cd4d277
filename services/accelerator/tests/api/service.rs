//! A service for one test, its callers, and what tests say to it.

use std::any::Any;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use berth_accelerator::{AcceleratorApiOptions, ServiceTokens, prepare, router};
use berth_client::{AcceleratorClient, AdapterOptions, Auth, HttpService, Secret};
use berth_http::auth::Validation;
use berth_http::{
    Caller, HostAccount, TokenError, TokenRequest, TokenScope, ValidateToken, found_at,
};
use berth_store::{SqlStore, Statement};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::{canaries, place};

/// The host of the tests' devices.
pub(crate) const HOST: &str = "compute1";
/// A provider of sixteen handles on that host.
pub(crate) const RP: &str = "f9d7848a-7688-361f-8e4b-3e58185de5fe";
pub(crate) const RP_2: &str = "f9d7848a-7688-361f-8e4b-3e58185de500";
/// A provider UUID that does not exist.
pub(crate) const ABSENT: &str = "99999999-0000-0000-0000-000000000000";

pub(crate) fn guest(n: usize) -> String {
    format!("cccccccc-0000-0000-0000-{n:012}")
}

/// Tokens as an identity service would know them.
struct Table;

impl ValidateToken for Table {
    fn validate<'a>(&'a self, request: TokenRequest<'a>) -> Validation<'a> {
        let (roles, project): (&[&str], &str) = match request.token {
            "admin" => (&["admin", "service", "member", "reader"], "p-admin"),
            "alice" => (&["member", "reader"], "p-alice"),
            "bob" => (&["member", "reader"], "p-bob"),
            "manager" => (&["manager", "member", "reader"], "p-alice"),
            "reader" => (&["reader"], "p-alice"),
            "nova" | "agent" => (&["service"], "service"),
            host if host.starts_with("host/") => (&["service"], "service"),
            _ => return Box::pin(async { Err(TokenError::Refused) }),
        };
        let caller = Caller {
            user_id: request.token.to_owned(),
            scope: TokenScope::Project(project.to_owned()),
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
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    pub(crate) body: Value,
}

impl Reply {
    /// What an error document says, from the document inside the document.
    pub(crate) fn message(&self) -> String {
        let inner = self.body["error_message"].as_str().unwrap_or_default();
        let inner: Value = serde_json::from_str(inner).unwrap_or_default();
        let text = inner["faultstring"].as_str();
        let text = text.or(inner["description"].as_str());
        text.unwrap_or_default().to_owned()
    }

    /// The UUIDs of a list of requests.
    pub(crate) fn uuids(&self) -> Vec<String> {
        let arqs = self.body["arqs"].as_array().unwrap();
        let uuid = |arq: &Value| arq["uuid"].as_str().unwrap().to_owned();
        arqs.iter().map(uuid).collect()
    }

    /// The states of a list of requests.
    pub(crate) fn states(&self) -> Vec<String> {
        let arqs = self.body["arqs"].as_array().unwrap();
        let state = |arq: &Value| arq["state"].as_str().unwrap().to_owned();
        arqs.iter().map(state).collect()
    }
}

/// One service with a database of its own.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) store: SqlStore,
    /// What keeps the database, where that is more than the store.
    _kept: Arc<dyn Any + Send + Sync>,
    router: Router,
    version: &'static str,
    token: &'static str,
    service_token: Option<&'static str>,
}

pub(crate) fn options() -> AcceleratorApiOptions {
    AcceleratorApiOptions {
        tokens: Arc::new(Table),
        service_tokens: ServiceTokens::Required,
        ..AcceleratorApiOptions::default()
    }
}

impl Service {
    pub(crate) async fn start() -> Self {
        Self::with(options()).await
    }

    pub(crate) async fn with(options: AcceleratorApiOptions) -> Self {
        let (store, kept) = place::fresh().await;
        Self {
            _kept: kept,
            ..Self::over(store, options).await
        }
    }

    pub(crate) async fn over(store: SqlStore, options: AcceleratorApiOptions) -> Self {
        prepare(&store).await.unwrap();
        Self {
            router: found_at(router(store.clone(), options), "http://127.0.0.1:6666"),
            store,
            _kept: Arc::new(()),
            version: "accelerator 2.3",
            token: "admin",
            service_token: Some("nova"),
        }
    }

    /// The same, with the sixteen handles of a host and a profile that asks for `count` of them.
    pub(crate) async fn with_profile(count: usize) -> Self {
        let service = Self::start().await;
        service.report(HOST, json!([card(0, RP, 16)])).await;
        service.profile("dp", count).await;
        service
    }

    /// The same service asked at another microversion.
    pub(crate) fn at(&self, version: &'static str) -> Self {
        Self {
            version,
            ..self.clone()
        }
    }

    /// The same service with this caller's token, which no service token accompanies.
    pub(crate) fn by(&self, token: &'static str) -> Self {
        Self {
            token,
            service_token: None,
            ..self.clone()
        }
    }

    /// The same with a service that vouches.
    pub(crate) fn vouched_by(&self, token: &'static str) -> Self {
        Self {
            service_token: Some(token),
            ..self.clone()
        }
    }

    /// The house's own client of this service, with the account of an agent.
    pub(crate) fn client(&self) -> AcceleratorClient {
        let http = HttpService::in_process::<_, Body, _>(self.router.clone(), 1 << 20);
        let token = Secret::from("agent");
        let auth = Auth::admin_token("http://accelerator.example", &token).unwrap();
        AcceleratorClient::new(http, auth, &AdapterOptions::default())
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, body: Option<String>) -> Reply {
        match canaries::planted() {
            Some(defect) => defect.answer(self, method, path, body).await,
            None => self.really(method, path, body).await,
        }
    }

    /// The same without what a canary has planted before the service.
    pub(crate) async fn really(&self, method: &str, path: &str, body: Option<String>) -> Reply {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "evil.example")
            .header("openstack-api-version", self.version)
            .header("x-auth-token", self.token);
        if let Some(token) = self.service_token {
            request = request.header("x-service-token", token);
        }
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let body = body.map_or_else(Body::empty, Body::from);
        let response = self.router.clone().oneshot(request.body(body).unwrap());
        let (parts, body) = response.await.unwrap().into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Reply {
            status: parts.status,
            headers: parts.headers,
            text: String::from_utf8_lossy(&bytes).into_owned(),
            body: serde_json::from_slice(&bytes).unwrap_or_default(),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, None).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        self.ask("DELETE", path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Reply {
        self.ask("POST", path, Some(body.to_string())).await
    }

    pub(crate) async fn patch(&self, body: Value) -> Reply {
        let path = "/v2/accelerator_requests";
        self.ask("PATCH", path, Some(body.to_string())).await
    }

    /// What the agent of a host reports; the answer.
    pub(crate) async fn report(&self, host: &str, devices: Value) -> Value {
        let reply = self.reports(host, json!({ "devices": devices })).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.body
    }

    /// The same, whatever comes of it.
    pub(crate) async fn reports(&self, host: &str, body: Value) -> Reply {
        let path = format!("/internal/v1/hosts/{host}/devices");
        let agent = self.by("agent");
        agent.ask("PUT", &path, Some(body.to_string())).await
    }

    /// A profile of one group of `count` FPGAs.
    pub(crate) async fn profile(&self, name: &str, count: usize) {
        let group = json!({"resources:FPGA": count.to_string()});
        let body = json!([{"name": name, "groups": [group]}]);
        let reply = self.post("/v2/device_profiles", body).await;
        assert_eq!(reply.status, 201, "{reply:?}");
    }

    /// The requests of a profile.
    pub(crate) async fn requests(&self, profile: &str) -> Vec<String> {
        let body = json!({"device_profile_name": profile});
        let reply = self.post("/v2/accelerator_requests", body).await;
        assert_eq!(reply.status, 201, "{reply:?}");
        reply.uuids()
    }

    /// Binds requests for a guest.
    pub(crate) async fn bind(&self, uuids: &[String], guest: &str) -> Reply {
        self.patch(bind(uuids, guest, HOST, RP)).await
    }

    /// The requests of a guest.
    pub(crate) async fn of_guest(&self, guest: &str) -> Reply {
        let path = format!("/v2/accelerator_requests?instance={guest}");
        let reply = self.get(&path).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply
    }

    pub(crate) async fn request(&self, uuid: &str) -> Reply {
        self.get(&format!("/v2/accelerator_requests/{uuid}")).await
    }

    /// A number that one statement gives.
    pub(crate) async fn count(&self, sql: &'static str) -> i64 {
        let rows = self.store.rows(Statement::new(sql)).await.unwrap();
        rows[0].int(0).unwrap()
    }

    /// How many handles are held.
    pub(crate) async fn held(&self) -> i64 {
        self.count("SELECT COUNT(*) FROM attach_handles WHERE arq_id IS NOT NULL")
            .await
    }

    /// The events in the outbox: request and status.
    pub(crate) async fn outbox(&self) -> Vec<(String, String)> {
        let sql = "SELECT arq_uuid, status FROM events ORDER BY id";
        let rows = self.store.rows(Statement::new(sql)).await.unwrap();
        let event = |row: &berth_store::Row| (row.text(0).unwrap(), row.text(1).unwrap());
        rows.iter().map(event).collect()
    }

    pub(crate) async fn devices(&self) -> Vec<String> {
        let reply = self.get("/v2/devices").await;
        let devices = reply.body["devices"].as_array().unwrap();
        let uuid = |device: &Value| device["uuid"].as_str().unwrap().to_owned();
        devices.iter().map(uuid).collect()
    }
}

/// The body that binds requests.
pub(crate) fn bind(uuids: &[String], guest: &str, host: &str, provider: &str) -> Value {
    let add = |path: &str, value: &str| json!({"path": path, "op": "add", "value": value});
    let steps = json!([
        add("/hostname", host),
        add("/device_rp_uuid", provider),
        add("/instance_uuid", guest),
    ]);
    let each = |uuid: &String| (uuid.clone(), steps.clone());
    Value::Object(uuids.iter().map(each).collect())
}

/// The body that unbinds requests.
pub(crate) fn unbind(uuids: &[String]) -> Value {
    let steps = json!([{"path": "/hostname", "op": "remove"}]);
    let each = |uuid: &String| (uuid.clone(), steps.clone());
    Value::Object(uuids.iter().map(each).collect())
}

/// A card in slot `slot` with one provider of `functions` (at most 256) functions, as an agent reports it.
pub(crate) fn card(slot: usize, provider: &str, functions: usize) -> Value {
    let handle = |n: usize| {
        json!({
            "attach_type": "PCI",
            "attach_info": {
                "domain": "0000",
                "bus": format!("{:02x}", 0x80 + slot),
                "device": format!("{:02x}", n / 8),
                "function": (n % 8).to_string(),
            },
        })
    };
    json!({
        "name": format!("0000:{:02x}:00.0", 0x80 + slot),
        "type": "FPGA",
        "vendor": "8086",
        "model": "a model",
        "std_board_info": "{\"class\": \"x\"}",
        "vendor_board_info": "y",
        "deployables": [{
            "name": format!("{HOST}_0000:{:02x}:00.0", 0x80 + slot),
            "rp_uuid": provider,
            "resource_class": "FPGA",
            "traits": ["CUSTOM_FAKE_DEVICE"],
            "driver_name": "vfio-pci",
            "numa_node": 0,
            "attach_handles": (0..functions).map(handle).collect::<Vec<_>>(),
        }],
    })
}

/// One statement as a transaction of its own: what no request does.
struct Change(Statement);

impl berth_store::Work for Change {
    type Output = ();
    type Error = ChangeError;

    async fn run(&self, tx: &mut berth_store::Transaction) -> Result<(), ChangeError> {
        tx.execute(self.0.clone()).await?;
        Ok(())
    }
}

#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct ChangeError(#[from] berth_store::SqlError);

impl berth_store::Retryable for ChangeError {
    fn disposition(&self) -> berth_store::Disposition {
        berth_store::Disposition::Fatal
    }
}

impl Service {
    /// Changes the tables behind the service's back.
    pub(crate) async fn change(&self, statement: Statement) {
        self.store.write(&Change(statement)).await.unwrap();
    }
}
