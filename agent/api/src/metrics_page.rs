//! The page of metrics that the admin API offers.

use std::pin::Pin;

use crate::health::Message;

/// Renders `GET /metrics`.
pub trait RenderMetrics: Send + Sync {
    /// The page in Prometheus' text format, with these messages of health counted on it.
    fn page<'a>(
        &'a self,
        health: &'a [Message],
    ) -> Pin<Box<dyn Future<Output = String> + Send + 'a>>;
}
