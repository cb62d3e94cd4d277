//! The address of the front listener, the Identity service behind it, and the routes to the other services.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::routing::get;
use axum::{Json, Router};
use berth_config::{AuthStrategy, Config, LoadedConfig};
use berth_http::auth::Validation;
use berth_http::{Prefix, TokenRequest, ValidateToken, found_at, mount};
use berth_identity::{Identity, IdentityApiOptions, IdentityOptions, UsersFile, router, serve_tcp};
use berth_output::{ErrorCode, Failure};
use berth_store::SqlStore;
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::clouds::{self, CloudLogin};
use super::first_user::FirstUser;
use crate::database;
use crate::identity_service::catalog;
use crate::identity_service::users_failure;
use crate::images::ServerImages;
use crate::listener::API;
use crate::state_file;

/// The services: below which path each is, and what of that stands in the catalog. The image service is there unless another one
/// is asked for images.
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
    listener: TcpListener,
    identity: Identity,
    store: SqlStore,
    /// Links name it where an operator said where callers find the listener.
    public_endpoint: Option<String>,
    /// Where callers find it, without a slash at its end.
    pub base: String,
    /// The `clouds.yaml` that was written for it.
    pub clouds: PathBuf,
}

/// What is served behind it beside the Identity service, each with this listener's tokens.
pub struct MountedServices {
    pub placement: Router,
    pub accelerator: Router,
    pub compute: Router,
    /// The image service, where images are of a list.
    pub image: Option<Router>,
}

impl OpenApi {
    /// Opens address, users and database, and writes `clouds.yaml`.
    ///
    /// Errors: Another process has one of them, a file cannot be used, or nothing says where callers find the listener.
    pub async fn open(
        address: SocketAddr,
        loaded: &LoadedConfig,
        images: &ServerImages,
    ) -> Result<Self, Failure> {
        let config = &loaded.config;
        // Nobody is believed without a token of the Identity service.
        let listener = API.listen_on(address, AuthStrategy::Keystone).await?;
        let address = listener.local_addr().unwrap_or(address);
        let base = base(config, address)?;
        let clouds = config.state_path.join("clouds.yaml");
        let people = people(loaded, &clouds).await?;
        let users = UsersFile::open(&people.users_file).map_err(|error| users_failure(&error))?;
        let store =
            database::open_identity(&config.identity_database(), &config.state_path).await?;
        let services = SERVICES
            .iter()
            .filter(|(service, _)| *service != IMAGE || images.list().is_some());
        let here = services.map(|(service, path)| (*service, format!("{base}/{service}{path}")));
        // Where agents of other hosts tell the scheduler their state.
        let conductor = ("conductor", format!("{base}/compute"));
        let here: Vec<_> = here.chain([conductor]).collect();
        let own = &config.identity_service;
        let options = IdentityOptions {
            token_expiration: own.token_expiration,
            catalog: catalog(config, &here),
            ..IdentityOptions::default()
        };
        state_file::write(&clouds, &clouds::text(&base, &own.region, &people.login))?;
        Ok(Self {
            listener,
            identity: Identity::new(store.clone(), users, options),
            store,
            public_endpoint: config.api.public_endpoint.as_ref().map(|_| base.clone()),
            base,
            clouds,
        })
    }

    /// Who believes tokens behind it.
    pub fn tokens(&self) -> Arc<dyn ValidateToken> {
        Arc::new(OwnTokens {
            identity: self.identity.clone(),
            url: format!("{}/identity/v3", self.base),
        })
    }

    /// Serves all of it until `stop`; the database, to be closed last.
    pub fn serve(
        self,
        config: &Config,
        behind: MountedServices,
        tasks: &mut JoinSet<()>,
        stop: &CancellationToken,
    ) -> Result<SqlStore, Failure> {
        let public = self.public_endpoint;
        let options = IdentityApiOptions {
            public_endpoint: public.as_ref().map(|base| format!("{base}/identity")),
            cors: config.cors.clone(),
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
        let index_of = Arc::clone(&names);
        let base = public.clone();
        let index = move |headers: HeaderMap| async move {
            let base = base.unwrap_or_else(|| base_of(&headers));
            index(&index_of, &base)
        };
        let mut several = several
            .route("/", get(index))
            .fallback(move || async move { nothing(&names) });
        if let Some(url) = &public {
            several = found_at(several, url);
        }
        let end = stop.clone().cancelled_owned();
        tasks.spawn(serve_tcp(self.listener, several, end));
        Ok(self.store)
    }
}

fn path_of(service: &str) -> Result<Prefix, Failure> {
    let path = format!("/{service}");
    path.parse()
        .map_err(|error| Failure::caused(ErrorCode::Bug, "a path of the listener", &error))
}

/// The users of an operator's file, where there is one; else the first user.
async fn people(loaded: &LoadedConfig, clouds: &Path) -> Result<FirstUser, Failure> {
    let file = &loaded.config.identity_service.users_file;
    let is_named = loaded.is_set("identity_service.users_file");
    // One that cannot be looked at is not taken for one that is not there.
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

/// Where callers find the listener.
///
/// Errors: It listens on every address of the host, and nothing says which of them callers are to ask.
fn base(config: &Config, address: SocketAddr) -> Result<String, Failure> {
    match &config.api.public_endpoint {
        Some(url) => Ok(url.trim_end_matches('/').to_owned()),
        None if address.ip().is_unspecified() => {
            let what = format!(
                "{address} is every address of the host: the catalog cannot say which callers are to ask"
            );
            Err(Failure::new(ErrorCode::Missing, what).mend("set [api] public_endpoint"))
        }
        None => Ok(format!("http://{address}")),
    }
}

/// The Identity service of this process, as the services beside it ask it.
struct OwnTokens {
    identity: Identity,
    url: String,
}

impl ValidateToken for OwnTokens {
    fn validate<'a>(&'a self, request: TokenRequest<'a>) -> Validation<'a> {
        self.identity.validate(request)
    }

    fn keystone(&self) -> Option<&str> {
        Some(&self.url)
    }
}

/// Which services there are, for people and for whoever looks whether anybody is there.
fn index(services: &[&str], base: &str) -> Json<Value> {
    let services = services.iter();
    let services =
        services.map(|service| json!({"type": service, "href": format!("{base}/{service}")}));
    Json(json!({ "services": services.collect::<Vec<_>>() }))
}

/// Where a request came to, as its headers say.
fn base_of(headers: &HeaderMap) -> String {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let scheme = text("x-forwarded-proto").unwrap_or("http");
    text("host").map_or_else(String::new, |host| format!("{scheme}://{host}"))
}

fn nothing(services: &[&str]) -> (StatusCode, Json<Value>) {
    let paths: Vec<String> = services.iter().map(|it| format!("/{it}")).collect();
    let message = format!("The services are below {}.", paths.join(", "));
    let error = json!({"code": 404, "title": "Not Found", "message": message});
    (StatusCode::NOT_FOUND, Json(json!({ "error": error })))
}
