//! [`NovaImageMeta`]: an image in the form in which a boot brings it.

use serde_json::{Map, Value};

use crate::field::{FieldValue, NovaFieldError, kind_of};

/// An image as a plain object, not as one with a version. A server that boots from a volume has an image without an ID.
#[derive(Debug, Clone, PartialEq)]
pub struct NovaImageMeta(Map<String, Value>);

impl NovaImageMeta {
    #[must_use]
    pub fn new(image: Map<String, Value>) -> Self {
        Self(image)
    }

    fn get<'a, T: FieldValue<'a>>(
        &'a self,
        field: &'static str,
    ) -> Result<Option<T>, NovaFieldError> {
        let Some(value) = self.0.get(field) else {
            return Ok(None);
        };
        FieldValue::read(value).ok_or_else(|| NovaFieldError::Type {
            object: "image".to_owned(),
            field,
            found: kind_of(value),
            expected: T::EXPECTED,
        })
    }

    pub fn id(&self) -> Result<Option<&str>, NovaFieldError> {
        self.get("id")
    }

    pub fn name(&self) -> Result<Option<&str>, NovaFieldError> {
        self.get("name")
    }

    pub fn disk_format(&self) -> Result<Option<&str>, NovaFieldError> {
        self.get("disk_format")
    }

    pub fn container_format(&self) -> Result<Option<&str>, NovaFieldError> {
        self.get("container_format")
    }

    /// In bytes.
    pub fn size(&self) -> Result<Option<i64>, NovaFieldError> {
        self.get("size")
    }

    /// In MiB.
    pub fn min_ram(&self) -> Result<Option<i64>, NovaFieldError> {
        self.get("min_ram")
    }

    /// In GiB.
    pub fn min_disk(&self) -> Result<Option<i64>, NovaFieldError> {
        self.get("min_disk")
    }

    pub fn properties(&self) -> Result<Option<&Map<String, Value>>, NovaFieldError> {
        self.get("properties")
    }

    #[must_use]
    pub fn as_map(&self) -> &Map<String, Value> {
        &self.0
    }

    #[must_use]
    pub fn into_json(self) -> Value {
        Value::Object(self.0)
    }
}
