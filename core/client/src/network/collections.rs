//! Lists of the network service: their records, and whether another page follows.

use berth_wire::accelerator::DocumentLink;
use berth_wire::neutron::{
    FloatingIpList, FloatingIpRecord, NetworkList, NetworkRecord, PortList, PortRecord,
    RbacPolicyList, RbacPolicyRecord, RouterList, RouterRecord, SecurityGroupList,
    SecurityGroupRecord, SubnetList, SubnetRecord,
};
use serde::de::DeserializeOwned;
use uuid::Uuid;

/// A page of a list.
pub(super) trait NetworkCollection: DeserializeOwned {
    type Record;
    const EXPECTED: &'static str;

    /// The records, and whether another page follows.
    fn into_page(self) -> (Vec<Self::Record>, bool);

    fn id(record: &Self::Record) -> Uuid;
}

fn has_next(links: &[DocumentLink]) -> bool {
    links.iter().any(|link| link.rel == "next")
}

macro_rules! collections {
    ($($list:ident of $record:ident: $field:ident, $links:ident, $id:ident, $expected:literal;)+) => {
        $(impl NetworkCollection for $list {
            type Record = $record;
            const EXPECTED: &'static str = $expected;

            fn into_page(self) -> (Vec<$record>, bool) {
                let next = has_next(&self.$links);
                (self.$field, next)
            }

            fn id(record: &$record) -> Uuid {
                record.$id
            }
        })+
    };
}

collections! {
    NetworkList of NetworkRecord: networks, networks_links, id, "a list of networks";
    SubnetList of SubnetRecord: subnets, subnets_links, id, "a list of subnets";
    PortList of PortRecord: ports, ports_links, id, "a list of ports";
    FloatingIpList of FloatingIpRecord: floatingips, floatingips_links, id, "a list of floating addresses";
    SecurityGroupList of SecurityGroupRecord: security_groups, security_groups_links, id, "a list of security groups";
    RouterList of RouterRecord: routers, routers_links, id, "a list of routers";
    RbacPolicyList of RbacPolicyRecord: rbac_policies, rbac_policies_links, id, "a list of RBAC policies";
}
