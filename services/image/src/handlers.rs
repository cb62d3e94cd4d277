//! The handlers of the API, one file per resource.

mod image_data;
pub(crate) mod images;
mod members;
mod schemas;
mod versions;

use berth_http::OperationSet;

use crate::router::ImageApi;

/// All operations of the API.
pub(crate) fn operations() -> OperationSet<ImageApi> {
    let resources = [
        versions::operations(),
        schemas::operations(),
        images::operations(),
        image_data::operations(),
        members::operations(),
    ];
    resources.into_iter().flatten().collect()
}
