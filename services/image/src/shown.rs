//! Converts an image to Glance's document.

use serde_json::{Map, Value, json};

use crate::image::{CatalogImage, DiskFormat};

/// The fixed attributes of an image; properties must not have these names.
pub(crate) const BASE_PROPERTIES: [&str; 26] = [
    "checksum",
    "container_format",
    "created_at",
    "direct_url",
    "disk_format",
    "file",
    "id",
    "locations",
    "min_disk",
    "min_ram",
    "name",
    "os_hash_algo",
    "os_hash_value",
    "os_hidden",
    "owner",
    "protected",
    "schema",
    "self",
    "size",
    "status",
    "stores",
    "tags",
    "updated_at",
    "virtual_size",
    "visibility",
    "deleted",
];

/// A timestamp in Glance's format.
pub(crate) fn moment(image: &CatalogImage) -> String {
    humantime::format_rfc3339_seconds(image.created_at).to_string()
}

pub(crate) fn image(image: &CatalogImage) -> Value {
    let base = json!({
        "id": image.id,
        "name": image.name,
        "status": "active",
        "visibility": "public",
        "protected": true,
        "os_hidden": image.os_hidden,
        "owner": null,
        "disk_format": image.disk_format.as_str(),
        "container_format": "bare",
        "checksum": image.md5,
        "os_hash_algo": image.checksum.algorithm.as_str(),
        "os_hash_value": image.checksum.hex,
        "size": image.size,
        "virtual_size": image.size.filter(|_| image.disk_format == DiskFormat::Raw),
        "min_ram": image.min_ram,
        "min_disk": image.min_disk,
        "tags": image.tags,
        "created_at": moment(image),
        "updated_at": moment(image),
        "self": format!("/v2/images/{}", image.id),
        "file": format!("/v2/images/{}/file", image.id),
        "schema": "/v2/schemas/image",
    });
    let properties = image.properties.iter();
    let mut document: Map<String, Value> = properties
        .map(|(key, value)| (key.clone(), Value::String(value.clone())))
        .collect();
    if let Value::Object(base) = base {
        document.extend(base);
    }
    Value::Object(document)
}
