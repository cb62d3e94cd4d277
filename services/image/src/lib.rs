//! Glance's v2 API, to be read, over a list of images that an operator keeps in a file.
//!
//! | room | noun |
//! |---|---|
//! | `image` | [`Image`]: an image as the list has it |
//! | `list` | [`ImageList`]: the file, read and checked, with what the data of its images come to |
//! | `listing` | which images are asked for, in which order, and a page of them; pure |
//! | `data` | the bytes of an image as a body, whole or a range of them |
//! | `router`, `policies`, `handlers`, `shown` | the API |
//!
//! [`router()`] makes the routes. Images are changed in their file and nowhere else: the API reads them. The compute API reads the
//! same list without asking here.
//!
//! Callers: `cli` composes it.

mod data;
mod handlers;
mod image;
mod list;
mod listing;
mod policies;
mod router;
mod shown;

pub use berth_http::serve_tcp;
pub use image::{Checksum, Data, DiskFormat, HashAlgorithm, Image, Place};
pub use list::{ImageList, ImageListError};
pub use policies::default_policy;
pub use router::{Options, router};
