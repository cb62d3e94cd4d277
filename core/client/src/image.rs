//! The image service's calls (Glance v2): what an image is, and its bytes.
//!
//! The options are those of `[glance]`; the service type is `image`. Callers: the agent, whose guests boot from images.

mod error;

use berth_wire::BodyError;
use berth_wire::decode;
use http::{HeaderMap, HeaderName, Method, StatusCode};
use serde::Deserialize;
use uuid::Uuid;

pub use error::{ImageError, ImageRefusal};

use crate::adapter::{Answer, Call};
use crate::call::Repeat;
use crate::foreign;
use crate::keystone::Renewal;
use crate::{
    Adapter, AdapterOptions, Auth, AuthOptions, CallError, ConnectError, Download, DownloadError,
    Downloads, HttpService, RequestLine,
};

const SERVICE: &str = "image";
const ONE_IMAGE: &str = "/v2/images/{image_id}";
static AUTH_TOKEN: HeaderName = HeaderName::from_static("x-auth-token");

/// An image as the service tells it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ImageRecord {
    /// Its UUID.
    pub id: Uuid,
    /// `active` where it has bytes.
    pub status: String,
    /// `raw`, `qcow2`, ...; none for an image without bytes.
    #[serde(default)]
    pub disk_format: Option<String>,
    /// `bare` where the bytes are the disk and nothing around it.
    #[serde(default)]
    pub container_format: Option<String>,
    /// How many bytes.
    #[serde(default)]
    pub size: Option<u64>,
    /// Their MD5, of old images.
    #[serde(default)]
    pub checksum: Option<String>,
    /// How `os_hash_value` is made.
    #[serde(default)]
    pub os_hash_algo: Option<String>,
    /// What the bytes come to.
    #[serde(default)]
    pub os_hash_value: Option<String>,
}

/// The image service, wherever it is. Clones share connections and session.
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
    ///
    /// # Errors
    /// Options are missing or contradictory, or a file they name cannot be used.
    pub fn from_options(options: &AuthOptions) -> Result<Self, ConnectError> {
        let adapter = Adapter::from_options(SERVICE, options, None)?;
        let patience = options.timeout.unwrap_or(Downloads::DEFAULT_PATIENCE);
        Ok(Self {
            adapter,
            downloads: Downloads::network(&options.transport(), patience)?,
        })
    }

    /// GET /v2/images/{id}; none where there is none, or it may not be seen.
    ///
    /// # Errors
    /// No answer, a refusal, or an answer that is no image.
    pub async fn image(&self, image: Uuid) -> Result<Option<ImageRecord>, ImageError> {
        let call = Call {
            method: Method::GET,
            route: ONE_IMAGE,
            path: format!("/v2/images/{}", image.hyphenated()),
            microversion: None,
            body: None,
            repeat: Repeat::Safe,
            patience: 1,
        };
        let answer = self.adapter.call(call).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        if !answer.status.is_success() {
            return Err(refused(answer).into());
        }
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

    /// GET /v2/images/{id}/file: its bytes.
    ///
    /// # Errors
    /// No answer or a refusal; the bytes may end early later.
    pub async fn file(&self, image: Uuid) -> Result<Download, ImageError> {
        let path = format!("/v2/images/{}/file", image.hyphenated());
        let mut renewed = false;
        loop {
            let access = self.adapter.auth().access().await;
            let access = access.map_err(CallError::Auth)?;
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

fn refused(answer: Answer) -> ImageRefusal {
    let request: RequestLine = answer.request;
    ImageRefusal {
        message: foreign::one_line(&foreign::other_message(&answer.body), 300),
        request,
        status: answer.status,
        request_id: answer.request_id,
    }
}
