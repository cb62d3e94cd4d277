//! Device reports of an agent to Berth's own accelerator service. Cyborg has no such routes.

use std::time::Duration;

use berth_wire::accelerator::{
    DueProgrammings, HostChanges, HostDevicesReport, KnownDevices, ProgrammingEnd,
};
use berth_wire::encode;
use http::Method;
use uuid::Uuid;

use super::{AcceleratorClient, AcceleratorError, call};
use crate::call::Repeat;

const HOST_DEVICES: &str = "/internal/v1/hosts/{host}/devices";
const HOST_CHANGES: &str = "/internal/v1/hosts/{host}/changes";
const PROGRAMMINGS: &str = "/internal/v1/hosts/{host}/programmings";
const ONE_PROGRAMMING: &str = "/internal/v1/hosts/{host}/programmings/{uuid}";

impl AcceleratorClient {
    /// PUT /internal/v1/hosts/{host}/devices: reports all devices of a host. The answer has everything that the
    /// service knows of them: which requests hold them and what operators want. `host` is a node name that needs no
    /// escaping in a path.
    ///
    /// Errors: No answer, a refusal (a provider belongs to another host, the role `service` is missing),
    /// or an invalid answer.
    pub async fn report_devices(
        &self,
        host: &str,
        devices: &HostDevicesReport,
    ) -> Result<KnownDevices, AcceleratorError> {
        let path = format!("/internal/v1/hosts/{host}/devices");
        let body = Some(encode(devices));
        let call = call(Method::PUT, HOST_DEVICES, path, body, Repeat::Safe);
        self.parse(call, "the devices of a host", Ok).await
    }

    /// GET /internal/v1/hosts/{host}/changes: waits until operators change the desired state of a host's devices,
    /// compared with the marker `after` of the last report ([`KnownDevices::changes`]). It waits up to `wait`, in whole
    /// seconds, at most 60, and less if the request timeout is short. The answer may come earlier without changes.
    ///
    /// Errors: No answer, a refusal (the role `service` is missing, no such route), or an invalid answer.
    pub async fn host_changes(
        &self,
        host: &str,
        after: &str,
        wait: Duration,
    ) -> Result<HostChanges, AcceleratorError> {
        // The answer must arrive before the request's own timeout.
        let seconds = wait.min(self.adapter.timeout() / 2).as_secs();
        let path = format!("/internal/v1/hosts/{host}/changes?after={after}&wait={seconds}");
        let call = call(Method::GET, HOST_CHANGES, path, None, Repeat::Once);
        self.parse(call, "the changes of a host", Ok).await
    }

    /// GET /internal/v1/hosts/{host}/programmings: the programmings due on a host.
    ///
    /// Errors: No answer, a refusal (the role `service` is missing), or an answer that is no such list.
    pub async fn due_programmings(&self, host: &str) -> Result<DueProgrammings, AcceleratorError> {
        let path = format!("/internal/v1/hosts/{host}/programmings");
        let call = call(Method::GET, PROGRAMMINGS, path, None, Repeat::Safe);
        self.parse(call, "the programmings of a host", Ok).await
    }

    /// POST /internal/v1/hosts/{host}/programmings/{uuid}: reports the result of a programming. Results that no bind
    /// waits for are accepted, too.
    pub async fn programming_ended(
        &self,
        host: &str,
        uuid: Uuid,
        end: &ProgrammingEnd,
    ) -> Result<(), AcceleratorError> {
        let path = format!("/internal/v1/hosts/{host}/programmings/{uuid}");
        let body = Some(encode(end));
        let call = call(Method::POST, ONE_PROGRAMMING, path, body, Repeat::Safe);
        self.ask(call).await.map(drop)
    }
}
