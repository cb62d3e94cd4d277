//! The code of each reason.

use super::Reason;

impl Reason {
    /// The kind of the reason without its values: the `code` in JSON, and a label of metrics.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::ServiceDisabled { .. } => "service_disabled",
            Self::ServiceForcedDown => "service_forced_down",
            Self::ServiceDown { .. } => "service_down",
            Self::TooManyInstances { .. } => "too_many_instances",
            Self::TooManyIoOps { .. } => "too_many_io_ops",
            Self::MetricsMissing { .. } => "metrics_missing",
            Self::TotalTooSmall { .. } => "total_too_small",
            Self::NotEnoughFree { .. } => "not_enough_free",
            Self::NotExactlyFree { .. } => "not_exactly_free",
            Self::CapabilityMissing { .. } => "capability_missing",
            Self::CapabilityMismatch { .. } => "capability_mismatch",
            Self::CapabilityUnreadable { .. } => "capability_unreadable",
            Self::AggregateKeyMissing { .. } => "aggregate_key_missing",
            Self::AggregateMismatch { .. } => "aggregate_mismatch",
            Self::AggregateUnreadable { .. } => "aggregate_unreadable",
            Self::FlavorNotAllowed { .. } => "flavor_not_allowed",
            Self::ProjectNotAllowed { .. } => "project_not_allowed",
            Self::ImagePropertyNotAllowed { .. } => "image_property_not_allowed",
            Self::HostIsolated { .. } => "host_isolated",
            Self::ImageIsolated { .. } => "image_isolated",
            Self::WrongZone { .. } => "wrong_zone",
            Self::ImageNotSupported { .. } => "image_not_supported",
            Self::HypervisorVersion { .. } => "hypervisor_version",
            Self::MaxphysaddrBits { .. } => "maxphysaddr_bits",
            Self::GroupAntiAffinity { .. } => "group_anti_affinity",
            Self::GroupAffinity { .. } => "group_affinity",
            Self::NotDifferentHost { .. } => "not_different_host",
            Self::NotSameHost { .. } => "not_same_host",
            Self::OutsideNetwork { .. } => "outside_network",
            Self::NetworkUnreadable { .. } => "network_unreadable",
            Self::QueryNotSatisfied { .. } => "query_not_satisfied",
            Self::QueryUnreadable { .. } => "query_unreadable",
            Self::AlreadyTried { .. } => "already_tried",
            Self::OtherFlavors { .. } => "other_flavors",
            Self::PciPassthrough(_) => "pci_passthrough",
            Self::NumaTopology(_) => "numa_topology",
            Self::Plugin { .. } => "plugin",
            Self::PluginFailed { .. } => "plugin_failed",
            Self::NotTrusted { .. } => "not_trusted",
            Self::AttestationExpired { .. } => "attestation_expired",
            Self::NoAttestations { .. } => "no_attestations",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::numa::NumaReason;
    use crate::pci::PciReason;
    use crate::reason::Resource;

    fn one_of_each() -> Vec<Reason> {
        let text = String::new;
        let texts = BTreeSet::new;
        let resource = Resource::Vcpu;
        vec![
            Reason::ServiceDisabled {
                disabled_reason: None,
            },
            Reason::ServiceForcedDown,
            Reason::ServiceDown {
                last_seen_age_s: None,
                service_down_time: 60.0,
            },
            Reason::TooManyInstances {
                num_instances: 1,
                max_instances_per_host: 1,
            },
            Reason::TooManyIoOps {
                num_io_ops: 1,
                max_io_ops_per_host: 1,
            },
            Reason::MetricsMissing { missing: texts() },
            Reason::TotalTooSmall {
                resource,
                requested: 2,
                total: 1,
            },
            Reason::NotEnoughFree {
                resource,
                requested: 2,
                free: 1.0,
            },
            Reason::NotExactlyFree {
                resource,
                requested: 2,
                free: 1,
            },
            Reason::CapabilityMissing {
                capability: text(),
                requirement: text(),
            },
            Reason::CapabilityMismatch {
                capability: text(),
                value: text(),
                requirement: text(),
            },
            Reason::CapabilityUnreadable {
                capability: text(),
                value: text(),
                requirement: text(),
                unreadable: text(),
            },
            Reason::AggregateKeyMissing {
                key: text(),
                requirement: text(),
            },
            Reason::AggregateMismatch {
                key: text(),
                values: texts(),
                requirement: text(),
            },
            Reason::AggregateUnreadable {
                key: text(),
                values: texts(),
                requirement: text(),
                unreadable: text(),
            },
            Reason::FlavorNotAllowed {
                flavor: text(),
                allowed: texts(),
            },
            Reason::ProjectNotAllowed {
                project: None,
                allowed: texts(),
            },
            Reason::ImagePropertyNotAllowed {
                property: text(),
                value: text(),
                allowed: texts(),
            },
            Reason::HostIsolated { image: None },
            Reason::ImageIsolated { image: text() },
            Reason::WrongZone {
                availability_zone: text(),
                zones: texts(),
            },
            Reason::ImageNotSupported {
                asked: [None, None, None],
                supported_instances: Vec::new(),
            },
            Reason::HypervisorVersion {
                hypervisor_version: text(),
                requested_version: text(),
            },
            Reason::MaxphysaddrBits {
                bits: None,
                requested: 46,
            },
            Reason::GroupAntiAffinity {
                members: 1,
                max_server_per_host: 1,
            },
            Reason::GroupAffinity {
                hosts: texts().into(),
            },
            Reason::NotDifferentHost {
                instance_uuid: text(),
            },
            Reason::NotSameHost {
                same_host: [].into(),
            },
            Reason::OutsideNetwork {
                host_ip: None,
                network: text(),
            },
            Reason::NetworkUnreadable {
                unreadable: "".into(),
            },
            Reason::QueryNotSatisfied {
                query: "".into(),
                values: BTreeMap::new(),
            },
            Reason::QueryUnreadable {
                query: "".into(),
                unreadable: "".into(),
            },
            Reason::AlreadyTried {
                host: text(),
                node: text(),
            },
            Reason::OtherFlavors {
                flavorid: text(),
                others: texts(),
            },
            Reason::PciPassthrough(PciReason::NoPools),
            Reason::NumaTopology(NumaReason::NoTopology),
            Reason::plugin("rack_power", Some("too_warm"), "it is too warm"),
            Reason::PluginFailed {
                plugin: "".into(),
                failure: "".into(),
            },
            Reason::NotTrusted {
                trust_level: text(),
                requested: text(),
            },
            Reason::AttestationExpired {
                trust_level: text(),
                age_s: 2.0,
                holds_s: 1.0,
            },
            Reason::NoAttestations { why: text() },
        ]
    }

    #[test]
    fn the_code_is_that_of_the_json() {
        let mut codes = BTreeSet::new();
        for reason in one_of_each() {
            let json = serde_json::to_value(&reason).unwrap();
            assert_eq!(json["code"], reason.code(), "{reason}");
            codes.insert(reason.code());
        }
        // Fails when a reason is added: add it to this test.
        assert_eq!(codes.len(), 41);
    }
}
