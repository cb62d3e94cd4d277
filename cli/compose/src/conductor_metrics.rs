//! The conductor's metrics on the agent's page: in `berth up` both are one process, and Prometheus reads one page of it.

use std::pin::Pin;

use berth_agent::metrics::MetricsBeside;
use berth_conductor::Conductor;

pub(super) struct ConductorMetrics(pub(super) Conductor);

impl MetricsBeside for ConductorMetrics {
    fn render(&self) -> Pin<Box<dyn Future<Output = String> + Send + '_>> {
        Box::pin(self.0.metrics())
    }
}
