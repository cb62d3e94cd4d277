//! The handlers of the API, one file per resource.

pub(crate) mod image_data;
pub(crate) mod images;
pub(crate) mod members;
pub(crate) mod schemas;
pub(crate) mod versions;
