//! The page that a reader gets: the agent's metrics, and those of what runs beside the agent in its process.

use std::pin::Pin;
use std::sync::Arc;

use berth_agent_api::RenderMetrics;
use berth_agent_api::health::Message;

use crate::metrics::Metrics;

/// Metrics of what runs beside the agent in its process.
pub trait MetricsBeside: Send + Sync {
    /// In Prometheus' text format, by names that no row of [`METRICS`](crate::metrics::rows::METRICS) has. It answers within seconds, whatever is
    /// away.
    fn render(&self) -> Pin<Box<dyn Future<Output = String> + Send + '_>>;
}

/// What `GET /metrics` answers from.
#[derive(Clone)]
pub(crate) struct MetricsPage {
    pub(crate) own: Metrics,
    /// None where the agent is alone.
    pub(crate) beside: Option<Arc<dyn MetricsBeside>>,
}

impl RenderMetrics for MetricsPage {
    fn page<'a>(
        &'a self,
        health: &'a [Message],
    ) -> Pin<Box<dyn Future<Output = String> + Send + 'a>> {
        self.own.health(health);
        Box::pin(self.render())
    }
}

impl MetricsPage {
    async fn render(&self) -> String {
        // First, so that what the agent counts of it is on the page.
        let beside = match &self.beside {
            Some(beside) => beside.render().await,
            None => String::new(),
        };
        self.own.render() + &beside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Conductor;

    impl MetricsBeside for Conductor {
        fn render(&self) -> Pin<Box<dyn Future<Output = String> + Send + '_>> {
            Box::pin(async { "berth_of_a_conductor 1\n".to_owned() })
        }
    }

    #[tokio::test]
    async fn what_runs_beside_the_agent_is_on_its_page() {
        let mut page = MetricsPage {
            own: Metrics::default(),
            beside: None,
        };
        let alone = page.render().await;
        assert!(alone.contains("berth_plan_state"), "{alone}");
        assert!(!alone.contains("berth_of_a_conductor"), "{alone}");
        page.beside = Some(Arc::new(Conductor));
        let text = page.render().await;
        assert!(text.contains("berth_plan_state"), "{text}");
        assert!(text.ends_with("\nberth_of_a_conductor 1\n"), "{text}");
    }
}
