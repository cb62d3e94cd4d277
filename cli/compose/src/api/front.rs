//! The front listener of `berth up` and `berth controller`, with the routers mounted behind it.

use std::sync::Arc;

use axum::Router;
use berth_config::Config;
use berth_http::Prefix;
use berth_image::ImageApiOptions as ImageOptions;
use berth_output::Failure;
use berth_placement::{PlacementApiOptions as PlacementOptions, router};
use berth_store::SqlStore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::listener::{MountedServices, OpenApi};
use crate::images::ServerImages;
use crate::services::MountedApis;

/// The front listener, with the options for Placement behind it.
pub struct FrontListener {
    pub open: OpenApi,
    placement: PlacementOptions,
    image: Option<Router>,
}

/// The front listener while it is served.
pub struct ServedListener {
    tasks: JoinSet<()>,
    store: SqlStore,
}

impl FrontListener {
    /// Creates it from an open listener. Placement is mounted below a path, and so is the image service if images come
    /// from a list.
    pub fn new(open: OpenApi, options: &PlacementOptions, images: &ServerImages) -> Self {
        let placement = PlacementOptions {
            tokens: open.tokens(),
            path_prefix: Prefix::default(),
            ..options.clone()
        };
        let image = images.list().map(|list| {
            let options = ImageOptions {
                tokens: open.tokens(),
                ..ImageOptions::default()
            };
            berth_image::router(Arc::clone(list), options)
        });
        Self {
            open,
            placement,
            image,
        }
    }

    /// Serves it until `stop`.
    pub fn serve(
        self,
        config: &Config,
        placement: &SqlStore,
        behind: MountedApis,
        stop: &CancellationToken,
    ) -> Result<ServedListener, Failure> {
        let behind = MountedServices {
            placement: router(placement.clone(), self.placement),
            accelerator: behind.accelerator,
            compute: behind.compute,
            unified_limits: behind.unified_limits,
            image: self.image,
        };
        let mut tasks = JoinSet::new();
        let store = self.open.serve(config, behind, &mut tasks, stop)?;
        Ok(ServedListener { tasks, store })
    }
}

impl ServedListener {
    /// Waits until the listener ends, and closes the database of tokens.
    pub async fn ended(mut self) {
        // A panic in it has been reported already.
        while self.tasks.join_next().await.is_some() {}
        self.store.close().await;
    }
}
