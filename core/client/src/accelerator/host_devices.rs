//! What a host's agent reports to Berth's own accelerator service; Cyborg has no such route.

use berth_wire::accelerator::{HostDevices, KnownDevices};
use berth_wire::encode;
use http::Method;

use super::{AcceleratorClient, AcceleratorError, call};
use crate::call::Repeat;

const HOST_DEVICES: &str = "/internal/v1/hosts/{host}/devices";

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
}
