//! What a host's processors are.

use super::Capability;

/// `cpu_info` as it came, and what it says.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuInfo {
    text: String,
    value: Option<Capability>,
}

impl CpuInfo {
    /// Reads it once; a text that is no JSON is kept and has no fields.
    #[must_use]
    pub fn new(text: String) -> Self {
        let value = serde_json::from_str(&text).ok();
        Self { text, value }
    }

    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What it says; none for a text that is no JSON.
    #[must_use]
    pub fn value(&self) -> Option<&Capability> {
        self.value.as_ref()
    }
}
