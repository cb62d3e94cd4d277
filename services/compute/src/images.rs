//! Image lookup: a static list or the image service.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;

use berth_client::{ImageClient, ImageError, ImageRecord};
use berth_wire::guest::{ImageBody, ImageLocation};
use uuid::Uuid;

/// An image that guests can boot from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundImage {
    /// The description for the conductor, with all properties. Agents get [`ImageBody::of_machine`].
    pub body: ImageBody,
    /// The least memory of a guest, in MiB; 0: any.
    pub min_ram: u64,
    /// The least root disk of a guest, in GiB; 0: any.
    pub min_disk: u64,
}

/// Why an image cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ImagesError {
    /// The image exists but guests cannot boot from it.
    #[error("Image {image} is unacceptable: {reason}")]
    Unfit { image: Uuid, reason: String },
    /// The image service did not answer.
    #[error("the image service does not describe image {image}")]
    Service {
        image: Uuid,
        source: Box<ImageError>,
    },
}

/// The future of [`Images::image`].
pub type ImageAnswer<'a> =
    Pin<Box<dyn Future<Output = Result<Option<FoundImage>, ImagesError>> + Send + 'a>>;

pub trait Images: Send + Sync {
    /// The image, if it exists and the project may use it.
    fn image<'a>(&'a self, image: Uuid, project_id: &'a str) -> ImageAnswer<'a>;
}

/// A list, for everybody.
impl Images for BTreeMap<Uuid, FoundImage> {
    fn image<'a>(&'a self, image: Uuid, _: &'a str) -> ImageAnswer<'a> {
        Box::pin(async move { Ok(self.get(&image).cloned()) })
    }
}

impl Images for ImageClient {
    fn image<'a>(&'a self, image: Uuid, project_id: &'a str) -> ImageAnswer<'a> {
        let service = move |source| ImagesError::Service {
            image,
            source: Box::new(source),
        };
        Box::pin(async move {
            let Some(record) = self.image(image).await.map_err(service)? else {
                return Ok(None);
            };
            let shared = match (visibility(&record, project_id), project_id.parse()) {
                (ImageVisibility::Visible, _) => true,
                (ImageVisibility::Hidden, _) | (ImageVisibility::Shared, Err(_)) => false,
                (ImageVisibility::Shared, Ok(project)) => {
                    self.is_shared_with(image, project).await.map_err(service)?
                }
            };
            match shared {
                true => check_image(&record).map(Some),
                false => Ok(None),
            }
        })
    }
}

/// The visibility of an image.
enum ImageVisibility {
    /// Visible to other projects.
    Visible,
    Shared,
    Hidden,
}

fn visibility(record: &ImageRecord, project_id: &str) -> ImageVisibility {
    let plain = |id: &str| id.replace('-', "");
    let own = record.owner.as_deref().map(plain) == Some(plain(project_id));
    match record.visibility.as_deref() {
        Some("public" | "community") | None => ImageVisibility::Visible,
        _ if own => ImageVisibility::Visible,
        Some("shared") => ImageVisibility::Shared,
        Some(_) => ImageVisibility::Hidden,
    }
}

fn check_image(record: &ImageRecord) -> Result<FoundImage, ImagesError> {
    let unfit = |reason: String| ImagesError::Unfit {
        image: record.id,
        reason,
    };
    if record.status != "active" {
        return Err(unfit(format!("it is {}, not active", record.status)));
    }
    let format = match record.disk_format.as_deref() {
        Some(format @ ("raw" | "qcow2")) => format.to_owned(),
        other => {
            let format = other.unwrap_or("unknown");
            return Err(unfit(format!(
                "its format is {format}, and not raw or qcow2"
            )));
        }
    };
    Ok(FoundImage {
        body: ImageBody {
            location: ImageLocation::Glance(record.id),
            // Agents get the checksum from the image service.
            checksum: None,
            format,
            properties: record.properties.clone(),
        },
        min_ram: record.min_ram.unwrap_or_default(),
        min_disk: record.min_disk.unwrap_or_default(),
    })
}
