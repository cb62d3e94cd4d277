//! Reads a response body up to a limit.

use bytes::Bytes;
use http::Response;
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use super::TransportError;
use super::network::root_cause;

/// The default limit of a response body, in bytes: 64 MiB (1,000 allocation candidates have 1.7 MB).
pub const DEFAULT_BODY_LIMIT: usize = 64 << 20;

pub(super) async fn read_body<B>(
    answer: Response<B>,
    limit: usize,
) -> Result<Response<Bytes>, TransportError>
where
    B: Body,
    B::Error: Into<tower::BoxError>,
{
    let (parts, body) = answer.into_parts();
    // A body that announces more than the limit is not read at all.
    if usize::try_from(body.size_hint().lower()).is_ok_and(|least| least > limit) {
        return Err(TransportError::TooLarge { limit });
    }
    match Limited::new(body, limit).collect().await {
        Ok(whole) => Ok(Response::from_parts(parts, whole.to_bytes())),
        Err(error) if error.is::<LengthLimitError>() => Err(TransportError::TooLarge { limit }),
        Err(error) => Err(TransportError::Closed {
            reason: root_cause(error.as_ref()),
        }),
    }
}
