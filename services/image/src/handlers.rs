//! What is done with a request, noun by noun.

pub(crate) mod image_data;
pub(crate) mod images;
pub(crate) mod members;
pub(crate) mod schemas;
pub(crate) mod versions;
