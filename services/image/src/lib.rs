//! A read-only Glance v2 API over a list of images that an operator keeps in a file.
//!
//! | module | contents |
//! |---|---|
//! | `image` | `CatalogImage`: an image of the list |
//! | `list` | [`ImageList`]: the file, parsed and checked, with the checksums of the data |
//! | `listing` | filters, order and pages of a list request; pure |
//! | `data` | image data as a response body, whole or a range |
//! | `router`, `policies`, `handlers`, `shown` | the HTTP API |
//!
//! [`router()`] makes the routes. Images change only in their file. The compute API reads the same list directly.
//! `cli` composes this crate.

mod data;
mod handlers;
mod image;
mod list;
mod listing;
mod policies;
mod router;
mod shown;

pub use berth_http::serve_tcp;
pub use image::{
    CatalogImage, ChecksumAlgorithm, Data, DataChecksum, DiskFormat, ImageDataLocation,
};
pub use list::{ImageList, ImageListError, ImageListProblem, ListedImage, ListedProperty};
pub use policies::default_policy;
pub use router::{ImageApiOptions, router};
