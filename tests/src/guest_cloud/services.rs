//! Placement and the accelerator service, each a process over its database that can be killed and restarted.
//!
//! All other faults of a request are injected at its caller's effect. Here a service is down for a while, and all
//! requests in it are lost.

use std::sync::Arc;

use berth_client::{HttpService, TransportError};
use bytes::Bytes;
use http::Request;
use tokio::time::sleep;

use super::GuestCloud;
use super::effects::CloudProcess;
use super::processes::{End, Present, RESTART, RunningProcess, ending_with};
use crate::fault::GatedHttp;

pub(super) struct CloudService {
    process: CloudProcess,
    /// What it does, as long as it lives.
    http: HttpService,
    present: Present<HttpService>,
}

impl CloudService {
    pub(super) fn new(process: CloudProcess, http: HttpService) -> Arc<Self> {
        Arc::new(Self {
            process,
            http,
            present: Present::default(),
        })
    }

    /// The service over the network: while it is down, connections are refused.
    pub(super) fn reached(&self) -> HttpService {
        let present = Arc::clone(&self.present);
        let peer = self.process.to_string();
        HttpService::new(tower::service_fn(move |request: Request<Bytes>| {
            let life = present.borrow().clone();
            let peer = peer.clone();
            async move {
                match life {
                    Some(life) => life.process.send(request).await,
                    None => Err(TransportError::Refused { peer }),
                }
            }
        }))
    }
}

impl GuestCloud {
    /// Lets a service live, again and again, until the cloud is dropped.
    pub(super) fn begin_service(&self, service: &Arc<CloudService>) {
        let (cloud, service) = (self.clone(), Arc::clone(service));
        self.spawn(async move {
            loop {
                let gate = cloud.crossings.life(service.process);
                let stage = cloud.stage(&gate);
                let end = End::default();
                let answers = GatedHttp::around(service.http.clone(), &stage);
                let life = RunningProcess::new(gate, ending_with(answers, &end), end);
                let life = Arc::new(life);
                service.present.send_replace(Some(Arc::clone(&life)));
                stage.killed().await;
                life.end();
                service.present.send_replace(None);
                sleep(RESTART).await;
            }
        });
    }
}
