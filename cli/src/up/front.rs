//! The one listener of `berth up` and `berth controller`, with what is served behind it.

use berth_http::Prefix;
use berth_placement::{Options as PlacementOptions, router};
use berth_store::SqlStore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::services::BehindApi;
use crate::api::{Behind, OpenApi};
use crate::config::Config;
use crate::failure::Failure;

/// The listener, and how Placement is behind it.
pub(crate) struct Front {
    pub(crate) open: OpenApi,
    placement: PlacementOptions,
}

/// The one listener while it is served.
pub(crate) struct ServedFront {
    tasks: JoinSet<()>,
    store: SqlStore,
}

impl Front {
    /// Of a listener that is open. Placement is below a path of it, for callers with its tokens.
    pub(crate) fn new(open: OpenApi, options: &PlacementOptions) -> Self {
        let placement = PlacementOptions {
            tokens: open.tokens(),
            path_prefix: Prefix::default(),
            ..options.clone()
        };
        Self { open, placement }
    }

    /// Serves it until `stop`.
    ///
    /// # Errors
    /// As [`OpenApi::serve`].
    pub(crate) fn serve(
        self,
        config: &Config,
        placement: &SqlStore,
        behind: BehindApi,
        stop: &CancellationToken,
    ) -> Result<ServedFront, Failure> {
        let behind = Behind {
            placement: router(placement.clone(), self.placement),
            accelerator: behind.accelerator,
            compute: behind.compute,
        };
        let mut tasks = JoinSet::new();
        let store = self.open.serve(config, behind, &mut tasks, stop)?;
        Ok(ServedFront { tasks, store })
    }
}

impl ServedFront {
    /// Waits for its end, and closes the database of tokens.
    pub(crate) async fn ended(mut self) {
        // A panic in it has been told already.
        while self.tasks.join_next().await.is_some() {}
        self.store.close().await;
    }
}
