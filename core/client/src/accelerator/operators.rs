//! Calls for operators: device profiles, devices and their status. A device's status needs microversion 2.3; an older
//! Cyborg answers without it.

use berth_model::Arq;
use berth_wire::accelerator::{
    AdoptedArqs, ArqBody, ArqList, CreateDeviceProfile, DeviceBody, DeviceList, DeviceProfileBody,
    DeviceProfileList,
};
use berth_wire::encode;
use http::Method;
use uuid::Uuid;

use super::{AcceleratorClient, AcceleratorError, PROFILES, call, responses};
use crate::call::Repeat;
use crate::placement::DeleteOutcome;

const ONE_PROFILE: &str = "/v2/device_profiles/{uuid}";
const ADOPTED: &str = "/internal/v1/accelerator_requests";
const DEVICES: &str = "/v2/devices";
const ENABLE: &str = "/v2/devices/{uuid}/enable";
const DISABLE: &str = "/v2/devices/{uuid}/disable";

/// The microversion with a device's status.
const STATUS: (u16, u16) = (2, 3);

/// Whether requests may be bound to a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceSwitch {
    Enable,
    /// No new binds; existing binds stay.
    Disable,
}

impl AcceleratorClient {
    /// GET /v2/device_profiles: all of them.
    pub async fn device_profiles(&self) -> Result<Vec<DeviceProfileBody>, AcceleratorError> {
        let path = PROFILES.to_owned();
        let call = call(Method::GET, PROFILES, path, None, Repeat::Safe);
        let profiles = |body: DeviceProfileList| Ok(body.device_profiles);
        self.parse(call, "a list of device profiles", profiles)
            .await
    }

    /// POST /v2/device_profiles: creates a device profile.
    ///
    /// Errors: No answer, a refusal (duplicate name, invalid group), or an answer that is no profile.
    pub async fn create_device_profile(
        &self,
        wanted: &CreateDeviceProfile,
    ) -> Result<DeviceProfileBody, AcceleratorError> {
        let body = Some(encode(&[wanted]));
        let path = PROFILES.to_owned();
        let call = call(Method::POST, PROFILES, path, body, Repeat::Once);
        self.parse(call, "a device profile", Ok).await
    }

    pub async fn delete_device_profile(
        &self,
        uuid: Uuid,
    ) -> Result<DeleteOutcome, AcceleratorError> {
        let path = format!("{PROFILES}/{uuid}");
        let call = call(Method::DELETE, ONE_PROFILE, path, None, Repeat::Safe);
        let found = responses::unless_not_found(self.ask(call).await?)?;
        Ok(found.map_or(DeleteOutcome::AlreadyGone, |_| DeleteOutcome::Deleted))
    }

    /// PUT /internal/v1/accelerator_requests: adopts requests that another service has bound. Only Berth's own service
    /// has this route. Repeating it is safe.
    ///
    /// Errors: No answer, a refusal (the role `service` is missing, no such route), or an invalid answer.
    pub async fn adopt_arqs(&self, arqs: &[Arq]) -> Result<AdoptedArqs, AcceleratorError> {
        let list = ArqList {
            arqs: arqs.iter().map(ArqBody::from).collect(),
        };
        let (path, body) = (ADOPTED.to_owned(), Some(encode(&list)));
        let call = call(Method::PUT, ADOPTED, path, body, Repeat::Safe);
        self.parse(call, "the outcome of adopted requests", Ok)
            .await
    }

    /// GET /v2/devices: all devices of all hosts.
    pub async fn devices(&self) -> Result<Vec<DeviceBody>, AcceleratorError> {
        let mut call = call(Method::GET, DEVICES, DEVICES.to_owned(), None, Repeat::Safe);
        call.microversion = Some(STATUS);
        self.parse(call, "a list of devices", |body: DeviceList| {
            Ok(body.devices)
        })
        .await
    }

    /// POST /v2/devices/{uuid}/enable or /disable.
    pub async fn switch_device(
        &self,
        uuid: Uuid,
        switch: DeviceSwitch,
    ) -> Result<(), AcceleratorError> {
        let (route, word) = match switch {
            DeviceSwitch::Enable => (ENABLE, "enable"),
            DeviceSwitch::Disable => (DISABLE, "disable"),
        };
        let path = format!("{DEVICES}/{uuid}/{word}");
        let mut call = call(Method::POST, route, path, None, Repeat::Safe);
        call.microversion = Some(STATUS);
        responses::require_success(self.ask(call).await?).map(drop)
    }
}
