//! The source of a setting: `hw:NAME` in the flavor, or `hw_NAME` in the image. It is read for NUMA cells and for the
//! query to Placement.

use super::{RequestFlavor, RequestImage};

/// Both. An empty text is as none.
#[derive(Clone, Copy)]
pub struct FlavorAndImage<'a> {
    pub flavor: &'a RequestFlavor,
    pub image: Option<&'a RequestImage>,
}

impl<'a> FlavorAndImage<'a> {
    /// An extra spec, by its whole name.
    pub fn spec(self, name: &str) -> Option<&'a str> {
        let value = self.flavor.extra_specs.get(name);
        value.map(String::as_str).filter(|text| !text.is_empty())
    }

    /// An image property, by its whole name.
    pub fn property(self, name: &str) -> Option<&'a str> {
        let value = self.image.and_then(|image| image.properties.get(name));
        value.filter(|text| !text.is_empty())
    }

    /// Both values of `NAME`.
    pub fn both(self, name: &str) -> (Option<&'a str>, Option<&'a str>) {
        let property = self.property(&format!("hw_{name}"));
        (self.spec(&format!("hw:{name}")), property)
    }
}
