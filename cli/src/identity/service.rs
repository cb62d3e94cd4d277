//! The built-in Identity service, put together as `[identity_service]` says.

use std::io::Write;
use std::net::SocketAddr;

use berth_identity::{
    Catalog, CatalogService, Endpoint, Identity, IdentityOptions, Interface, Options, UsersFile,
    router, serve_tcp,
};

use super::users;
use crate::config::{AuthStrategy, Config, Secret, catalog_entry};
use crate::database;
use crate::failure::{ErrorCode, Failure};
use crate::listen::IDENTITY;
use crate::signals;

pub(super) async fn serve(
    url: Option<&str>,
    config: &Config,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let end = signals::end();
    let own = &config.identity_service;
    let users = UsersFile::open(&own.users_file).map_err(|error| users::failure(&error))?;
    let url = url.map_or_else(
        || config.identity_database(),
        |url| Secret::from(url.to_owned()),
    );
    let store = database::open_identity(&url, &config.state_path).await?;
    // Nobody is believed without a token of this service.
    let listener = IDENTITY
        .listen_on(own.listen, AuthStrategy::Keystone)
        .await?;
    let address = listener.local_addr().unwrap_or(own.listen);
    let base = base(config, address)?;
    let options = IdentityOptions {
        token_expiration: own.token_expiration,
        catalog: catalog(config, &base),
        ..IdentityOptions::default()
    };
    let identity = Identity::new(store.clone(), users, options);
    let routes = Options {
        public_endpoint: Some(base.clone()),
        path_prefix: own.path_prefix.clone(),
        cors: config.cors.clone().into(),
        ..Options::default()
    };
    writeln!(out, "Identity at {base}/v3")?;
    out.flush()?;
    serve_tcp(listener, router(identity, routes), end).await;
    store.close().await;
    Ok(())
}

/// Where callers find the service, without `/v3`.
///
/// # Errors
/// It listens on every address of the host, and nothing says which of them callers are to ask.
fn base(config: &Config, address: SocketAddr) -> Result<String, Failure> {
    let own = &config.identity_service;
    match &own.public_endpoint {
        Some(url) => {
            let url = url.trim_end_matches('/');
            Ok(url.strip_suffix("/v3").unwrap_or(url).to_owned())
        }
        None if address.ip().is_unspecified() => {
            let what = format!(
                "{address} is every address of the host: the catalog cannot say which callers are to ask"
            );
            Err(Failure::new(ErrorCode::Missing, what)
                .mend("set [identity_service] public_endpoint"))
        }
        None => Ok(format!("http://{address}{}", own.path_prefix)),
    }
}

/// The Identity service itself, unless an entry says where it is, and the services of `catalog` in their order.
fn catalog(config: &Config, base: &str) -> Catalog {
    let own = &config.identity_service;
    let itself = format!("identity={base}/v3");
    let is_listed = own
        .catalog
        .iter()
        .any(|text| catalog_entry(text).is_some_and(|(service, ..)| service == "identity"));
    let first = (!is_listed).then_some(itself.as_str());
    let mut services: Vec<CatalogService> = Vec::new();
    let texts = first
        .into_iter()
        .chain(own.catalog.iter().map(String::as_str));
    for (service, interface, url) in texts.filter_map(catalog_entry) {
        let interfaces = interface.map_or(Interface::ALL.to_vec(), |one| vec![one]);
        let endpoints = interfaces.into_iter().map(|interface| Endpoint {
            region: own.region.clone(),
            interface,
            url: url.to_owned(),
        });
        match services.iter_mut().find(|it| it.service_type == service) {
            // A later entry says it anew for the callers that it is for.
            Some(known) => {
                for endpoint in endpoints {
                    known
                        .endpoints
                        .retain(|it| it.interface != endpoint.interface);
                    known.endpoints.push(endpoint);
                }
            }
            None => services.push(CatalogService {
                service_type: service.to_owned(),
                name: service.to_owned(),
                endpoints: endpoints.collect(),
            }),
        }
    }
    Catalog::new(services)
}
