//! /v2.1/extensions: the list of API extensions from before microversions. Old clients read it to find out what is
//! supported; it no longer grows.

use berth_http::{ApiRequest, ApiResponse, Fault};
use serde_json::{Value, json};

use crate::fields::bounded;

/// Alias and name of the supported extensions.
const SUPPORTED: [(&str, &str); 27] = [
    ("OS-DCF", "DiskConfig"),
    ("OS-EXT-AZ", "ExtendedAvailabilityZone"),
    ("OS-EXT-SRV-ATTR", "ExtendedServerAttributes"),
    ("OS-EXT-STS", "ExtendedStatus"),
    ("OS-FLV-EXT-DATA", "FlavorExtraData"),
    ("OS-SCH-HNT", "SchedulerHints"),
    ("OS-SRV-USG", "ServerUsage"),
    ("os-admin-actions", "AdminActions"),
    ("os-aggregates", "Aggregates"),
    ("os-attach-interfaces", "AttachInterfaces"),
    ("os-availability-zone", "AvailabilityZone"),
    ("os-config-drive", "ConfigDrive"),
    ("os-console-output", "ConsoleOutput"),
    ("os-deferred-delete", "DeferredDelete"),
    ("os-flavor-access", "FlavorAccess"),
    ("os-flavor-extra-specs", "FlavorExtraSpecs"),
    ("os-flavor-manage", "FlavorManage"),
    ("os-hypervisors", "Hypervisors"),
    ("os-instance-actions", "InstanceActions"),
    ("os-keypairs", "Keypairs"),
    ("os-multiple-create", "MultipleCreate"),
    ("os-quota-sets", "Quotas"),
    ("os-rescue", "Rescue"),
    ("os-server-external-events", "ServerExternalEvents"),
    ("os-server-groups", "ServerGroups"),
    ("os-services", "Services"),
    ("os-user-data", "UserData"),
];

fn shown((alias, name): &(&str, &str)) -> Value {
    json!({"alias": alias, "name": name, "description": "", "links": [],
        "namespace": "http://docs.openstack.org/compute/ext/fake_xml", "updated": "2014-12-03T00:00:00Z"})
}

pub(crate) async fn list(_: ApiRequest) -> Result<ApiResponse, Fault> {
    let all: Vec<Value> = SUPPORTED.iter().map(shown).collect();
    ApiResponse::ok(&json!({ "extensions": all }))
}

pub(crate) async fn show(call: ApiRequest) -> Result<ApiResponse, Fault> {
    let alias = call.path("alias")?;
    let found = SUPPORTED.iter().find(|(known, _)| *known == alias);
    let found = found.ok_or_else(|| {
        let alias = bounded(alias);
        Fault::not_found(format!("Extension {alias} could not be found."))
    })?;
    ApiResponse::ok(&json!({"extension": shown(found)}))
}
