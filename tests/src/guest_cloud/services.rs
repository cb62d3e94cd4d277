//! Placement and the accelerator service, each a process over its database that is killed and started again.
//!
//! What else can go wrong with a request is a fault at its asker's crossing; here it is that a service is away for a while, with
//! every request that was under way in it.

use std::sync::Arc;

use berth_client::{HttpService, TransportError};
use bytes::Bytes;
use http::Request;
use tokio::time::sleep;

use super::GuestCloud;
use super::crossings::Process;
use super::lives::{End, Life, Present, RESTART, ending_with};
use crate::fault::GatedHttp;

pub(super) struct Service {
    process: Process,
    /// What it does, as long as it lives.
    http: HttpService,
    present: Present<HttpService>,
}

impl Service {
    pub(super) fn new(process: Process, http: HttpService) -> Arc<Self> {
        Arc::new(Self {
            process,
            http,
            present: Present::default(),
        })
    }

    /// Its life, over the network: while it is away, nobody listens.
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
    pub(super) fn begin_service(&self, service: &Arc<Service>) {
        let (cloud, service) = (self.clone(), Arc::clone(service));
        self.spawn(async move {
            loop {
                let gate = cloud.crossings.life(service.process);
                let stage = cloud.stage(&gate);
                let end = End::default();
                let answers = GatedHttp::around(service.http.clone(), &stage);
                let life = Life::new(gate, ending_with(answers, &end), end);
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
