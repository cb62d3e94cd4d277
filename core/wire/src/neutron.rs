//! Bodies of the Networking API (Neutron v2.0), as far as ports of servers need them.
//!
//! Fields that only administrators see, such as `binding:vif_type`, are optional. Unknown fields of answers are ignored.

mod errors;
mod networks;
mod ports;
mod qos;
mod resource_request;
mod security_groups;

pub use errors::{NeutronErrorDetail, NeutronErrorDocument};
pub use networks::{
    CreateNetworkBody, CreateNetworkDocument, CreateRouterBody, CreateRouterDocument,
    CreateSubnetBody, CreateSubnetDocument, ExtensionList, ExtensionRecord, FloatingIpList,
    FloatingIpRecord, HostRouteRecord, NetworkDocument, NetworkList, NetworkRecord, RbacPolicyList,
    RbacPolicyRecord, RouterDocument, RouterInterfaceBody, RouterList, RouterRecord, SegmentRecord,
    SubnetDocument, SubnetList, SubnetRecord,
};
pub use ports::{
    BindPortBody, BindPortDocument, CreatePortBody, CreatePortDocument, FixedIpRecord,
    GivePortBody, GivePortDocument, PortBindingList, PortBindingRecord, PortDocument, PortList,
    PortRecord, RequestedFixedIp, SecurePortBody, SecurePortDocument, UnbindPortBody,
    UnbindPortDocument,
};
pub use qos::{QosPolicyDocument, QosPolicyRecord, QosRuleRecord};
pub use resource_request::{PortRequestGroup, PortResourceRequest};
pub use security_groups::{SecurityGroupList, SecurityGroupRecord, SecurityGroupRuleRecord};
