//! A Placement to report to: the built-in one in this process, or any by its URL. The same scenarios run on each.

use std::sync::Arc;
use std::sync::Mutex;

use berth_client::{
    AdapterOptions, Auth, Exchange, HttpService, PlacementClient, RequestObserver, Secret,
    TransportOptions,
};
use berth_placement::{Options, prepare, router};
use berth_store::SqlStore;

/// A Placement and the requests it was sent.
#[derive(Clone)]
pub struct Cloud {
    http: HttpService,
    endpoint: String,
    requests: Arc<Requests>,
}

/// The requests that were answered, as `METHOD route`.
#[derive(Debug, Default)]
pub struct Requests(Mutex<Vec<String>>);

impl RequestObserver for Requests {
    fn observed(&self, exchange: &Exchange<'_>) {
        let line = format!("{} {}", exchange.method, exchange.route);
        self.0.lock().unwrap().push(line);
    }
}

impl Cloud {
    /// The built-in Placement in this process, on an empty database in memory.
    pub async fn in_process() -> Self {
        let store = SqlStore::in_memory().await.unwrap();
        prepare(&store).await.unwrap();
        let router = router(store, Options::default());
        let http = HttpService::in_process::<_, axum::body::Body, _>(router, 64 << 20);
        Self::through(http, "http://placement")
    }

    /// A Placement at a URL that takes the token `admin`.
    #[must_use]
    pub fn at(url: &str) -> Self {
        let http = HttpService::network(&TransportOptions::default()).unwrap();
        Self::through(http, url)
    }

    /// A Placement behind any HTTP service, a faulty one for instance.
    #[must_use]
    pub fn through(http: HttpService, endpoint: &str) -> Self {
        Self {
            http,
            endpoint: endpoint.to_owned(),
            requests: Arc::default(),
        }
    }

    /// The same Placement behind a decorated way to it.
    #[must_use]
    pub fn decorated(&self, decorate: impl FnOnce(HttpService) -> HttpService) -> Self {
        Self::through(decorate(self.http.clone()), &self.endpoint)
    }

    /// Typed calls of it.
    #[must_use]
    pub fn placement(&self) -> PlacementClient {
        let auth = Auth::admin_token(&self.endpoint, &Secret::from("admin".to_owned())).unwrap();
        PlacementClient::new(self.http.clone(), auth, &AdapterOptions::default())
            .with_observer(self.requests.clone())
    }

    /// The requests since the last call of this.
    #[must_use]
    pub fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.0.lock().unwrap())
    }
}
