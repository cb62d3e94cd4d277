//! What a host's agent reports to Berth's own accelerator service; Cyborg has no such route.

use std::time::Duration;

use berth_wire::accelerator::{
    DueProgrammings, HostChanges, HostDevices, KnownDevices, ProgrammingEnd,
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
    /// PUT /internal/v1/hosts/{host}/devices: the whole list of a host's devices; the answer is all that the service knows of
    /// them, who holds what and what an operator wants. `host` is a node's name, without anything that a path would have to
    /// escape.
    ///
    /// # Errors
    /// No answer, a refusal (a provider is on another host, the role `service` is missing), or an answer that is no such list.
    pub async fn report_devices(
        &self,
        host: &str,
        devices: &HostDevices,
    ) -> Result<KnownDevices, AcceleratorError> {
        let path = format!("/internal/v1/hosts/{host}/devices");
        let body = Some(encode(devices));
        let call = call(Method::PUT, HOST_DEVICES, path, body, Repeat::Safe);
        self.parse(call, "the devices of a host", Ok).await
    }

    /// GET /internal/v1/hosts/{host}/changes: waits until something else is wanted of a host's devices than the report said that
    /// `after` is of ([`KnownDevices::changes`]), and at most so long, in whole seconds and up to 60; less where the time limit
    /// of a request is short. The answer may come before that with nothing new.
    ///
    /// # Errors
    /// No answer, a refusal (the role `service` is missing, there is no such route), or an answer that is none.
    pub async fn host_changes(
        &self,
        host: &str,
        after: &str,
        wait: Duration,
    ) -> Result<HostChanges, AcceleratorError> {
        // The answer has to be here, too, before the request is given up.
        let seconds = wait.min(self.adapter.timeout() / 2).as_secs();
        let path = format!("/internal/v1/hosts/{host}/changes?after={after}&wait={seconds}");
        let call = call(Method::GET, HOST_CHANGES, path, None, Repeat::Once);
        self.parse(call, "the changes of a host", Ok).await
    }

    /// GET /internal/v1/hosts/{host}/programmings: what is to be programmed on a host now.
    ///
    /// # Errors
    /// No answer, a refusal (the role `service` is missing), or an answer that is no such list.
    pub async fn due_programmings(&self, host: &str) -> Result<DueProgrammings, AcceleratorError> {
        let path = format!("/internal/v1/hosts/{host}/programmings");
        let call = call(Method::GET, PROGRAMMINGS, path, None, Repeat::Safe);
        self.parse(call, "the programmings of a host", Ok).await
    }

    /// POST /internal/v1/hosts/{host}/programmings/{uuid}: one has ended. One that nobody waits for any more is taken as well.
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
