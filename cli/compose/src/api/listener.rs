//! The address of the front listener, the Identity service behind it, and the routes to the other services.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::routing::get;
use axum::{Json, Router};
use berth_config::{AuthStrategy, Config, LoadedConfig};
use berth_http::auth::{ProjectLookup, Validation};
use berth_http::{
    Prefix, TokenRequest, ValidateToken, audited, found_at, mount, without_internal_routes,
};
use berth_identity::EndpointInterface::Internal;
use berth_identity::{
    Identity, IdentityApiOptions, IdentityOptions, UnifiedLimits, UsersFile, router,
};
use berth_output::{ErrorCode, Failure};
use berth_store::SqlStore;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::clouds::{self, CloudLogin};
use super::first_user::FirstUser;
use crate::audit;
use crate::database;
use crate::identity_service::catalog;
use crate::identity_service::users_failure;
use crate::images::ServerImages;
use crate::listener::{API, INTERNAL_API, ServiceListener};
use crate::state_file;
use crate::state_files::CLOUDS;

/// The services: type, path, and the path in the catalog. The image service is served unless an external one is
/// configured.
const SERVICES: [(&str, &str); 5] = [
    ("identity", "/v3"),
    ("compute", "/v2.1"),
    ("placement", ""),
    ("accelerator", "/v2"),
    (IMAGE, ""),
];

const IMAGE: &str = "image";

/// The listener, open but not yet served.
pub struct OpenApi {
    listener: ServiceListener,
    /// The listener for agents and services, if it is configured.
    internal: Option<ServiceListener>,
    identity: Identity,
    store: SqlStore,
    /// The URL for callers and in links, without a slash at its end.
    pub base: String,
    /// The URL for agents and services, if they have a listener of their own.
    pub internal_base: Option<String>,
    /// The `clouds.yaml` that was written for it.
    pub clouds: PathBuf,
}

/// The routers that are mounted next to the Identity service. Each validates this listener's tokens.
pub struct MountedServices {
    pub placement: Router,
    pub accelerator: Router,
    pub compute: Router,
    /// The quotas of the compute API, for the Identity service.
    pub unified_limits: Arc<dyn UnifiedLimits>,
    /// The image service, if images come from a list.
    pub image: Option<Router>,
}

/// The open addresses of the listener. They are opened before any state is written. A second program with the same address therefore
/// leaves no state folder.
pub struct ApiAddresses {
    listener: ServiceListener,
    internal: Option<ServiceListener>,
    base: String,
}

impl ApiAddresses {
    /// Opens the addresses.
    ///
    /// Errors: Another process uses one of them, or the URL for callers is unknown.
    pub async fn open(address: SocketAddr, config: &Config) -> Result<Self, Failure> {
        // All callers need a token of the Identity service.
        let listener = API
            .listen_on(config, address, AuthStrategy::Keystone)
            .await?;
        let base = base(config, listener.address)?;
        let internal = match config.api.internal_listen.address() {
            None => None,
            Some(address) => Some(
                INTERNAL_API
                    .listen_on(config, address, AuthStrategy::Keystone)
                    .await?,
            ),
        };
        Ok(Self {
            listener,
            internal,
            base,
        })
    }
}

impl OpenApi {
    /// Opens users and database, and writes `clouds.yaml`.
    ///
    /// Errors: Another process uses one of them, or a file cannot be used.
    pub async fn open(
        addresses: ApiAddresses,
        loaded: &LoadedConfig,
        images: &ServerImages,
    ) -> Result<Self, Failure> {
        let config = &loaded.config;
        let ApiAddresses {
            listener,
            internal,
            base,
        } = addresses;
        let internal_base = internal.as_ref().map(ServiceListener::url);
        let clouds = config.state_path.join(CLOUDS);
        let people = people(loaded, &clouds).await?;
        let users = UsersFile::open(&people.users_file).map_err(|error| users_failure(&error))?;
        let store =
            database::open_identity(&config.identity_database(), &config.state_path).await?;
        let services = SERVICES
            .iter()
            .filter(|(service, _)| *service != IMAGE || images.list().is_some());
        // Agents of other hosts report their host states to the conductor's URL.
        let conductor = ("conductor", "compute", "");
        let services = services.map(|(service, path)| (*service, *service, *path));
        let services: Vec<_> = services.chain([conductor]).collect();
        let bases = [
            (Some(base.as_str()), None),
            (internal_base.as_deref(), Some(Internal)),
        ];
        let here = bases.into_iter().flat_map(|(base, interface)| {
            let here = services.iter().filter_map(move |(service, name, path)| {
                Some((*service, interface, format!("{}/{name}{path}", base?)))
            });
            here.collect::<Vec<_>>()
        });
        let here: Vec<_> = here.collect();
        let own = &config.identity_service;
        let options = IdentityOptions {
            token_expiration: own.token_expiration,
            max_tokens_per_user: own.max_tokens_per_user,
            catalog: catalog(config, &here),
            ..IdentityOptions::default()
        };
        let cafile = config.api.cafile.as_deref();
        let text = clouds::text(&base, &own.region, cafile, &people.login);
        state_file::write(&clouds, &text)?;
        Ok(Self {
            listener,
            internal,
            identity: Identity::new(store.clone(), users, options),
            store,
            base,
            internal_base,
            clouds,
        })
    }

    /// Validates the tokens of this listener.
    pub fn tokens(&self) -> Arc<dyn ValidateToken> {
        Arc::new(OwnTokens {
            identity: self.identity.clone(),
            url: format!("{}/identity/v3", self.base),
        })
    }

    /// Serves everything until `stop`. Returns the database, which must be closed last. With a listener for agents and
    /// services, the other one has no internal routes.
    pub fn serve(
        self,
        config: &Config,
        behind: MountedServices,
        tasks: &mut JoinSet<()>,
        stop: &CancellationToken,
    ) -> Result<SqlStore, Failure> {
        let base = self.base;
        let options = IdentityApiOptions {
            public_endpoint: Some(format!("{base}/identity")),
            cors: config.cors.clone(),
            unified_limits: Some(behind.unified_limits),
            ..IdentityApiOptions::default()
        };
        let identity = router(self.identity, options);
        let services = [
            ("identity", Some(identity)),
            ("compute", Some(behind.compute)),
            ("placement", Some(behind.placement)),
            ("accelerator", Some(behind.accelerator)),
            (IMAGE, behind.image),
        ];
        let services = services
            .into_iter()
            .filter_map(|(service, router)| Some((service, router?)));
        let mut several = Router::new();
        let mut names = Vec::new();
        for (service, router) in services {
            names.push(service);
            several = mount(several, &path_of(service)?, router);
        }
        let names: Arc<[&str]> = names.into();
        let records = audit::open(config)?;
        let end = || stop.clone().cancelled_owned();
        let mut public_routes = with_index(several.clone(), &names, &base);
        if let Some((listener, url)) = self.internal.zip(self.internal_base) {
            let routes = with_index(several, &names, &url);
            tasks.spawn(listener.serve(audited(routes, &records), end()));
            public_routes = without_internal_routes(public_routes);
        }
        let public_routes = audited(public_routes, &records);
        tasks.spawn(self.listener.serve(public_routes, end()));
        Ok(self.store)
    }
}

/// The routes of a listener with this URL: the services, the list of them, and an answer for all other paths.
fn with_index(services: Router, names: &Arc<[&'static str]>, base: &str) -> Router {
    let (listed, known, url) = (Arc::clone(names), Arc::clone(names), base.to_owned());
    let index = move || async move { index(&listed, &url) };
    found_at(services, base)
        .route("/", get(index))
        .fallback(move || async move { nothing(&known) })
}

fn path_of(service: &str) -> Result<Prefix, Failure> {
    let path = format!("/{service}");
    path.parse()
        .map_err(|error| Failure::caused(ErrorCode::Bug, "a path of the listener", &error))
}

/// The users of the operator's file, if it exists; else the first user.
async fn people(loaded: &LoadedConfig, clouds: &Path) -> Result<FirstUser, Failure> {
    let file = &loaded.config.identity_service.users_file;
    let is_named = loaded.is_set("identity_service.users_file");
    // A file that cannot be checked does not count as missing.
    if is_named || !matches!(file.try_exists(), Ok(false)) {
        return Ok(FirstUser {
            users_file: file.clone(),
            login: CloudLogin::OfFile(file.display().to_string()),
        });
    }
    let (state, clouds) = (loaded.config.state_path.clone(), clouds.to_owned());
    let made = tokio::task::spawn_blocking(move || FirstUser::of(&state, &clouds)).await;
    made.map_err(|error| Failure::caused(ErrorCode::Bug, "the first user", &error))?
}

/// The URL of the listener for callers.
///
/// Errors: It listens on every address of the host, and `public_endpoint` is not set.
fn base(config: &Config, address: SocketAddr) -> Result<String, Failure> {
    match &config.api.public_endpoint {
        Some(url) => Ok(url.trim_end_matches('/').to_owned()),
        None if address.ip().is_unspecified() => {
            let what = format!(
                "{address} means every address of the host, and the service catalog needs one concrete address"
            );
            Err(Failure::new(ErrorCode::Missing, what).hint("set [api] public_endpoint"))
        }
        None => Ok(config.api_listener().url(address)),
    }
}

/// The Identity service of this process, for the other services in it.
struct OwnTokens {
    identity: Identity,
    url: String,
}

impl ValidateToken for OwnTokens {
    fn validate<'a>(&'a self, request: TokenRequest<'a>) -> Validation<'a> {
        self.identity.validate(request)
    }

    fn project_exists<'a>(&'a self, project_id: &'a str) -> ProjectLookup<'a> {
        let exists = self.identity.users().project(project_id).is_some();
        Box::pin(async move { Ok(Some(exists)) })
    }

    fn keystone(&self) -> Option<&str> {
        Some(&self.url)
    }
}

/// Lists the services, for people and for health checks.
fn index(services: &[&str], base: &str) -> Json<Value> {
    let services = services.iter();
    let services =
        services.map(|service| json!({"type": service, "href": format!("{base}/{service}")}));
    Json(json!({ "services": services.collect::<Vec<_>>() }))
}

fn nothing(services: &[&str]) -> (StatusCode, Json<Value>) {
    let paths: Vec<String> = services.iter().map(|it| format!("/{it}")).collect();
    let message = format!("The services are below {}.", paths.join(", "));
    let error = json!({"code": 404, "title": "Not Found", "message": message});
    (StatusCode::NOT_FOUND, Json(json!({ "error": error })))
}
