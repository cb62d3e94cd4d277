//! The processors of a host.

use super::Capability;

/// `cpu_info` as text and parsed.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuInfo {
    text: String,
    value: Option<Capability>,
}

impl CpuInfo {
    /// Parses the text once. Invalid JSON is kept as text without fields.
    #[must_use]
    pub fn new(text: String) -> Self {
        let value = serde_json::from_str(&text).ok();
        Self { text, value }
    }

    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The parsed value; `None` for invalid JSON.
    #[must_use]
    pub fn value(&self) -> Option<&Capability> {
        self.value.as_ref()
    }
}
