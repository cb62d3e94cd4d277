//! The compute API in front of a cloud, in the conductor's process as in the program, and a client; the client's
//! requests are effects, too.
//!
//! The client's own process is not part of the cloud: a kill at one of its effects kills the API's process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_client::{HttpService, RouteTemplate, TransportError};
use berth_compute::{
    Compute, ComputeApiOptions, ComputeOptions, ComputeParts, FoundImage, prepare, router,
};
use berth_conductor::Conductor;
use berth_hosts::Hosts;
use berth_quota::QuotaLimits;
use berth_store::SqlStore;
use berth_wire::guest::{ImageBody, ImageLocation};
use bytes::Bytes;
use http::Request;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::GuestCloud;
use super::effects::{CloudProcess, ProcessGate};
use super::processes::{ProcessExit, dying_with};
use crate::cloud::Snapshot;
use crate::fault::{FaultStage, GatedHttp, busy, busy_but_at_gates};

/// The only image.
const IMAGE: Uuid = Uuid::from_u128(0x9a17_439a_85d0_4c53_a3d3_0f68_a2ea_c896);
/// How often the API looks what is left to be done.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// How long a client waits for an answer.
const DEADLINE: Duration = Duration::from_mins(1);

/// The compute API of a cloud that has one, and its client.
#[derive(Clone)]
pub(super) struct CloudComputeApi {
    pub(super) store: SqlStore,
    client: Arc<Mutex<Option<(ProcessGate, FaultStage)>>>,
}

/// The compute API of one process.
#[derive(Clone)]
pub(super) struct ComputeProcess {
    compute: Compute,
    pub(super) routes: HttpService,
}

impl CloudComputeApi {
    /// On this database, or an empty one.
    pub(super) async fn new(known: Option<Snapshot>) -> Self {
        let store = match known {
            Some(known) => busy(known.restore()).await,
            None => {
                let store = busy(SqlStore::in_memory()).await.expect("memory");
                busy(prepare(&store)).await.expect("an empty database");
                store
            }
        };
        Self {
            store,
            client: Arc::default(),
        }
    }

    pub(super) async fn snapshot(&self) -> Snapshot {
        busy(Snapshot::take(&self.store)).await
    }

    /// Composes it as the program does, with this conductor.
    pub(super) fn begin(
        &self,
        conductor: &Conductor,
        hosts: &Hosts,
        end: &ProcessExit,
    ) -> ComputeProcess {
        let image = FoundImage {
            body: ImageBody {
                location: ImageLocation::Url("http://images/zeros".to_owned()),
                checksum: Some(format!("sha256:{}", "a".repeat(64))),
                format: "raw".to_owned(),
                properties: BTreeMap::new(),
            },
            min_ram: 0,
            min_disk: 0,
        };
        let parts = ComputeParts {
            store: self.store.clone(),
            conductor: conductor.clone(),
            hosts: hosts.clone(),
            images: Arc::new(BTreeMap::from([(IMAGE, image)])),
            quota: None,
        };
        // Tests of many guests have one project.
        let options = ComputeOptions {
            quotas: QuotaLimits::unlimited(),
            ..ComputeOptions::default()
        };
        let compute = Compute::new(parts, options);
        let routes = dying_with(router(compute.clone(), ComputeApiOptions::default()), end);
        ComputeProcess {
            compute,
            routes: HttpService::new(tower::service_fn(move |request: Request<Bytes>| {
                let routes = routes.clone();
                async move { busy_but_at_gates(routes.send(request)).await }
            })),
        }
    }
}

impl ComputeProcess {
    /// Continues the recorded but unfinished work.
    pub(super) async fn keep(&self, end: &ProcessExit) {
        loop {
            let polled = async {
                tokio::select! {
                    biased;
                    () = end.cancelled() => {}
                    // What fails is looked at again.
                    _ = self.compute.reconcile() => {}
                }
            };
            busy_but_at_gates(polled).await;
            sleep(POLL_INTERVAL).await;
        }
    }
}

/// The routes of an agent on a host without disks: these tests do not check disks, and would need an image.
pub(super) fn without_disks(routes: HttpService) -> HttpService {
    HttpService::new(tower::service_fn(move |request: Request<Bytes>| {
        let routes = routes.clone();
        async move {
            let is_build = request.method() == http::Method::POST;
            let request = match (is_build, serde_json::from_slice(request.body())) {
                (true, Ok(Value::Object(mut build))) => {
                    build.remove("image");
                    build.remove("config_drive");
                    request.map(|_| Value::Object(build).to_string().into())
                }
                _ => request,
            };
            routes.send(request).await
        }
    }))
}

/// What a client of the compute API hears.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientObservation {
    pub status: u16,
    /// The body; null where it is no JSON.
    pub body: Value,
}

impl GuestCloud {
    /// The flavor that servers are asked for with.
    pub(super) async fn make_flavor(&self) {
        let flavor = json!({"id": "1", "name": "small", "ram": 64, "vcpus": 1, "disk": 0});
        let specs = json!({"extra_specs": {"accel:device_profile": "gpu"}});
        for (route, body) in [
            ("/flavors", json!({ "flavor": flavor })),
            ("/flavors/1/os-extra_specs", specs),
        ] {
            let reply = self.asks("POST", route, route, Some(body)).await;
            let reply = reply.expect("an answer");
            assert_eq!(reply.status, 200, "{route}: {reply:?}");
        }
    }

    /// A client asks the compute API once; none where it hears nothing for as long as clients wait, or not what an API says.
    /// `route` is the path's template.
    ///
    /// # Panics
    /// The cloud has no API.
    pub async fn asks(
        &self,
        method: &str,
        route: &'static str,
        path: &str,
        body: Option<Value>,
    ) -> Option<ClientObservation> {
        let (gate, stage) = self.client();
        let http = GatedHttp::around(self.api_routes(), &stage);
        let request = Request::builder()
            .method(method)
            .uri(format!("http://compute/v2.1{path}"))
            .extension(RouteTemplate(route))
            .header("x-auth-token", "admin")
            .header("openstack-api-version", "compute 2.82")
            .header("content-type", "application/json")
            .body(body.map_or_else(Bytes::new, |body| body.to_string().into()));
        let answer = tokio::select! {
            biased;
            () = stage.killed() => {
                gate.end();
                let api = self.api.as_ref().expect("an API");
                *api.client.lock().unwrap_or_else(PoisonError::into_inner) = None;
                if let Some(life) = self.conductor.borrow().as_ref() {
                    life.end();
                }
                return None;
            }
            answer = timeout(DEADLINE, http.send(request.expect("a request"))) => answer.ok()?.ok()?,
        };
        Some(ClientObservation {
            status: answer.status().as_u16(),
            body: serde_json::from_slice(answer.body()).unwrap_or_default(),
        })
    }

    /// Asks for a server of this name, with a device.
    pub async fn ask_for_server(&self, name: &str) -> Option<ClientObservation> {
        let server = json!({"name": name, "flavorRef": "1", "imageRef": IMAGE, "networks": "none"});
        let body = json!({ "server": server });
        self.asks("POST", "/v2.1/servers", "/servers", Some(body))
            .await
    }

    /// The servers of this name; none if the API does not answer.
    pub async fn servers_named(&self, name: &str) -> Option<Vec<Value>> {
        let route = "/v2.1/servers/detail";
        let reply = self.asks("GET", route, "/servers/detail", None).await?;
        let mut servers = reply.body["servers"].as_array()?.clone();
        servers.retain(|server| server["name"] == name);
        Some(servers)
    }

    /// The client's way, which it keeps until it is struck.
    fn client(&self) -> (ProcessGate, FaultStage) {
        let api = self.api.as_ref().expect("an API");
        let mut client = api.client.lock().unwrap_or_else(PoisonError::into_inner);
        let present = client.get_or_insert_with(|| {
            let gate = self.effects.gate_of(CloudProcess::Client);
            (gate.clone(), self.stage(&gate))
        });
        present.clone()
    }

    /// The routes of the API's process that lives.
    fn api_routes(&self) -> HttpService {
        let present = Arc::clone(&self.conductor);
        HttpService::new(tower::service_fn(move |request: Request<Bytes>| {
            let present = present.borrow().clone();
            async move {
                let compute = present.and_then(|life| life.process.compute.clone());
                match compute {
                    Some(compute) => compute.routes.send(request).await,
                    None => Err(TransportError::Refused {
                        peer: "compute:8774".to_owned(),
                    }),
                }
            }
        }))
    }
}
