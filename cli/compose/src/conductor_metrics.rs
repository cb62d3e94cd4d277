//! The conductor's metrics on the agent's metrics page: `berth up` runs both in one process, and Prometheus reads one page.

use std::pin::Pin;

use berth_agent::metrics::EmbeddedMetrics;
use berth_conductor::Conductor;

pub(super) struct ConductorMetrics(pub(super) Conductor);

impl EmbeddedMetrics for ConductorMetrics {
    fn render(&self) -> Pin<Box<dyn Future<Output = String> + Send + '_>> {
        Box::pin(self.0.metrics())
    }
}
