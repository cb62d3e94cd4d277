//! The file of images: what servers are made of where there is no image service.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use berth_compute::FoundImage;
use berth_wire::guest::{ImageBody, ImageLocation};
use serde::Deserialize;
use uuid::Uuid;

use crate::failure::{ErrorCode, Failure};

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ImagesFile {
    #[serde(default)]
    image: Vec<ImageEntry>,
}

/// One image of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ImageEntry {
    name: String,
    id: Option<Uuid>,
    path: Option<String>,
    url: Option<String>,
    format: String,
    checksum: String,
    #[serde(default)]
    min_ram_mb: u64,
    #[serde(default)]
    min_disk_gb: u64,
    #[serde(default)]
    properties: BTreeMap<String, String>,
}

/// The images of a file, by UUID.
///
/// # Errors
/// It cannot be read, or an entry of it is not what it may be; the sentence names it.
pub(super) fn read(path: &Path) -> Result<BTreeMap<Uuid, FoundImage>, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        let what = format!("the images {} cannot be read", path.display());
        Failure::caused(ErrorCode::File, what, &error).mend("see [compute_service] images_file")
    })?;
    images(&text).map_err(|wrong| {
        let what = format!("the images {}: {wrong}", path.display());
        Failure::new(ErrorCode::BadValue, what)
    })
}

fn images(text: &str) -> Result<BTreeMap<Uuid, FoundImage>, String> {
    let file: ImagesFile = toml::from_str(text).map_err(|error| error.to_string())?;
    let mut names = BTreeSet::new();
    let mut images = BTreeMap::new();
    for entry in file.image {
        let name = entry.name.clone();
        let wrong = |wrong: &str| Err(format!("image {name:?}: {wrong}"));
        if name.is_empty() || !names.insert(name.clone()) {
            return wrong("each image has a name of its own");
        }
        let location = match (&entry.path, &entry.url) {
            (Some(path), None) if path.starts_with('/') => ImageLocation::Path(path.clone()),
            (None, Some(url)) if url.starts_with("http://") || url.starts_with("https://") => {
                ImageLocation::Url(url.clone())
            }
            _ => return wrong("one of path = \"/…\" and url = \"http(s)://…\" says where it is"),
        };
        if !["raw", "qcow2"].contains(&entry.format.as_str()) {
            return wrong("format is \"raw\" or \"qcow2\"");
        }
        if !is_checksum(&entry.checksum) {
            return wrong("checksum is \"sha256:HEX\" or \"sha512:HEX\", as its publisher says it");
        }
        let image = FoundImage {
            body: ImageBody {
                location,
                checksum: Some(entry.checksum),
                format: entry.format,
                properties: entry.properties,
            },
            min_ram: entry.min_ram_mb,
            min_disk: entry.min_disk_gb,
        };
        let id = entry.id.unwrap_or_else(|| id_of(&name));
        if images.insert(id, image).is_some() {
            return wrong("another image has its id");
        }
    }
    Ok(images)
}

/// The id of an image whose entry says none: always the same for the same name.
fn id_of(name: &str) -> Uuid {
    Uuid::new_v5(
        &Uuid::NAMESPACE_URL,
        format!("berth:image:{name}").as_bytes(),
    )
}

fn is_checksum(text: &str) -> bool {
    let hex =
        |hex: &str, length| hex.len() == length && hex.bytes().all(|it| it.is_ascii_hexdigit());
    match text.split_once(':') {
        Some(("sha256", digits)) => hex(digits, 64),
        Some(("sha512", digits)) => hex(digits, 128),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(lines: &str) -> String {
        let sum = "a".repeat(64);
        format!("[[image]]\nname = \"cirros\"\nchecksum = \"sha256:{sum}\"\n{lines}\n")
    }

    #[test]
    fn an_image_has_a_place_a_format_a_checksum_and_an_id_that_stays() {
        let text = entry("url = \"https://images/c\"\nformat = \"qcow2\"\nmin_disk_gb = 1");
        let first = images(&text).unwrap();
        let (id, image) = first.first_key_value().unwrap();
        assert_eq!((image.min_ram, image.min_disk), (0, 1));
        assert_eq!(*id, id_of("cirros"));
        assert_eq!(images("").unwrap(), BTreeMap::new());
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, named) in [
            (entry("format = \"raw\""), "one of path"),
            (entry("path = \"c.raw\"\nformat = \"raw\""), "one of path"),
            (
                entry("path = \"/c\"\nurl = \"http://c\"\nformat = \"raw\""),
                "one of path",
            ),
            (
                entry("path = \"/c\"\nformat = \"iso\""),
                "\"raw\" or \"qcow2\"",
            ),
            (
                entry("path = \"/c\"\nformat = \"raw\"\ncolour = 1"),
                "colour",
            ),
            (
                entry("path = \"/c\"\nformat = \"raw\"").replace("sha256", "md5"),
                "sha512:HEX",
            ),
            (
                entry("path = \"/c\"\nformat = \"raw\"").repeat(2),
                "a name of its own",
            ),
        ] {
            let wrong = images(&text).unwrap_err();
            assert!(wrong.contains(named), "{wrong}");
        }
    }
}
