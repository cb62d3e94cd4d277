//! What a metric is to Prometheus: a row, from which a page of metrics has its help and the reference has its table.
//!
//! Callers: whoever has metrics (the agent, the conductor), and `cli`, which writes one table of them all.

/// What a metric is to Prometheus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Counter,
    /// Goes up and down.
    Gauge,
    Histogram,
}

impl Kind {
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
    pub kind: Kind,
    pub labels: &'static [&'static str],
    /// What it says, in one line.
    pub help: &'static str,
}
