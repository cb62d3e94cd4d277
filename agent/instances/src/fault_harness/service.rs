//! The simulated accelerator service.

use berth_agent_journal::samples::{NODE, arq, guest, handle};
use berth_client::TransportError;
use berth_model::{
    Arq, ArqState, ArqUuid, AttachHandleInfo, Binding, ConsumerUuid, DeviceProfileName,
};
use berth_wire::accelerator::{ArqBody, ArqList, BindPatch, PatchBody, read_patch};
use bytes::Bytes;
use http::{Method, Request, Response};

use crate::fault_harness::hypervisor::device_names;
use crate::fault_harness::{FaultHarness, SimulatedFailure, SimulatedWorld};

impl FaultHarness {
    fn put(&self, number: u32, state: ArqState) {
        let arq = Arq {
            uuid: arq(number),
            state,
            device_profile: DeviceProfileName::new("dp").unwrap(),
            group_id: 0,
            project_id: "project".to_owned(),
        };
        self.world().arqs.insert(arq.uuid, arq);
    }

    pub fn bind(&self, instance: u32, arqs: &[u32]) {
        for number in arqs {
            self.bind_to(instance, *number, *number);
        }
    }

    pub fn bind_to(&self, instance: u32, number: u32, device: u32) {
        self.put(
            number,
            ArqState::Bound(binding(instance, NODE), handle(device)),
        );
    }

    pub fn start_binding(&self, instance: u32, arqs: &[u32]) {
        for number in arqs {
            self.put(*number, ArqState::BindStarted(binding(instance, NODE)));
        }
    }

    pub fn add_failure(&self, failure: SimulatedFailure) {
        match failure {
            SimulatedFailure::BindFailed(number) => {
                self.put(number, ArqState::BindFailed(binding(1, NODE)))
            }
            SimulatedFailure::NeverBound(number) => {
                self.put(number, ArqState::BindStarted(binding(1, NODE)))
            }
            SimulatedFailure::Bound(number, host, instance) => {
                self.put(
                    number,
                    ArqState::Bound(binding(instance, host), handle(number)),
                );
            }
            SimulatedFailure::Extra(number) => self.bind(1, &[number]),
            SimulatedFailure::TestPci(number) => {
                let mut fake = handle(number);
                fake.info = AttachHandleInfo::TestPci {
                    address: fake.info.address(),
                };
                self.put(number, ArqState::Bound(binding(1, NODE), fake));
            }
            SimulatedFailure::Missing(number) => {
                self.world().arqs.remove(&arq(number));
            }
            SimulatedFailure::HeldByForeigner(number) => self.foreign_guest(77, Some(number)),
            _ => {}
        }
        self.world().failures.insert(failure);
    }

    pub fn clear_failures(&self) {
        self.world().failures.clear();
    }

    pub fn query_count(&self) -> usize {
        self.world().get_requests
    }

    pub fn is_bound(&self, number: u32) -> bool {
        let world = self.world();
        let arq = world.arqs.get(&arq(number));
        arq.is_some_and(|arq| matches!(arq.state, ArqState::Bound(..)))
    }

    /// Checks that all requests of guest 1 on this node are deleted, and no others.
    pub fn only_foreign_requests_are_left(&self) {
        let world = self.world();
        for arq in world.arqs.values() {
            let foreign = arq.state.binding().is_some_and(|binding| {
                binding.hostname != NODE
                    || binding.instance != guest(1)
                    // Bound in addition to the guest's own requests. Its creator deletes it.
                    || world.failures.iter().any(|failure| matches!(failure, SimulatedFailure::Extra(_)))
            });
            assert!(foreign, "{arq:?} was not deleted");
        }
    }

    pub async fn service(
        &self,
        request: Request<Bytes>,
    ) -> Result<Response<Bytes>, TransportError> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let query = request.uri().query().unwrap_or_default().to_owned();
        let about = if query.is_empty() { "one" } else { "many" };
        let effect = async {
            if self
                .world()
                .failures
                .contains(&SimulatedFailure::ServiceAway)
            {
                return Err(TransportError::Closed {
                    reason: "connection reset by peer".to_owned(),
                });
            }
            Ok(self.world().answer(&method, &path, &query, request.body()))
        };
        let kind = if method == Method::GET {
            "read"
        } else {
            "write"
        };
        self.inject(format!("http {kind} {method} {about}"), effect)
            .await
    }
}

fn binding(instance: u32, host: &str) -> Binding {
    Binding {
        hostname: host.to_owned(),
        device_rp: "f9d7848a-7688-361f-8e4b-3e58185de5fe".parse().unwrap(),
        instance: guest(instance),
    }
}

fn reply(status: u16, body: Vec<u8>) -> Response<Bytes> {
    Response::builder()
        .status(status)
        .body(Bytes::from(body))
        .unwrap()
}

impl SimulatedWorld {
    fn answer(
        &mut self,
        method: &Method,
        path: &str,
        query: &str,
        body: &Bytes,
    ) -> Response<Bytes> {
        let missing = || reply(404, br#"{"error_message": "no such request"}"#.to_vec());
        if *method == Method::GET {
            self.get_requests += 1;
        }
        match (method, query.split_once('=')) {
            (&Method::GET, Some(("instance", uuid))) => {
                let instance: ConsumerUuid = uuid.parse().unwrap();
                let of_it = self.arqs.values().filter(|arq| {
                    let binding = arq.state.binding();
                    binding.is_some_and(|binding| binding.instance == instance)
                });
                let arqs = of_it.map(ArqBody::from).collect();
                reply(200, berth_wire::encode(&ArqList { arqs }))
            }
            (&Method::GET, _) if path == "/v2/accelerator_requests" => {
                let arqs = self.arqs.values().map(ArqBody::from).collect();
                reply(200, berth_wire::encode(&ArqList { arqs }))
            }
            (&Method::GET, _) => {
                let uuid: ArqUuid = path.rsplit('/').next().unwrap().parse().unwrap();
                match self.arqs.get(&uuid) {
                    Some(arq) => reply(200, berth_wire::encode(&ArqBody::from(arq))),
                    None => missing(),
                }
            }
            (&Method::DELETE, Some(("arqs", uuid))) => {
                match self.arqs.remove(&uuid.parse().unwrap()) {
                    Some(arq) => {
                        self.release(&arq);
                        reply(204, Vec::new())
                    }
                    None => missing(),
                }
            }
            (&Method::PATCH, _) => {
                let body: PatchBody = berth_wire::decode(body).unwrap();
                for (uuid, patch) in read_patch(&body).unwrap() {
                    assert_eq!(patch, BindPatch::Unbind);
                    let Some(arq) = self.arqs.get_mut(&uuid) else {
                        return missing();
                    };
                    if arq.state.binding().is_none() {
                        // Like Cyborg: the request is not bound.
                        return reply(400, Vec::new());
                    }
                    let before = arq.clone();
                    arq.state = ArqState::Unbound;
                    self.release(&before);
                }
                reply(202, Vec::new())
            }
            other => panic!("unexpected request {other:?} {path}"),
        }
    }

    /// Checks that the released device is clean: the service may now bind it for another guest.
    fn release(&mut self, arq: &Arq) {
        let Some(handle) = arq.state.attach_handle() else {
            return;
        };
        let name = handle.info.address().to_string();
        let here = arq
            .state
            .binding()
            .is_some_and(|binding| binding.hostname == NODE);
        let device = self.devices.entry(name.clone()).or_default();
        if here && !device.used_by.is_empty() {
            self.violations
                .push(format!("{name} was released without a reset"));
        }
        if here
            && self
                .guests
                .values()
                .any(|found| found.owner.is_some() && device_names(found).contains(&name))
        {
            self.violations
                .push(format!("{name} was released while a guest has it"));
        }
    }
}
