//! A Placement for scenarios: the built-in one in this process, or any other by its URL. The same scenarios run on
//! each.

mod keystone;
mod snapshot;

use std::sync::{Arc, Mutex, PoisonError};

use berth_client::{
    AdapterOptions, Auth, HttpExchange, HttpService, JitterRng, PlacementClient, RequestObserver,
    Secret, TransportOptions,
};
use berth_placement::{PlacementApiOptions, prepare, router};
use berth_store::SqlStore;

use crate::fault::{HarnessClock, busy};
use crate::witness::Witness;
use crate::worlds::{PlacementRows, Rows};

pub use snapshot::Snapshot;

/// A Placement and the requests it was sent.
#[derive(Clone)]
pub struct Cloud {
    http: HttpService,
    endpoint: String,
    requests: Arc<RequestLog>,
    login: CloudLogin,
    store: Option<SqlStore>,
}

#[derive(Clone)]
enum CloudLogin {
    AdminToken,
    Password(HarnessClock),
}

/// The requests that were answered, as `METHOD route`.
#[derive(Debug, Default)]
pub struct RequestLog(Mutex<Vec<String>>);

impl RequestObserver for RequestLog {
    fn observed(&self, exchange: &HttpExchange<'_>) {
        let line = format!("{} {}", exchange.method, exchange.route);
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(line);
    }
}

impl Cloud {
    /// The built-in Placement in this process, on an empty database in memory.
    ///
    /// # Panics
    /// There is no memory for it.
    pub async fn in_process() -> Self {
        let store = SqlStore::in_memory().await.expect("memory for a database");
        prepare(&store)
            .await
            .expect("an empty database takes the schema");
        Self::over(store)
    }

    /// The built-in Placement in this process, on a database as it was kept.
    pub async fn of(snapshot: Snapshot) -> Self {
        Self::over(busy(snapshot.restore()).await)
    }

    fn over(store: SqlStore) -> Self {
        let router = router(store.clone(), PlacementApiOptions::default());
        let http = HttpService::in_process::<_, axum::body::Body, _>(router, 64 << 20);
        Self {
            store: Some(store),
            ..Self::through(http, "http://placement")
        }
    }

    /// A Placement at a URL that takes the token `admin`.
    ///
    /// # Panics
    /// Never: there are no files to read.
    #[must_use]
    pub fn at(url: &str) -> Self {
        let http = HttpService::network(&TransportOptions::default())
            .expect("options without files are good");
        Self::through(http, url)
    }

    /// A Placement behind any HTTP service, a faulty one for instance.
    #[must_use]
    pub fn through(http: HttpService, endpoint: &str) -> Self {
        Self {
            http,
            endpoint: endpoint.to_owned(),
            requests: Arc::default(),
            login: CloudLogin::AdminToken,
            store: None,
        }
    }

    /// The way to it.
    #[must_use]
    pub fn http(&self) -> HttpService {
        self.http.clone()
    }

    /// The same Placement behind a decorated way to it.
    #[must_use]
    pub fn decorated(&self, decorate: impl FnOnce(HttpService) -> HttpService) -> Self {
        Self {
            http: decorate(self.http.clone()),
            requests: Arc::default(),
            ..self.clone()
        }
    }

    /// The same Placement, the built-in one, with a witness directly before it.
    ///
    /// # Panics
    /// It is not the built-in one.
    #[must_use]
    pub fn witnessed(&self, witness: &Witness) -> Self {
        let store = self.store.as_ref().expect("a built-in Placement");
        self.decorated(|http| witness.before(http, store))
    }

    /// The same Placement behind a small Keystone; its tokens are valid for one hour of this clock.
    #[must_use]
    pub fn behind_keystone(&self, clock: &HarnessClock) -> Self {
        Self {
            login: CloudLogin::Password(clock.clone()),
            ..self.decorated(|http| keystone::guard(http, clock))
        }
    }

    /// Typed calls of it, with a session of their own.
    ///
    /// # Panics
    /// Never: the options are whole.
    #[must_use]
    pub fn placement(&self) -> PlacementClient {
        let options = AdapterOptions {
            rng: Arc::new(JitterRng::seeded(1)),
            ..AdapterOptions::default()
        };
        let auth = match &self.login {
            CloudLogin::AdminToken => {
                Auth::admin_token(&self.endpoint, &Secret::from("admin".to_owned()))
            }
            CloudLogin::Password(clock) => {
                let login = keystone::login(&self.endpoint);
                Auth::from_options(&login, &self.http, clock.wall(), &options)
            }
        };
        let auth = auth.expect("the options are whole");
        PlacementClient::new(self.http.clone(), auth, &options).with_observer(self.requests.clone())
    }

    /// The requests since the last call of this.
    #[must_use]
    pub fn take_requests(&self) -> Vec<String> {
        std::mem::take(
            &mut *self
                .requests
                .0
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }

    /// The database, of the built-in one.
    #[must_use]
    pub fn store(&self) -> Option<&SqlStore> {
        self.store.as_ref()
    }

    /// What it holds, read beneath it; only of the built-in one.
    ///
    /// # Panics
    /// It is not the built-in one.
    pub async fn rows(&self) -> PlacementRows {
        let store = self.store.as_ref().expect("a built-in Placement");
        busy(Rows::BuiltIn(store).all()).await
    }
}
