//! Access rules, with Glance's names.

use berth_http::policy::{Policy, PolicyRule};

pub(crate) const GET_IMAGES: &str = "get_images";
pub(crate) const GET_IMAGE: &str = "get_image";
/// An image's data are read.
pub(crate) const DOWNLOAD_IMAGE: &str = "download_image";
/// List the members of an image.
pub(crate) const GET_MEMBERS: &str = "get_members";

/// Glance's default rules for the read-only API.
#[must_use]
pub fn default_policy() -> Policy {
    let admin = || PolicyRule::named("context_is_admin");
    let reader = || PolicyRule::role("reader").or(admin());
    Policy::new([
        ("context_is_admin", PolicyRule::role("admin")),
        (GET_IMAGES, reader()),
        (GET_IMAGE, reader()),
        (DOWNLOAD_IMAGE, PolicyRule::role("member").or(admin())),
        (GET_MEMBERS, reader()),
    ])
}
