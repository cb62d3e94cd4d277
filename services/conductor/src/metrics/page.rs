//! Writes metrics in Prometheus' text format.

use std::fmt::Write as _;
use std::time::Duration;

use super::catalog::METRICS;

/// The text of a metrics page.
#[derive(Debug, Default)]
pub(crate) struct BootMetricsPage(String);

impl BootMetricsPage {
    /// Writes the HELP and TYPE lines of a metric.
    pub(crate) fn header(&mut self, name: &str) {
        if let Some(row) = METRICS.iter().find(|row| row.name == name) {
            let (help, kind) = (row.help.replace('\\', "\\\\"), row.kind.as_str());
            self.line(format_args!("# HELP {name} {help}"));
            self.line(format_args!("# TYPE {name} {kind}"));
        }
    }

    pub(crate) fn number(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        let labels = label_set(labels);
        self.line(format_args!("{name}{labels} {value}"));
    }

    /// Writes one sample in seconds.
    pub(crate) fn seconds(&mut self, name: &str, labels: &[(&str, &str)], value: Duration) {
        let labels = label_set(labels);
        self.line(format_args!("{name}{labels} {}", value.as_secs_f64()));
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "{line}");
    }
}

fn label_set(labels: &[(&str, &str)]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let labels = labels.iter().map(|(name, value)| {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"");
        format!("{name}=\"{}\"", value.replace('\n', "\\n"))
    });
    format!("{{{}}}", labels.collect::<Vec<_>>().join(","))
}
