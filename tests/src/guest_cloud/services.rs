//! [`CloudService`]: a simulated process of Placement or of the accelerator service. It can be killed, keeps its database,
//! and restarts.
//!
//! A killed service loses the requests that it was handling. Kills are the only fault of this module. All other faults of a
//! request are injected in its caller ([`crate::fault`]): a gate decides at each effect whether a fault happens, and a stage applies
//! the gate to one run of a process.

use std::sync::Arc;

use berth_client::{HttpService, TransportError};
use bytes::Bytes;
use http::Request;
use tokio::time::sleep;

use super::GuestCloud;
use super::effects::CloudProcess;
use super::processes::{CurrentProcess, ProcessExit, RESTART, RunningProcess, refuse_after_exit};
use crate::fault::GatedHttp;

pub(super) struct CloudService {
    process: CloudProcess,
    /// The HTTP handler of the service.
    http: HttpService,
    running: CurrentProcess<HttpService>,
}

impl CloudService {
    pub(super) fn new(process: CloudProcess, http: HttpService) -> Arc<Self> {
        Arc::new(Self {
            process,
            http,
            running: CurrentProcess::default(),
        })
    }

    /// A client's connection to the service. While the service is down, connections are refused.
    pub(super) fn transport(&self) -> HttpService {
        let running = Arc::clone(&self.running);
        let peer = self.process.to_string();
        HttpService::new(tower::service_fn(move |request: Request<Bytes>| {
            let process = running.borrow().clone();
            let peer = peer.clone();
            async move {
                match process {
                    Some(running) => running.process.send(request).await,
                    None => Err(TransportError::Refused { peer }),
                }
            }
        }))
    }
}

impl GuestCloud {
    /// Runs the service, and restarts it after each kill, until the cloud is dropped.
    pub(super) fn spawn_service(&self, service: &Arc<CloudService>) {
        let (cloud, service) = (self.clone(), Arc::clone(service));
        self.spawn(async move {
            loop {
                let gate = cloud.effects.gate_of(service.process);
                let stage = cloud.stage(&gate);
                let exit = ProcessExit::default();
                let handler = GatedHttp::around(service.http.clone(), &stage);
                let running = RunningProcess::new(gate, refuse_after_exit(handler, &exit), exit);
                let running = Arc::new(running);
                service.running.send_replace(Some(Arc::clone(&running)));
                stage.killed().await;
                running.end();
                service.running.send_replace(None);
                sleep(RESTART).await;
            }
        });
    }
}
