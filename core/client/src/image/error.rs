//! Errors of the image client.

use berth_wire::BodyError;
use uuid::Uuid;

use crate::{Disposition, DownloadError, RequestLine, ServiceCallError, ServiceRefusal};

/// A call of the image service that was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    #[error(transparent)]
    Call(#[from] ServiceCallError),
    #[error("{0}; check the auth options of [glance]")]
    Refused(Box<ServiceRefusal>),
    /// The answer is not an image.
    #[error("the answer to {request} is not an image: {reason}")]
    Malformed {
        request: Box<RequestLine>,
        reason: BodyError,
    },
    /// The data could not be downloaded.
    #[error("the data of image {image} cannot be downloaded from the image service: {reason}")]
    File { image: Uuid, reason: DownloadError },
}

impl ImageError {
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Call(error) => error.disposition(),
            Self::Refused(refusal) if refusal.status.is_server_error() => Disposition::Retry,
            Self::File { reason, .. } if reason.is_passing() => Disposition::Retry,
            Self::Malformed { .. } => Disposition::Retry,
            Self::Refused(_) | Self::File { .. } => Disposition::Fatal,
        }
    }
}
