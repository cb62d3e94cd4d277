//! Client methods for the device routes, for `berth device`.

use http::Method;

use crate::client::{AdminClient, AdminClientError};
use crate::devices::body::{DeviceAction, DeviceActionResult, DeviceDocument, HostDeviceList};

/// An action on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceVerb {
    Reset,
    Quarantine,
    Release,
}

impl DeviceVerb {
    /// Last segment of the route's path.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reset => "reset",
            Self::Quarantine => "quarantine",
            Self::Release => "release",
        }
    }
}

impl AdminClient {
    pub async fn devices(&self) -> Result<HostDeviceList, AdminClientError> {
        self.request(Method::GET, "/v1/devices", Vec::new().into())
            .await
    }

    /// GET /v1/devices/{name}: a device, or every device that a card offers.
    pub async fn device(&self, name: &str) -> Result<DeviceDocument, AdminClientError> {
        self.request(Method::GET, &path(name), Vec::new().into())
            .await
    }

    /// POST /v1/devices/{name}/{verb}: performs the action and waits until it is finished.
    pub async fn act_on_device(
        &self,
        name: &str,
        verb: DeviceVerb,
        action: &DeviceAction,
    ) -> Result<DeviceActionResult, AdminClientError> {
        let path = format!("{}/{}", path(name), verb.as_str());
        let body = berth_wire::encode(action);
        self.request(Method::POST, &path, body.into()).await
    }
}

/// Path of a device. A name is an address or a UUID; any other character is replaced, so that the name cannot lead to
/// another route.
fn path(name: &str) -> String {
    let kept = |c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '.' | '-');
    let safe: String = name
        .trim()
        .chars()
        .map(|c| if kept(c) { c } else { '_' })
        .collect();
    format!("/v1/devices/{safe}")
}
