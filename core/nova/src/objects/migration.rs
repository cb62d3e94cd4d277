//! [`NovaMigration`]: the record of a move.

use uuid::Uuid;

use crate::objects::object_type;

object_type! {
    /// The record of a move or an evacuation.
    NovaMigration = "Migration", Some("MigrationList");
    id: i64;
    uuid: Uuid;
    instance_uuid: Option<&str>;
    source_compute: Option<&str>;
    source_node: Option<&str>;
    dest_compute: Option<&str>;
    dest_node: Option<&str>;
    dest_host: Option<&str>;
    /// `migration`, `resize`, `live-migration` or `evacuation`.
    migration_type: &str;
    status / set_status: Option<&str>;
}
