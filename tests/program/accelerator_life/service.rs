//! The service of these tests behind Keystone, its callers, and the compute API that gets its events.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use berth_tests::berth::{BerthHome, RunningBerth};
use berth_tests::exchange::{HttpAnswer, HttpCall};
use http::Method;
use serde_json::{Value, json};

use crate::program::accelerator_service::serve;
use crate::program::keystone::Region;

pub(super) const HOST: &str = "compute1";
pub(super) const RP: &str = "f9d7848a-7688-361f-8e4b-3e58185de5fe";
pub(super) const UNKNOWN: &str = "00000000-0000-4000-8000-000000000000";
const HANDLES: usize = 4;

pub(super) fn guest(number: usize) -> String {
    format!("5c965fc9-a7cd-4d38-8ccb-{number:012}")
}

type EventLog = Arc<Mutex<Vec<Value>>>;

/// A compute API that accepts all events: its URL, and the received events.
fn compute() -> (String, EventLog) {
    async fn take(State(log): State<EventLog>, body: Bytes) -> String {
        let events: Value = serde_json::from_slice(&body).unwrap_or_default();
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        log.extend(events["events"].as_array().into_iter().flatten().cloned());
        events.to_string()
    }
    let log = EventLog::default();
    let router = Router::new().fallback(take).with_state(Arc::clone(&log));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a socket");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            axum::serve(listener, router).await.expect("it serves");
        });
    });
    (format!("http://{address}/v2.1"), log)
}

/// Keystone's account of these tests reports for every host.
const REPORT_FOR_ANY_HOST: &str = "berth:host_devices:update: role:service\n";

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ServiceCaller {
    /// An administrator and service, with a service token.
    Admin,
    /// The same without a service token.
    AdminAlone,
    /// A member of another project.
    Tenant,
    Nobody,
}

/// The service behind Keystone, with four handles of one card.
pub(super) struct Service {
    pub(super) url: String,
    admin: String,
    tenant: String,
    log: EventLog,
    berth: RunningBerth,
    _home: BerthHome,
}

impl Service {
    pub(super) fn start() -> Self {
        let keystone = &Region::shared().keystone;
        let (compute, log) = compute();
        let mut home = BerthHome::new().expect("a home");
        let policy = home.write("policy.yaml", REPORT_FOR_ANY_HOST);
        let policy = policy.expect("a file");
        let text = format!(
            "state_path = \"@HOME@/state\"\n[accelerator_service]\nlisten = \"127.0.0.1:0\"\n\
             auth_strategy = \"keystone\"\nexternal_events_endpoint = \"{compute}\"\npolicy_file = \"{}\"\n",
            policy.display()
        );
        home.configure(&text).expect("a configuration");
        for (option, value) in Region::shared().account(&keystone.berth()) {
            home.set_env(&format!("BERTH__KEYSTONE_AUTHTOKEN__{option}"), value);
        }
        let (berth, url) = serve(&mut home);
        let token = |who| keystone.kept_token(who).expect("a token");
        let service = Self {
            url,
            admin: token(&keystone.berth()),
            tenant: token(&keystone.tenant()),
            log,
            berth,
            _home: home,
        };
        let handle = |function: usize| {
            let info = json!({"domain": "0000", "bus": "84", "device": "00", "function": function.to_string()});
            json!({"attach_type": "PCI", "attach_info": info})
        };
        let handles: Vec<Value> = (0..HANDLES).map(handle).collect();
        let deployable = json!({"name": "compute1_0000:84:00.0", "rp_uuid": RP, "resource_class": "FPGA",
            "traits": ["CUSTOM_FPGA_INTEL"], "driver_name": "intel_fpga", "attach_handles": handles});
        let device = json!({"name": "0000:84:00.0", "type": "FPGA", "vendor": "8086", "model": "N3000",
            "std_board_info": "{}", "vendor_board_info": "{}", "deployables": [deployable]});
        let path = format!("/internal/v1/hosts/{HOST}/devices");
        let ask =
            HttpCall::put(service.url.replace("/v2", &path)).json(&json!({"devices": [device]}));
        service.expect(200, ServiceCaller::Admin, ask);
        service
    }

    #[track_caller]
    pub(super) fn expect(&self, status: u16, who: ServiceCaller, ask: HttpCall) -> HttpAnswer {
        let ask = match who {
            ServiceCaller::Nobody => ask,
            ServiceCaller::AdminAlone => ask.header("x-auth-token", &self.admin),
            ServiceCaller::Tenant => ask.header("x-auth-token", &self.tenant),
            ServiceCaller::Admin => ask
                .header("x-auth-token", &self.admin)
                .header("x-service-token", &self.admin),
        };
        let answer = ask.send().expect("an answer");
        assert_eq!(answer.status.as_u16(), status, "{}", answer.text());
        if answer.status.is_client_error() && status != 401 {
            let body = answer.json()["error_message"].as_str().map(str::to_owned);
            let inner: Value = serde_json::from_str(&body.unwrap_or_default()).unwrap_or_default();
            assert!(
                inner.is_object(),
                "no document in a document: {}",
                answer.text()
            );
            assert!(!answer.text().contains("SELECT"), "{}", answer.text());
        }
        answer
    }

    pub(super) fn ask(&self, method: Method, path: &str) -> HttpCall {
        HttpCall::new(method, format!("{}{path}", self.url))
    }

    #[track_caller]
    pub(super) fn get(&self, path: &str) -> Value {
        self.at("2.0", 200, path).json()
    }

    /// The answer at another microversion.
    #[track_caller]
    pub(super) fn at(&self, version: &str, status: u16, path: &str) -> HttpAnswer {
        let version = format!("accelerator {version}");
        let ask = self.ask(Method::GET, path);
        self.expect(
            status,
            ServiceCaller::Admin,
            ask.header("openstack-api-version", &version),
        )
    }

    #[track_caller]
    pub(super) fn send(&self, status: u16, method: Method, path: &str, body: &Value) -> Value {
        let ask = self.ask(method, path).json(body);
        self.expect(status, ServiceCaller::Admin, ask).json()
    }

    #[track_caller]
    pub(super) fn delete(&self, status: u16, path: &str) {
        self.expect(status, ServiceCaller::Admin, self.ask(Method::DELETE, path));
    }

    #[track_caller]
    pub(super) fn requests(&self, profile: &str) -> Vec<Value> {
        let body = json!({"device_profile_name": profile});
        let made = self.send(201, Method::POST, "/accelerator_requests", &body);
        made["arqs"].as_array().cloned().unwrap_or_default()
    }

    #[track_caller]
    pub(super) fn patch(&self, status: u16, arqs: &[String], steps: &Value) {
        let all = arqs.iter().map(|arq| (arq.clone(), steps.clone()));
        let body = Value::Object(all.collect());
        let answer = self.send(status, Method::PATCH, "/accelerator_requests", &body);
        assert!(status != 202 || answer.is_null(), "{answer}");
    }

    /// The requests of a guest, all of them settled.
    #[track_caller]
    pub(super) fn resolved(&self, guest: &str) -> Vec<Value> {
        let path = format!("/accelerator_requests?instance={guest}&bind_state=resolved");
        let arqs = self.get(&path);
        arqs["arqs"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until the compute API got the events of a guest's requests; returns the result of each.
    pub(super) fn received(&mut self, guest: &str, count: usize) -> Vec<(String, String)> {
        let log = Arc::clone(&self.log);
        let of_guest = || {
            let log = log.lock().unwrap_or_else(PoisonError::into_inner);
            let mine = log.iter().filter(|event| event["server_uuid"] == guest);
            mine.cloned().collect::<Vec<Value>>()
        };
        let limit = std::time::Duration::from_secs(60);
        let waited = self.berth.wait_until(limit, || of_guest().len() >= count);
        waited.expect("the compute API gets the events");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let all = of_guest().into_iter().map(|event| {
            assert_eq!(event["name"], "accelerator-request-bound");
            (text(&event["tag"]), text(&event["status"]))
        });
        all.collect()
    }
}

pub(super) fn uuids(arqs: &[Value]) -> Vec<String> {
    let uuid = |arq: &Value| arq["uuid"].as_str().unwrap_or_default().to_owned();
    arqs.iter().map(uuid).collect()
}

pub(super) fn states(arqs: &[Value]) -> BTreeSet<&str> {
    arqs.iter()
        .filter_map(|arq| arq["state"].as_str())
        .collect()
}

pub(super) fn bind_to(guest: &str) -> Value {
    json!([
        {"path": "/hostname", "op": "add", "value": HOST},
        {"path": "/device_rp_uuid", "op": "add", "value": RP},
        {"path": "/instance_uuid", "op": "add", "value": guest},
    ])
}

pub(super) fn unbind() -> Value {
    let fields = ["/hostname", "/device_rp_uuid", "/instance_uuid"];
    let remove = fields.map(|path| json!({"path": path, "op": "remove"}));
    json!(remove)
}

pub(super) fn profile(name: &str, groups: &Value) -> Value {
    json!([{"name": name, "groups": groups, "description": "of a test"}])
}
