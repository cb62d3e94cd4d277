//! Who knows what an image is: a list, or the image service.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;

use berth_client::{ImageClient, ImageError, ImageRecord};
use berth_wire::guest::{ImageBody, ImageLocation};
use uuid::Uuid;

/// An image that guests can be made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundImage {
    /// As the conductor is told of it, with all of its properties; an agent is told [`ImageBody::of_machine`].
    pub body: ImageBody,
    /// The least memory of a guest, in MiB; 0: any.
    pub min_ram: u64,
    /// The least root disk of a guest, in GiB; 0: any.
    pub min_disk: u64,
}

/// Why an image cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ImagesError {
    /// It is there, and no guest can be made of it.
    #[error("Image {image} is unacceptable: {reason}")]
    Unfit {
        image: Uuid,
        reason: String,
    },
    /// The image service did not say.
    #[error("the image service does not say what image {image} is")]
    Service {
        image: Uuid,
        source: Box<ImageError>,
    },
}

/// What came of the question.
pub type ImageAnswer<'a> =
    Pin<Box<dyn Future<Output = Result<Option<FoundImage>, ImagesError>> + Send + 'a>>;

/// Who knows what an image is.
pub trait Images: Send + Sync {
    /// This image, for a guest of this project; none where there is none, or not for it.
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
            let shared = match (whose(&record, project_id), project_id.parse()) {
                (Whose::Everybodys, _) => true,
                (Whose::Others, _) | (Whose::Shared, Err(_)) => false,
                (Whose::Shared, Ok(project)) => {
                    self.is_shared_with(image, project).await.map_err(service)?
                }
            };
            match shared {
                true => found(&record).map(Some),
                false => Ok(None),
            }
        })
    }
}

/// Who may have an image.
enum Whose {
    /// The project among others.
    Everybodys,
    Shared,
    Others,
}

fn whose(record: &ImageRecord, project_id: &str) -> Whose {
    let plain = |id: &str| id.replace('-', "");
    let own = record.owner.as_deref().map(plain) == Some(plain(project_id));
    match record.visibility.as_deref() {
        Some("public" | "community") | None => Whose::Everybodys,
        _ if own => Whose::Everybodys,
        Some("shared") => Whose::Shared,
        Some(_) => Whose::Others,
    }
}

fn found(record: &ImageRecord) -> Result<FoundImage, ImagesError> {
    let unfit = |reason: String| ImagesError::Unfit {
        image: record.id,
        reason,
    };
    if record.status != "active" {
        return Err(unfit(format!("it is {} and not active", record.status)));
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
            // The image service itself says it.
            checksum: None,
            format,
            properties: record.properties.clone(),
        },
        min_ram: record.min_ram.unwrap_or_default(),
        min_disk: record.min_disk.unwrap_or_default(),
    })
}
