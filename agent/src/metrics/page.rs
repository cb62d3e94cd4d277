//! The metrics page: the agent's metrics, and those of other services in the same process.

use std::pin::Pin;
use std::sync::Arc;

use berth_agent_api::RenderMetrics;
use berth_agent_api::health::HealthMessage;

use crate::metrics::Metrics;

/// Metrics of other services in the agent's process.
pub trait EmbeddedMetrics: Send + Sync {
    /// The metrics in Prometheus' text format. Their names differ from those in
    /// [`METRICS`](crate::metrics::rows::METRICS). Returns within seconds, even if other services do not answer.
    fn render(&self) -> Pin<Box<dyn Future<Output = String> + Send + '_>>;
}

/// Source of `GET /metrics`.
#[derive(Clone)]
pub(crate) struct MetricsPage {
    pub(crate) own: Metrics,
    /// `None` if no other service runs in this process.
    pub(crate) embedded: Option<Arc<dyn EmbeddedMetrics>>,
}

impl RenderMetrics for MetricsPage {
    fn page<'a>(
        &'a self,
        health: &'a [HealthMessage],
    ) -> Pin<Box<dyn Future<Output = String> + Send + 'a>> {
        self.own.health(health);
        Box::pin(self.render())
    }
}

impl MetricsPage {
    async fn render(&self) -> String {
        // Rendered first, so that the page includes what the agent counts during it.
        let embedded = match &self.embedded {
            Some(embedded) => embedded.render().await,
            None => String::new(),
        };
        self.own.render() + &embedded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Conductor;

    impl EmbeddedMetrics for Conductor {
        fn render(&self) -> Pin<Box<dyn Future<Output = String> + Send + '_>> {
            Box::pin(async { "berth_of_a_conductor 1\n".to_owned() })
        }
    }

    #[tokio::test]
    async fn what_runs_in_the_agents_process_is_on_its_page() {
        let mut page = MetricsPage {
            own: Metrics::default(),
            embedded: None,
        };
        let alone = page.render().await;
        assert!(alone.contains("berth_plan_state"), "{alone}");
        assert!(!alone.contains("berth_of_a_conductor"), "{alone}");
        page.embedded = Some(Arc::new(Conductor));
        let text = page.render().await;
        assert!(text.contains("berth_plan_state"), "{text}");
        assert!(text.ends_with("\nberth_of_a_conductor 1\n"), "{text}");
    }
}
