//! Rules for the clients of other services: keystoneauth's options, and what Nova adds to them.

use super::ImportRule::{self, Fixed, Impossible, Meaningless, NotYet, Other, Same};
use super::{RuleRow, row};

/// Groups of clients. Berth has their options under the names of keystoneauth.
pub(super) const GROUPS: [&str; 4] = ["placement", "cyborg", "glance", "neutron"];

/// Options of each client.
const TAKEN: &[&str] = &[
    "auth_type",
    "auth_url",
    "username",
    "user_id",
    "password",
    "user_domain_name",
    "user_domain_id",
    "project_name",
    "project_id",
    "project_domain_name",
    "project_domain_id",
    "default_domain_name",
    "default_domain_id",
    "system_scope",
    "application_credential_id",
    "application_credential_name",
    "application_credential_secret",
    "token",
    "endpoint_override",
    "endpoint",
    "region_name",
    "service_type",
    "service_name",
    "valid_interfaces",
    "cafile",
    "certfile",
    "keyfile",
    "insecure",
    "timeout",
    "connect_retries",
    "connect_retry_delay",
    "status_code_retries",
    "status_code_retry_delay",
];

/// The rule of an option of keystoneauth in one of the [`GROUPS`].
pub(super) fn of_client(name: &str) -> Option<ImportRule> {
    if TAKEN.contains(&name) {
        return Some(Same);
    }
    Some(match name {
        "auth_section" => Impossible(
            "Berth reads the account in the client's own section. Write the options of that group into this section; until then the \
             client has no account",
        ),
        "domain_name" | "domain_id" => Impossible(
            "Berth's clients ask for a token of a project. Set project_name instead; a token of a domain is not asked for",
        ),
        "trust_id" => Impossible(
            "Berth's clients do not use trusts. Give the account its own role; the trust is not used",
        ),
        "retriable_status_codes" => Impossible(
            "Berth repeats a request after status 503 only. Other statuses end the request, as with Nova's default",
        ),
        "min_version" | "max_version" => {
            Meaningless("Berth asks for the one version of the API that it is written for")
        }
        "collect_timing" | "split_loggers" => {
            Meaningless("it changes only what Nova logs about requests")
        }
        "tls_ciphers" | "tls_min_version" => Meaningless(
            "Berth has TLS 1.2 and 1.3 with the cipher suites of rustls, and no option for them",
        ),
        _ => return None,
    })
}

/// The targets of the clients, for the test of the table.
pub(super) fn targets()
-> impl Iterator<Item = (&'static str, &'static str, &'static str, &'static str)> {
    let groups = GROUPS.into_iter();
    groups.flat_map(|group| TAKEN.iter().map(move |key| (group, *key, group, *key)))
}

const OF_NEUTRON: &str = "ports of this host are made by Neutron and OVN or Open vSwitch, and Berth reads nothing about it here";
const NO_RBD: &str = "Berth downloads each image into a file and has no Ceph. Images come over HTTP, as without this option";

pub(super) const ROWS: &[RuleRow] = &[
    row(
        "placement",
        &["tenant_name"],
        Other("placement", "project_name"),
    ),
    row(
        "placement",
        &["tenant_id"],
        Other("placement", "project_id"),
    ),
    row("cyborg", &["tenant_name"], Other("cyborg", "project_name")),
    row("cyborg", &["tenant_id"], Other("cyborg", "project_id")),
    row("glance", &["tenant_name"], Other("glance", "project_name")),
    row("glance", &["tenant_id"], Other("glance", "project_id")),
    row(
        "neutron",
        &["tenant_name"],
        Other("neutron", "project_name"),
    ),
    row("neutron", &["tenant_id"], Other("neutron", "project_id")),
    row(
        "neutron",
        &[
            "ovs_bridge",
            "physnets",
            "extension_sync_interval",
            "default_floating_pool",
        ],
        Meaningless(OF_NEUTRON),
    ),
    row(
        "neutron",
        &["service_metadata_proxy", "metadata_proxy_shared_secret"],
        Meaningless(
            "nova-api-metadata reads it; it stays with the control plane, and Berth's guests have a config drive",
        ),
    ),
    row(
        "neutron",
        &["http_retries"],
        Other("neutron", "connect_retries"),
    ),
    row(
        "neutron_NETWORK",
        &["numa_nodes"],
        Impossible(
            "Berth does not place a guest near the NUMA nodes of a network. Guests run, and the distance to the network card is left to chance",
        ),
    ),
    row(
        "glance",
        &["api_servers"],
        Impossible(
            "Berth has one address of the image service. Set endpoint_override, or leave it to the catalog; until then the catalog decides",
        ),
    ),
    row(
        "glance",
        &["num_retries"],
        Other("glance", "connect_retries"),
    ),
    row(
        "glance",
        &["debug"],
        Meaningless("it changes only what Nova logs about requests"),
    ),
    row(
        "glance",
        &["verify_glance_signatures", "enable_certificate_validation"],
        Fixed(
            &["false"],
            "Berth does not verify signatures of images. It compares the checksum only; an image without a valid signature would start",
        ),
    ),
    row(
        "glance",
        &["default_trusted_certificate_ids"],
        Impossible("Berth does not verify signatures of images. It compares the checksum only"),
    ),
    row(
        "glance",
        &["enable_rbd_download"],
        Fixed(&["false"], NO_RBD),
    ),
    row(
        "glance",
        &[
            "rbd_user",
            "rbd_connect_timeout",
            "rbd_ceph_conf",
            "rbd_pool",
        ],
        Meaningless(NO_RBD),
    ),
    row("service_user", &[], NotYet),
    row(
        "keystone_authtoken",
        &[],
        Meaningless(
            "nova-api checks tokens with it, not nova-compute. Berth's own section of this name belongs to berth.toml of a controller",
        ),
    ),
    row(
        "cinder",
        &[],
        Impossible(
            "Berth has no volumes. Servers with Cinder volumes cannot run on this host; keep them on nova-compute",
        ),
    ),
    row(
        "manila",
        &[],
        Impossible("Berth has no shares. Servers with Manila shares cannot run on this host"),
    ),
    row(
        "barbican",
        &[],
        Meaningless(
            "only encrypted volumes, vTPM and signed images need keys, and Berth has none of them",
        ),
    ),
    row(
        "barbican_service_user",
        &[],
        Meaningless(
            "only encrypted volumes, vTPM and signed images need keys, and Berth has none of them",
        ),
    ),
    row(
        "vault",
        &[],
        Meaningless(
            "only encrypted volumes, vTPM and signed images need keys, and Berth has none of them",
        ),
    ),
    row(
        "key_manager",
        &[],
        Meaningless(
            "only encrypted volumes, vTPM and signed images need keys, and Berth has none of them",
        ),
    ),
    row(
        "keystone",
        &[],
        Meaningless("nova-api looks up projects with it, not nova-compute"),
    ),
    row(
        "ironic",
        &[],
        Meaningless("only the driver of bare metal reads it"),
    ),
    row(
        "vmware",
        &[],
        Meaningless("only the driver of VMware reads it"),
    ),
    row("zvm", &[], Meaningless("only the driver of z/VM reads it")),
];
