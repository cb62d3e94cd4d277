//! Errors of the image client.

use std::fmt;

use berth_wire::BodyError;
use http::StatusCode;
use uuid::Uuid;

use crate::{Disposition, DownloadError, RequestLine, ServiceCallError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageRefusal {
    pub request: RequestLine,
    pub status: StatusCode,
    /// The service's message, on one line.
    pub message: String,
    /// The answer's request id; `-` if it has none.
    pub request_id: String,
}

impl fmt::Display for ImageRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (request, id) = (&self.request, &self.request_id);
        let status = self.status.as_u16();
        write!(
            f,
            "the image service answers {request} with {status} ({id})"
        )?;
        match self.message.as_str() {
            "" => Ok(()),
            message => write!(f, ": {message}"),
        }
    }
}

/// A call of the image service that was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    #[error(transparent)]
    Call(#[from] ServiceCallError),
    #[error("{0}; check the auth options of [glance]")]
    Refused(Box<ImageRefusal>),
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

impl From<ImageRefusal> for ImageError {
    fn from(refusal: ImageRefusal) -> Self {
        Self::Refused(Box::new(refusal))
    }
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
