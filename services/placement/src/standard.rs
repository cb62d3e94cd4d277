//! The standard names of os-traits and os-resource-classes.

const TRAITS: &str = include_str!("standard/traits.txt");
const RESOURCE_CLASSES: &str = include_str!("standard/resource_classes.txt");

/// The prefix of custom names.
pub(crate) const CUSTOM_PREFIX: &str = "CUSTOM_";

/// The first id of a custom resource class; standard ones are below.
pub(crate) const FIRST_CUSTOM_CLASS_ID: i64 = 10_000;

/// The standard traits (os-traits 3.9.0).
pub(crate) fn traits() -> impl Iterator<Item = &'static str> {
    TRAITS.lines()
}

/// The standard resource classes (os-resource-classes 1.1.0) with their ids.
pub(crate) fn resource_classes() -> impl Iterator<Item = (i64, &'static str)> {
    (0..).zip(RESOURCE_CLASSES.lines())
}
