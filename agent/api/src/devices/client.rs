//! The other end of the devices' routes: what `berth device` asks with.

use http::Method;

use crate::client::{AdminClient, AdminClientError};
use crate::devices::body::{DeviceActed, DeviceAction, DeviceDocument, DeviceList};

/// What can be done with a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceVerb {
    Reset,
    Quarantine,
    Release,
}

impl DeviceVerb {
    /// The last part of the route.
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
    pub async fn devices(&self) -> Result<DeviceList, AdminClientError> {
        self.ask(Method::GET, "/v1/devices", Vec::new().into())
            .await
    }

    /// GET /v1/devices/{name}: a device, or all that is offered of a card.
    pub async fn device(&self, name: &str) -> Result<DeviceDocument, AdminClientError> {
        self.ask(Method::GET, &path(name), Vec::new().into()).await
    }

    /// POST /v1/devices/{name}/…: waits until it is done.
    pub async fn act_on_device(
        &self,
        name: &str,
        verb: DeviceVerb,
        action: &DeviceAction,
    ) -> Result<DeviceActed, AdminClientError> {
        let path = format!("{}/{}", path(name), verb.as_str());
        let body = berth_wire::encode(action);
        self.ask(Method::POST, &path, body.into()).await
    }
}

/// A name is an address or a UUID; what else may have been typed must not become another route.
fn path(name: &str) -> String {
    let kept = |c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '.' | '-');
    let safe: String = name
        .trim()
        .chars()
        .map(|c| if kept(c) { c } else { '_' })
        .collect();
    format!("/v1/devices/{safe}")
}
