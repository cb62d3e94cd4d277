//! The table of all options, from which checks, the reference page and the sample file are generated.
//!
//! The options themselves are declared in the crates that read them ([`berth_options::options!`]).

use std::iter;
use std::sync::LazyLock;

use berth_audit::AuditOptions;
use berth_client::AuthOptions;
use berth_compute_driver::{LibvirtSection, VncSection};
use berth_http::CorsOptions;
use berth_net::OsVifOvsSection;
use berth_options::{Json, OptionRow, RowGroup};
use berth_scheduler::options as scheduler;
use berth_virt::ResourceModel;

use super::authtoken::AuthtokenOptions;
use super::listeners::{ListenerTls, TLS_SECTIONS};
use super::pattern;
use super::sections as own;

/// The groups of options, in the order of the reference. The groups of one section need not be adjacent.
fn groups() -> Vec<RowGroup> {
    let mut groups = vec![
        RowGroup::of::<own::Config>(),
        RowGroup::of::<scheduler::DefaultOptions>(),
        RowGroup::of::<own::ComputeSection>(),
        RowGroup::of::<scheduler::ComputeGroupOptions>(),
        RowGroup::of::<LibvirtSection>(),
        RowGroup::of::<OsVifOvsSection>(),
        RowGroup::of::<VncSection>(),
        RowGroup::of::<own::NovncproxySection>(),
        RowGroup::of::<own::SerialConsoleSection>(),
        RowGroup::of::<own::ConsoleSection>(),
        RowGroup::of::<own::ConsoleauthSection>(),
        RowGroup::of::<own::PciSection>(),
        RowGroup::of::<scheduler::PciOptions>(),
        RowGroup::of::<own::AcceleratorsSection>(),
        RowGroup::of::<own::FabricSection>(),
        RowGroup::of::<own::DevicesSection>(),
        RowGroup::of::<own::MdevTypeSection>(),
        RowGroup::of::<ResourceModel>(),
    ];
    groups.extend(CLIENTS.map(ClientSection::group));
    groups.extend([
        RowGroup::of::<own::ImageCacheSection>(),
        RowGroup::of::<own::ApiSection>(),
        RowGroup::of::<AuditOptions>(),
        RowGroup::of::<own::PlacementService>(),
        RowGroup::of::<CorsOptions>(),
        RowGroup::of::<own::AcceleratorService>(),
        RowGroup::of::<own::ConductorService>(),
        RowGroup::of::<own::ComputeService>(),
        RowGroup::of::<own::QuotaSection>(),
        RowGroup::of::<scheduler::SchedulerGroupOptions>(),
        RowGroup::of::<scheduler::FilterSchedulerOptions>(),
        RowGroup::of::<own::SchedulerPlugin>(),
        RowGroup::of::<own::TrustedComputingSection>(),
        RowGroup::of::<scheduler::MetricsOptions>(),
        RowGroup::of::<scheduler::WorkaroundsOptions>(),
        RowGroup::of::<own::AgentClient>(),
        RowGroup::of::<own::IdentityService>(),
        RowGroup::of::<AuthtokenOptions>(),
        RowGroup::of::<own::AgentSection>(),
    ]);
    groups.extend(TLS_SECTIONS.map(|section| RowGroup {
        section,
        ..RowGroup::of::<ListenerTls>()
    }));
    for driver in berth_compute_driver::GROUPS {
        if groups.iter().all(|it| it.section != driver.section) {
            groups.push(*driver);
        }
    }
    groups
}

/// A section with the options of an API client.
#[derive(Clone, Copy)]
struct ClientSection {
    section: &'static str,
    help: &'static str,
    /// The default of `service_type`.
    service_type: fn() -> Json,
    /// An example of an endpoint.
    endpoint: &'static str,
}

const CLIENTS: [ClientSection; 5] = [
    ClientSection {
        section: "placement",
        service_type: || Json::from("placement"),
        endpoint: "\"http://127.0.0.1:8778\"",
        help: "The connection to Placement. The options have keystoneauth's names.",
    },
    ClientSection {
        section: "cyborg",
        service_type: || Json::from("accelerator"),
        endpoint: "\"http://127.0.0.1:6666\"",
        help: "The connection to the accelerator service: Cyborg or Berth's own. `berth up` includes one, which needs no entry here.",
    },
    ClientSection {
        section: "conductor",
        service_type: || Json::from("conductor"),
        endpoint: "\"http://127.0.0.1:8780\"",
        help: "The connection to the hosts service of Berth's conductor, which stores the host states for the scheduler. Without an entry \
         `berth agent` does not report its state. `berth up` includes one, which needs no entry here.",
    },
    ClientSection {
        section: "glance",
        service_type: || Json::from("image"),
        endpoint: "\"http://127.0.0.1:9292\"",
        help: "The connection to the image service. Images at a path or an HTTP URL need none, and `berth up` includes one.",
    },
    ClientSection {
        section: "neutron",
        service_type: || Json::from("network"),
        endpoint: "\"http://127.0.0.1:9696\"",
        help: "The connection of the conductor and the compute API to the network service, OpenStack's Neutron. Agents do not use it. Its \
         account needs the role `admin`, because only administrators may bind ports. Without an entry, servers have no ports.",
    },
];

impl ClientSection {
    fn group(self) -> RowGroup {
        RowGroup {
            section: self.section,
            help: self.help,
            ..RowGroup::of::<AuthOptions>()
        }
    }

    fn row(self, row: &OptionRow) -> OptionRow {
        match row.key {
            "service_type" => OptionRow {
                default: self.service_type,
                ..*row
            },
            "endpoint" | "endpoint_override" => OptionRow {
                example: self.endpoint,
                ..*row
            },
            _ => *row,
        }
    }
}

/// Sections of the file with their texts, in the order of the reference. `mdev_TYPE` and `scheduler_plugin_NAME` are patterns.
pub static SECTIONS: LazyLock<Vec<(&'static str, &'static str)>> = LazyLock::new(|| {
    let mut sections: Vec<(&str, &str)> = Vec::new();
    for group in groups() {
        if sections.iter().all(|(name, _)| *name != group.section) {
            sections.push((group.section, group.help));
        }
    }
    sections
});

/// All options, in the order of the reference.
pub static OPTIONS: LazyLock<Vec<OptionRow>> = LazyLock::new(|| {
    let mut rows = Vec::new();
    for group in groups() {
        let client = CLIENTS.iter().find(|it| it.section == group.section);
        let group_rows = group.rows.iter().map(|row| OptionRow {
            section: group.section,
            ..client.map_or(*row, |client| client.row(row))
        });
        rows.extend(group_rows.flat_map(|row| iter::once(row).chain(row.of_file())));
    }
    rows
});

/// The row of `key` in `section`; a section such as `mdev_nvidia-35` has the rows of `mdev_TYPE`.
#[must_use]
pub fn find(section: &str, key: &str) -> Option<&'static OptionRow> {
    let pattern = pattern_of(section);
    OPTIONS
        .iter()
        .find(|row| row.section == pattern && row.key == key)
}

/// The section's name in the table, such as `mdev_TYPE`.
pub(super) fn pattern_of(section: &str) -> &str {
    pattern::of(section).map_or(section, |(pattern, _)| pattern.section)
}

/// Whether the table has this section.
pub(super) fn is_section(section: &str) -> bool {
    !section.is_empty()
        && pattern::named(section).is_none()
        && SECTIONS
            .iter()
            .any(|(name, _)| *name == pattern_of(section))
}

/// Options of OpenStack that are planned for a later version; an empty key means the whole section.
pub(super) const NOT_YET: &[(&str, &str)] = &[
    ("", "resume_guests_state_on_host_boot"),
    ("", "sync_power_state_interval"),
    ("", "transport_url"),
    ("placement", "domain_name"),
    ("placement", "domain_id"),
    ("placement", "trust_id"),
    ("placement", "retriable_status_codes"),
    ("placement", "min_version"),
    ("placement", "max_version"),
    ("compute", "max_concurrent_disk_ops"),
    ("libvirt", "cpu_model_extra_flags"),
    ("libvirt", "images_type"),
    ("pci", "enabled_live_migration"),
    ("image_cache", "precache_concurrency"),
    ("libvirt", "pmem_namespaces"),
];

/// Options that OpenStack removed or that have another name here, with what to write instead.
pub(super) const RENAMED: &[(&str, &str, &str)] = &[
    (
        "DEFAULT",
        "",
        "the options of [DEFAULT] are at the top level, before the first section",
    ),
    ("agent", "socket", "write admin_socket"),
    ("pci", "passthrough_whitelist", "write device_spec"),
    (
        "image_cache",
        "subdirectory_name",
        "base images are in _base below instances_path",
    ),
    (
        "",
        "config_drive_format",
        "a config drive is an ISO 9660 file system; write config_drive_layout",
    ),
    (
        "",
        "vcpu_pin_set",
        "write cpu_dedicated_set (for hw:cpu_policy=dedicated) or cpu_shared_set (for all others) in [compute]",
    ),
    (
        "libvirt",
        "cpu_model",
        "write cpu_models, a list, in [libvirt]",
    ),
    ("devices", "enabled_vgpu_types", "write enabled_mdev_types"),
    ("placement", "os_region_name", "write region_name"),
    ("placement", "os_interface", "write valid_interfaces"),
    ("placement", "interface", "write valid_interfaces"),
    ("placement", "tenant_name", "write project_name"),
    ("placement", "tenant_id", "write project_id"),
    ("placement", "user_name", "write username"),
    ("placement", "url", "write endpoint_override"),
    (
        "placement_database",
        "",
        "write connection in [placement_service]",
    ),
    ("database", "", "write connection in [placement_service]"),
];
