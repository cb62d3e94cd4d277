//! The options of Open vSwitch, under the names of os-vif in Nova's configuration.

use std::time::Duration;

use berth_options::{OptionKind, TextKind, options, seconds};
use berth_ovsdb::OvsdbEndpoint;

options! {
    /// Open vSwitch, to which the ports of guests are added.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct OsVifOvsSection in "os_vif_ovs" {
        /// The switch's database: `unix:PATH` or `tcp:HOST:PORT`.
        ovsdb_connection: String = "unix:/run/openvswitch/db.sock".to_owned(), kind: OVSDB;
        /// How long the switch's database may take to answer, in seconds.
        pub ovs_vsctl_timeout: Duration = seconds(120), kind: Integer(1, 3600);
    }
}

const OVSDB: OptionKind = OptionKind::Text(&TextKind::new(
    "address of an Open vSwitch database",
    "write \"unix:/run/openvswitch/db.sock\" or \"tcp:127.0.0.1:6640\"",
    |text| match text.parse::<OvsdbEndpoint>() {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("{text:?} is not the address of an Open vSwitch database").into()),
    },
));

impl OsVifOvsSection {
    /// The switch's database; `None` only if the text was not checked.
    #[must_use]
    pub fn ovsdb(&self) -> Option<OvsdbEndpoint> {
        self.ovsdb_connection.parse().ok()
    }
}
