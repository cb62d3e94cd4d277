//! The interfaces of guests in Open vSwitch, by its database.
//!
//! The keys in `external_ids` are those that Nova's os-vif sets, which `ovn-controller` and Neutron's agent read: `iface-id`
//! (the port), `iface-status`, `attached-mac` and `vm-uuid`. `berth-node` is Berth's own: it marks the interfaces that Berth
//! added, so that Berth removes only its own interfaces.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use berth_ovsdb::{Condition, Operation, OvsdbClient, OvsdbError, Row, map, named_uuid, uuid_of};
use berth_virt::guest_spec::{PlugSignal, TapName};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::plan::PortSpec;

const PORT_ID: &str = "iface-id";
const GUEST: &str = "vm-uuid";
const NODE: &str = "berth-node";

/// The VLAN tag of ports that Neutron's Open vSwitch agent has not connected to a network.
const DEAD_VLAN: u16 = 4095;

/// An interface of the switch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SwitchInterface {
    pub name: String,
    /// The bridge that has its port; `None` if none has.
    pub bridge: Option<String>,
    /// The Neutron port; `None` without `iface-id`.
    pub port_id: Option<String>,
    /// The guest's UUID; `None` without `vm-uuid`.
    pub guest: Option<String>,
    /// The node of the agent that added it; `None` if another program did.
    pub node: Option<String>,
}

/// The switch's interface of this name, and whether the switch has the bridge.
pub(crate) async fn observe(
    switch: &OvsdbClient,
    interface: &str,
    bridge: &str,
) -> Result<(Option<SwitchInterface>, bool), OvsdbError> {
    let named = |table, name: &str, columns| Operation::Select {
        table,
        conditions: vec![Condition::equals("name", name)],
        columns,
    };
    let results = switch
        .transact(&[
            named("Interface", interface, vec!["name", "external_ids"]),
            named("Port", interface, vec!["_uuid"]),
            all("Bridge", vec!["name", "ports"]),
        ])
        .await?;
    let [interfaces, ports, bridges] = results.as_slice() else {
        return Ok((None, false));
    };
    let has_bridge = bridges.rows.iter().any(|row| text(row, "name") == bridge);
    let port = ports
        .rows
        .first()
        .and_then(|row| uuid_of(row.get("_uuid")?));
    let of_port = bridges.rows.iter().find(|row| {
        let members = row.get("ports").map(uuids).unwrap_or_default();
        port.is_some_and(|port| members.contains(&port))
    });
    let found = interfaces.rows.first().map(|row| SwitchInterface {
        bridge: of_port.map(|row| text(row, "name").to_owned()),
        ..interface_of(row)
    });
    Ok((found, has_bridge))
}

/// All interfaces that the agent of this node added. Their bridges are not read.
pub(crate) async fn of_node(
    switch: &OvsdbClient,
    node: &str,
) -> Result<Vec<SwitchInterface>, OvsdbError> {
    let results = switch
        .transact(&[Operation::Select {
            table: "Interface",
            conditions: vec![Condition::includes(
                "external_ids",
                map([(NODE, node.to_owned())]),
            )],
            columns: vec!["name", "external_ids"],
        }])
        .await?;
    let rows = results.iter().flat_map(|result| &result.rows);
    Ok(rows.map(interface_of).collect())
}

/// Adds an interface with the tap's name to the port's bridge. Returns whether the switch has the bridge.
pub(crate) async fn add(
    switch: &OvsdbClient,
    spec: &PortSpec,
    node: &str,
) -> Result<bool, OvsdbError> {
    let tap = spec.port.tap().to_string();
    let external_ids = map([
        (PORT_ID, spec.port.id().to_string()),
        ("iface-status", "active".to_owned()),
        ("attached-mac", spec.mac.to_string()),
        (GUEST, spec.guest.to_string()),
        (NODE, node.to_owned()),
    ]);
    let mut interface = Row::from([
        ("name".to_owned(), json!(tap)),
        ("external_ids".to_owned(), external_ids),
    ]);
    if let Some(mtu) = spec.port.mtu() {
        interface.insert("mtu_request".to_owned(), json!(mtu));
    }
    let port = Row::from([
        ("name".to_owned(), json!(tap)),
        ("interfaces".to_owned(), named_uuid("interface")),
    ]);
    let insert = |table, row, name| Operation::Insert {
        table,
        row,
        uuid_name: Some(name),
    };
    let bridge = vec![Condition::equals("name", spec.bridge())];
    let results = switch
        .transact(&[
            insert("Interface", interface, "interface"),
            insert("Port", port, "port"),
            mutate("Bridge", bridge, "insert", named_uuid("port")),
        ])
        .await?;
    // Without a bridge that refers to them, the server drops the new rows.
    Ok(results.last().is_some_and(|bridge| bridge.count > 0))
}

/// Removes the interface of this name from every bridge. A missing interface counts as removed.
pub(crate) async fn remove(switch: &OvsdbClient, interface: &str) -> Result<(), OvsdbError> {
    let select = Operation::Select {
        table: "Port",
        conditions: vec![Condition::equals("name", interface)],
        columns: vec!["_uuid"],
    };
    let results = switch.transact(&[select]).await?;
    let rows = results.iter().flat_map(|result| &result.rows);
    let ports = rows.filter_map(|row| uuid_of(row.get("_uuid")?));
    for port in ports {
        // The rows of the port and its interface go when no bridge refers to them.
        let port = json!(["set", [["uuid", port.to_string()]]]);
        let members = Condition::includes("ports", port.clone());
        switch
            .transact(&[mutate("Bridge", vec![members], "delete", port)])
            .await?;
    }
    Ok(())
}

/// Waits until the port works, as its `signal` reports in the database.
///
/// Errors: [`OvsdbError::is_wait_timeout`] if that takes longer than `limit`.
pub(crate) async fn wait_until_working(
    switch: &OvsdbClient,
    tap: &TapName,
    signal: PlugSignal,
    limit: Duration,
) -> Result<(), OvsdbError> {
    let name = tap.as_str();
    let waits = match signal {
        PlugSignal::OvnInstalled => {
            let installed = map([("ovn-installed", "true".to_owned())]);
            let installed = Condition::includes("external_ids", installed);
            vec![Operation::wait_for(
                "Interface",
                name,
                vec![installed],
                limit,
            )]
        }
        PlugSignal::VlanTag => [json!(["set", []]), json!(DEAD_VLAN)]
            .map(|tag| Operation::wait_while("Port", name, ("tag", tag), limit))
            .to_vec(),
    };
    switch.transact(&waits).await.map(drop)
}

fn all(table: &'static str, columns: Vec<&'static str>) -> Operation {
    Operation::Select {
        table,
        conditions: Vec::new(),
        columns,
    }
}

fn mutate(
    table: &'static str,
    conditions: Vec<Condition>,
    mutator: &'static str,
    ports: Value,
) -> Operation {
    Operation::Mutate {
        table,
        conditions,
        mutations: vec![("ports", mutator, ports)],
    }
}

fn interface_of(row: &Row) -> SwitchInterface {
    let mut ids = row.get("external_ids").map(entries).unwrap_or_default();
    SwitchInterface {
        name: text(row, "name").to_owned(),
        bridge: None,
        port_id: ids.remove(PORT_ID),
        guest: ids.remove(GUEST),
        node: ids.remove(NODE),
    }
}

fn text<'a>(row: &'a Row, column: &str) -> &'a str {
    row.get(column).and_then(Value::as_str).unwrap_or_default()
}

/// The entries of a map: `["map", [[key, value], ...]]`.
fn entries(value: &Value) -> BTreeMap<String, String> {
    let pairs = value.get(1).and_then(Value::as_array);
    let pairs = pairs.into_iter().flatten().filter_map(|pair| {
        let (key, value) = (pair.get(0)?.as_str()?, pair.get(1)?.as_str()?);
        Some((key.to_owned(), value.to_owned()))
    });
    pairs.collect()
}

/// The UUIDs of a set of references. OVSDB encodes a set of one element as the element itself.
fn uuids(value: &Value) -> BTreeSet<Uuid> {
    if let Some(one) = uuid_of(value) {
        return BTreeSet::from([one]);
    }
    let members = value.get(1).and_then(Value::as_array);
    members.into_iter().flatten().filter_map(uuid_of).collect()
}
