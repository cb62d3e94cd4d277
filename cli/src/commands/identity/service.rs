//! `berth identity serve`: runs the built-in Identity service as `[identity_service]` configures it.

use std::io::Write;
use std::net::SocketAddr;

use berth_compose::identity_service::{catalog, users_failure};
use berth_compose::listener::IDENTITY;
use berth_compose::{audit, database, signals};
use berth_config::{AuthStrategy, Config, Secret};
use berth_http::audited;
use berth_identity::{Identity, IdentityApiOptions, IdentityOptions, UsersFile, router};
use berth_output::{ErrorCode, Failure};

pub(super) async fn serve(
    url: Option<&str>,
    config: &Config,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let end = signals::end();
    let own = &config.identity_service;
    let audit = audit::open(config)?;
    let users = UsersFile::open(&own.users_file).map_err(|error| users_failure(&error))?;
    let url = url.map_or_else(
        || config.identity_database(),
        |url| Secret::from(url.to_owned()),
    );
    let store = database::open_identity(&url, &config.state_path).await?;
    // All callers need a token of this service.
    let listener = IDENTITY
        .alone(config, own.listen.address(), AuthStrategy::Keystone)
        .await?;
    let base = base(config, listener.address)?;
    let options = IdentityOptions {
        token_expiration: own.token_expiration,
        max_tokens_per_user: own.max_tokens_per_user,
        catalog: catalog(config, &[("identity", None, format!("{base}/v3"))]),
        ..IdentityOptions::default()
    };
    let identity = Identity::new(store.clone(), users, options);
    let routes = IdentityApiOptions {
        public_endpoint: Some(base.clone()),
        path_prefix: own.path_prefix.clone(),
        cors: config.cors.clone(),
        ..IdentityApiOptions::default()
    };
    writeln!(out, "Identity at {base}/v3")?;
    out.flush()?;
    let api = audited(router(identity, routes), &audit);
    listener.serve(api, end).await;
    store.close().await;
    Ok(())
}

/// The service's base URL, without `/v3`.
///
/// Errors: it listens on all addresses of the host, and no public endpoint is set.
fn base(config: &Config, address: SocketAddr) -> Result<String, Failure> {
    let own = &config.identity_service;
    match &own.public_endpoint {
        Some(url) => {
            let url = url.trim_end_matches('/');
            Ok(url.strip_suffix("/v3").unwrap_or(url).to_owned())
        }
        None if address.ip().is_unspecified() => {
            let what = format!(
                "{address} means every address of the host, and the service catalog needs one concrete address"
            );
            Err(Failure::new(ErrorCode::Missing, what)
                .hint("set [identity_service] public_endpoint"))
        }
        None => {
            let root = config.identity_listener().url(address);
            Ok(format!("{root}{}", own.path_prefix))
        }
    }
}
