//! Splits an image's properties for the host's agent. Pure.
//!
//! The agent reads the properties of [`ImageBody::of_machine`]. Properties that control the placement of the guest
//! within the host are passed as the corresponding extra specs of the flavor, so that the agent places the guest as
//! the scheduler did. All other properties are for the scheduler only.

use berth_model::with_image_placement;
use berth_wire::guest::{FlavorBody, ImageBody};

/// Returns the image for the agent, and moves placement properties into the flavor.
pub(super) fn for_agent(flavor: &mut FlavorBody, image: ImageBody) -> ImageBody {
    flavor.extra_specs = with_image_placement(&flavor.extra_specs, &image.properties);
    image.of_machine()
}
