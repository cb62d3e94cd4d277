//! What an instance's record says about its ports.

use serde_json::Value;
use uuid::Uuid;

use crate::field::NovaFieldError;
use crate::objects::{NovaObjectType, object_type};

object_type! {
    /// The addresses of an instance as the API shows them.
    NovaInfoCache = "InstanceInfoCache", None;
    instance_uuid / set_instance_uuid: Uuid;
    /// JSON in a string: a list of interfaces. `interfaces` reads it.
    network_info / set_network_info: Option<&str>;
}

impl NovaInfoCache {
    /// The interfaces in `network_info`; none if it is null.
    pub fn interfaces(&self) -> Result<Vec<Value>, NovaFieldError> {
        let Some(text) = self.network_info()? else {
            return Ok(Vec::new());
        };
        serde_json::from_str(text).map_err(|_| NovaFieldError::Type {
            object: Self::NAME.to_owned(),
            field: "network_info",
            found: "other text",
            expected: "a list of interfaces as JSON in a string",
        })
    }

    pub fn set_interfaces(&mut self, interfaces: Vec<Value>) {
        self.set_network_info(Some(&Value::Array(interfaces).to_string()));
    }
}

object_type! {
    /// A network or a port that a boot asks for.
    NovaNetworkRequest = "NetworkRequest", Some("NetworkRequestList");
    /// A network's ID, or `auto` or `none`.
    network_id / set_network_id: Option<&str>;
    port_id / set_port_id: Option<Uuid>;
    address / set_address: Option<&str>;
    pci_request_id / set_pci_request_id: Option<Uuid>;
    device_profile / set_device_profile: Option<&str>;
    arq_uuid / set_arq_uuid: Option<Uuid>;
    tag / set_tag: Option<&str>;
}

object_type! {
    /// A row of a port that an instance has.
    NovaVirtualInterface = "VirtualInterface", Some("VirtualInterfaceList");
    id: i64;
    /// The port's ID.
    uuid / set_uuid: Uuid;
    instance_uuid / set_instance_uuid: Uuid;
    /// The MAC address, a slash and the port's ID.
    address / set_address: Option<&str>;
    tag / set_tag: Option<&str>;
}
