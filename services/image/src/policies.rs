//! Who may do what, by Glance's names.

use berth_http::policy::{Policy, Rule};

pub(crate) const GET_IMAGES: &str = "get_images";
/// An image is looked at.
pub(crate) const GET_IMAGE: &str = "get_image";
/// An image's data are read.
pub(crate) const DOWNLOAD_IMAGE: &str = "download_image";
/// With whom an image is shared is looked at.
pub(crate) const GET_MEMBERS: &str = "get_members";

/// Glance's default rules, as far as there is something here to read; each image is public.
#[must_use]
pub fn default_policy() -> Policy {
    let admin = || Rule::named("context_is_admin");
    let reader = || Rule::role("reader").or(admin());
    Policy::new([
        ("context_is_admin", Rule::role("admin")),
        (GET_IMAGES, reader()),
        (GET_IMAGE, reader()),
        (DOWNLOAD_IMAGE, Rule::role("member").or(admin())),
        (GET_MEMBERS, reader()),
    ])
}
