//! The images for servers: an image service (`[glance]`), or the list in `[compute_service] images_file`.
//!
//! The compute API and the built-in image service share one list, which is read once.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use berth_client::ImageClient;
use berth_compute::{FoundImage, Images};
use berth_config::Config;
use berth_image::{ImageDataLocation, ImageList, ImageListError};
use berth_output::{ErrorCode, Failure};
use berth_wire::guest::{ImageBody, ImageLocation};
use uuid::Uuid;

#[derive(Clone)]
pub enum ServerImages {
    /// The image service that `[glance]` names.
    Service,
    /// The list of this process; may be empty.
    List(Arc<ImageList>),
}

impl ServerImages {
    /// Reads the list, unless an image service is configured.
    ///
    /// Errors: The list or the data of an image cannot be read, or an entry is invalid.
    pub async fn of(config: &Config) -> Result<Self, Failure> {
        if config.glance.auth_type.is_some() {
            return Ok(Self::Service);
        }
        let Some(path) = config.compute_service.images_file.clone() else {
            return Ok(Self::List(Arc::default()));
        };
        // It may compute checksums of many gigabytes.
        let read = tokio::task::spawn_blocking(move || ImageList::read(&path)).await;
        let read = read.map_err(|error| Failure::caused(ErrorCode::Bug, "the images", &error))?;
        let list = read.map_err(|error| match error {
            ImageListError::Malformed { .. } => {
                Failure::new(ErrorCode::BadValue, error.to_string())
            }
            ImageListError::Unreadable { ref source, .. }
            | ImageListError::Data { ref source, .. } => {
                Failure::caused(ErrorCode::File, error.to_string(), source)
                    .hint("see [compute_service] images_file")
            }
        })?;
        Ok(Self::List(Arc::new(list)))
    }

    /// The list; `None` if an image service is configured.
    pub fn list(&self) -> Option<&Arc<ImageList>> {
        match self {
            Self::Service => None,
            Self::List(list) => Some(list),
        }
    }

    /// The source of images for the compute API.
    pub fn for_compute(&self, config: &Config) -> Result<Arc<dyn Images>, Failure> {
        match self {
            Self::Service => image_service(config).map(|client| Arc::new(client) as _),
            Self::List(list) => Ok(Arc::new(found(list))),
        }
    }
}

/// Prints how to add images, if there are none.
pub fn report_images(images: &ServerImages, out: &mut dyn Write) -> io::Result<()> {
    match images.list() {
        Some(list) if list.images().next().is_none() => match list.file() {
            Some(file) => writeln!(out, "No images: add some to {}", file.display()),
            None => writeln!(
                out,
                "No images: name a file of images in [compute_service] images_file"
            ),
        },
        _ => Ok(()),
    }
}

/// The image service of `[glance]`, over the network.
///
/// Errors: Options are missing or contradict each other, or one of their files cannot be used.
pub fn image_service(config: &Config) -> Result<ImageClient, Failure> {
    ImageClient::from_options(&config.glance).map_err(|error| {
        let what = "access to the image service is not configured ([glance])";
        Failure::caused(ErrorCode::Missing, what, &error)
    })
}

/// The images for the conductor. Data on this host is downloaded from the image service. The checksum is included, so
/// an agent notices if the data of an id has changed.
fn found(list: &ImageList) -> BTreeMap<Uuid, FoundImage> {
    let images = list.images().map(|image| {
        let location = match &image.place {
            ImageDataLocation::Local(_) => ImageLocation::Glance(image.id),
            ImageDataLocation::Hosts(path) => ImageLocation::Path(path.clone()),
            ImageDataLocation::Url(url) => ImageLocation::Url(url.clone()),
        };
        let body = ImageBody {
            location,
            checksum: Some(image.checksum.to_string()),
            format: image.disk_format.as_str().to_owned(),
            properties: image.properties.clone(),
        };
        let found = FoundImage {
            body,
            min_ram: image.min_ram,
            min_disk: image.min_disk,
        };
        (image.id, found)
    });
    images.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_conductor_gets_the_location_and_the_properties_of_an_image() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("a.raw");
        std::fs::write(&data, b"abc").unwrap();
        let sum = "a".repeat(64);
        let entries = [
            ("a", format!("file = \"{}\"", data.display())),
            ("b", format!("path = \"/b\"\nchecksum = \"sha256:{sum}\"")),
            (
                "c",
                format!("url = \"http://c\"\nchecksum = \"sha256:{sum}\""),
            ),
        ];
        let text: String = entries
            .iter()
            .map(|(name, place)| {
                format!(
                    "[[image]]\nname = \"{name}\"\ndisk_format = \"raw\"\nmin_ram = 64\n{place}\n\
                     properties = {{ hw_firmware_type = \"uefi\", os_distro = \"debian\" }}\n"
                )
            })
            .collect();
        let file = folder.path().join("images.toml");
        std::fs::write(&file, text).unwrap();
        let list = ImageList::read(&file).unwrap();
        let found = found(&list);
        let of = |name: &str| {
            let image = list.images().find(|image| image.name == name).unwrap();
            (image.id, found[&image.id].body.clone())
        };
        let (id, here) = of("a");
        assert_eq!(here.location, ImageLocation::Glance(id));
        let sum_of_abc = here.checksum.unwrap();
        assert!(sum_of_abc.starts_with("sha512:ddaf35a1"), "{sum_of_abc}");
        let expected = Some(format!("sha256:{sum}"));
        let (_, hosts) = of("b");
        assert_eq!(
            (hosts.location, &hosts.checksum),
            (ImageLocation::Path("/b".to_owned()), &expected)
        );
        let (_, url) = of("c");
        assert_eq!(
            (url.location, &url.checksum),
            (ImageLocation::Url("http://c".to_owned()), &expected)
        );
        let keys: Vec<&String> = hosts.properties.keys().collect();
        assert_eq!(keys, ["hw_firmware_type", "os_distro"]);
    }
}
