//! Descriptions of Prometheus metrics, from which the help texts and the reference page are generated.
//!
//! Callers: the agent and the conductor, which have metrics, and `cli`, which generates the table of all metrics.

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    Counter,
    /// Goes up and down.
    Gauge,
    Histogram,
}

impl MetricKind {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricRow {
    /// Its name, with its unit.
    pub name: &'static str,
    pub kind: MetricKind,
    pub labels: &'static [&'static str],
    /// The help text, one line.
    pub help: &'static str,
}
