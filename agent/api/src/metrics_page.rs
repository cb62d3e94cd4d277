//! Interface to the agent's metrics, which another crate implements.

use std::pin::Pin;

use crate::health::HealthMessage;

/// Renders `GET /metrics`.
pub trait RenderMetrics: Send + Sync {
    /// The metrics in Prometheus' text format, including the number of these health messages.
    fn page<'a>(
        &'a self,
        health: &'a [HealthMessage],
    ) -> Pin<Box<dyn Future<Output = String> + Send + 'a>>;
}
