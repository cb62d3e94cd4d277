//! [`NovaBlockDeviceMapping`] and [`NovaShareMapping`]: the disks and shares of an instance.

use uuid::Uuid;

use crate::objects::object_type;

object_type! {
    /// A disk of an instance.
    NovaBlockDeviceMapping = "BlockDeviceMapping", Some("BlockDeviceMappingList");
    id: i64;
    uuid: Uuid;
    instance_uuid: Uuid;
    /// `image`, `volume`, `snapshot` or `blank`.
    source_type: Option<&str>;
    /// `local` or `volume`.
    destination_type: Option<&str>;
    guest_format: Option<&str>;
    device_type / set_device_type: Option<&str>;
    disk_bus / set_disk_bus: Option<&str>;
    boot_index: Option<i64>;
    device_name / set_device_name: Option<&str>;
    delete_on_termination: bool;
    snapshot_id: Option<&str>;
    volume_id / set_volume_id: Option<&str>;
    volume_size / set_volume_size: Option<i64>;
    volume_type: Option<&str>;
    image_id: Option<&str>;
    no_device: bool;
    /// JSON in a string; it may contain credentials.
    connection_info / set_connection_info: Option<&str>;
    attachment_id / set_attachment_id: Option<Uuid>;
    tag: Option<&str>;
    encrypted: bool;
}

object_type! {
    /// A share that an instance mounts.
    NovaShareMapping = "ShareMapping", Some("ShareMappingList");
    uuid: Uuid;
    instance_uuid: Uuid;
    share_id: Uuid;
    status / set_status: &str;
    tag: &str;
    export_location: &str;
    share_proto: &str;
}
