//! Client of the image service (Glance v2): image records and data.
//!
//! The options are in `[glance]`; the service type is `image`. Caller: the agent, for the boot of guests from images.

mod error;

use std::collections::BTreeMap;

use berth_wire::BodyError;
use berth_wire::decode;
use http::{HeaderMap, HeaderName, Method, StatusCode};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use uuid::Uuid;

pub use error::ImageError;

use crate::adapter::AdapterCall;
use crate::answer::AdapterAnswer;
use crate::keystone::Renewal;
use crate::sanitize;
use crate::{
    Adapter, AdapterOptions, Auth, AuthOptions, ConnectError, Download, DownloadError, Downloads,
    HttpService, ServiceCallError,
};

const SERVICE: &str = "image";
/// The maximum length of a refusal text, in characters.
const MESSAGE: usize = 300;
const ONE_IMAGE: &str = "/v2/images/{image_id}";
const ONE_MEMBER: &str = "/v2/images/{image_id}/members/{member_id}";
static AUTH_TOKEN: HeaderName = HeaderName::from_static("x-auth-token");

/// An image as reported by the service.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ImageRecord {
    pub id: Uuid,
    /// `active` if it has data.
    pub status: String,
    /// The owning project, if reported.
    #[serde(default)]
    pub owner: Option<String>,
    /// `public` and `community`: visible to all; `shared`: also to its members; `private`: to its owner.
    #[serde(default)]
    pub visibility: Option<String>,
    /// `raw`, `qcow2`, ...; none for an image without bytes.
    #[serde(default)]
    pub disk_format: Option<String>,
    /// `bare` if the data are the disk itself.
    #[serde(default)]
    pub container_format: Option<String>,
    /// The minimum memory of a guest, in MiB.
    #[serde(default)]
    pub min_ram: Option<u64>,
    /// The minimum root disk of a guest, in GiB.
    #[serde(default)]
    pub min_disk: Option<u64>,
    #[serde(default)]
    pub size: Option<u64>,
    /// Their MD5, of old images.
    #[serde(default)]
    pub checksum: Option<String>,
    /// The algorithm of `os_hash_value`.
    #[serde(default)]
    pub os_hash_algo: Option<String>,
    #[serde(default)]
    pub os_hash_value: Option<String>,
    /// Further text properties, such as `hw_firmware_type`, `trait:…`, `os_distro`. The service reports them next
    /// to its own fields.
    #[serde(flatten, deserialize_with = "properties")]
    pub properties: BTreeMap<String, String>,
}

/// Text fields of the service that are not image properties.
const OWN_TEXTS: [&str; 8] = [
    "created_at",
    "direct_url",
    "file",
    "name",
    "schema",
    "self",
    "stores",
    "updated_at",
];

fn properties<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum ImageDocument {
        Text(String),
        Other(IgnoredAny),
    }
    let others = BTreeMap::<String, ImageDocument>::deserialize(deserializer)?;
    let texts = others.into_iter().filter_map(|(key, value)| match value {
        ImageDocument::Text(text) if !OWN_TEXTS.contains(&key.as_str()) => Some((key, text)),
        ImageDocument::Text(_) | ImageDocument::Other(_) => None,
    });
    Ok(texts.collect())
}

/// A client of the image service. Clones share connections and session.
#[derive(Clone)]
pub struct ImageClient {
    adapter: Adapter,
    downloads: Downloads,
}

impl ImageClient {
    /// The service through `http`, images' bytes through `downloads`; the endpoint of `auth` is its root, without `/v2`.
    #[must_use]
    pub fn new(
        http: HttpService,
        downloads: Downloads,
        auth: Auth,
        options: &AdapterOptions,
    ) -> Self {
        Self {
            adapter: Adapter::new(SERVICE, http, auth, options),
            downloads,
        }
    }

    /// The service over the network, all by the options of `[glance]`. Nothing is sent yet.
    pub fn from_options(options: &AuthOptions) -> Result<Self, ConnectError> {
        let adapter = Adapter::from_options(SERVICE, options, None)?;
        let patience = options.timeout.unwrap_or(Downloads::DEFAULT_PATIENCE);
        Ok(Self {
            adapter,
            downloads: Downloads::network(&options.transport(), patience)?,
        })
    }

    /// GET /v2/images/{id}; `None` if it does not exist or is not visible.
    pub async fn image(&self, image: Uuid) -> Result<Option<ImageRecord>, ImageError> {
        let path = format!("/v2/images/{}", image.hyphenated());
        let Some(answer) = self.get(ONE_IMAGE, path).await? else {
            return Ok(None);
        };
        let record =
            decode::<ImageRecord>(&answer.body).and_then(|record| match record.id == image {
                true => Ok(record),
                false => Err(BodyError::field("id", "it is another image's")),
            });
        let record = record.map_err(|reason| ImageError::Malformed {
            request: Box::new(answer.request),
            reason,
        })?;
        Ok(Some(record))
    }

    /// GET /v2/images/{id}/members/{project}: whether a shared image is shared with this project, accepted or not.
    pub async fn is_shared_with(&self, image: Uuid, project: Uuid) -> Result<bool, ImageError> {
        let (image, project) = (image.hyphenated(), project.simple());
        let path = format!("/v2/images/{image}/members/{project}");
        Ok(self.get(ONE_MEMBER, path).await?.is_some())
    }

    /// The answer; `None` if the object does not exist or is not visible.
    async fn get(
        &self,
        route: &'static str,
        path: String,
    ) -> Result<Option<AdapterAnswer>, ImageError> {
        let call = AdapterCall::new(Method::GET, route, path, None);
        let answer = self.adapter.call(call).await?;
        match answer.status {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => Ok(Some(answer)),
            _ => {
                let message = sanitize::other_message(&answer.body);
                Err(ImageError::Refused(answer.refusal(&message, MESSAGE)))
            }
        }
    }

    /// GET /v2/images/{id}/file: its bytes.
    pub async fn file(&self, image: Uuid) -> Result<Download, ImageError> {
        let path = format!("/v2/images/{}/file", image.hyphenated());
        let mut renewed = false;
        loop {
            let access = self.adapter.auth().access().await;
            let access = access.map_err(ServiceCallError::Auth)?;
            let mut headers = HeaderMap::new();
            if let Some(token) = access.token.clone() {
                headers.insert(AUTH_TOKEN.clone(), token);
            }
            let url = format!("{}{path}", access.endpoint.as_str());
            match self.downloads.get_with(&url, headers).await {
                Err(DownloadError::Status { status })
                    if status == StatusCode::UNAUTHORIZED && !renewed =>
                {
                    renewed = true;
                    if !matches!(self.adapter.auth().refused(&access), Renewal::Possible) {
                        return Err(ImageError::File {
                            image,
                            reason: DownloadError::Status { status },
                        });
                    }
                }
                answer => return answer.map_err(|reason| ImageError::File { image, reason }),
            }
        }
    }
}
