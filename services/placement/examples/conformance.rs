//! A Placement on an empty database, configured as one of the profiles that OpenStack's own test-suite asks for.
//!
//! ```text
//! cargo run -p berth-placement --example conformance -- 127.0.0.1:8778 secure-rbac
//! ```

use std::error::Error;

use berth_http::policy::Rule;
use berth_http::{Cors, serve_tcp};
use berth_placement::{DeprecatedDefaults, Options, default_policy, prepare, router, rules};
use berth_store::SqlStore;
use tokio::net::TcpListener;

fn options(profile: &str) -> Result<Options, String> {
    let legacy = Options {
        policy: default_policy(DeprecatedDefaults::Honoured),
        ..Options::default()
    };
    match profile {
        "default" | "legacy-rbac" => Ok(legacy),
        "secure-rbac" => Ok(Options::default()),
        "open-policy" => {
            let defaults = default_policy(DeprecatedDefaults::Ignored);
            let open = rules().fold(defaults, |policy, rule| {
                policy.with_rule(rule, Rule::Everybody)
            });
            Ok(Options {
                policy: open,
                ..Options::default()
            })
        }
        "cors" => Ok(Options {
            cors: Cors {
                allowed_origin: vec!["http://valid.example.com".to_owned()],
                allow_headers: vec!["openstack-api-version".to_owned()],
                ..Cors::default()
            },
            ..legacy
        }),
        other => Err(format!(
            "{other:?} is no profile; default, legacy-rbac, secure-rbac, open-policy and cors are"
        )),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or("127.0.0.1:8778".to_owned());
    let profile = arguments.next().unwrap_or("default".to_owned());
    let options = options(&profile)?;
    let store = SqlStore::in_memory().await?;
    prepare(&store).await?;
    let interrupted = async {
        tokio::signal::ctrl_c().await.ok();
    };
    let listener = TcpListener::bind(address).await?;
    serve_tcp(listener, router(store.clone(), options), interrupted).await;
    store.close().await;
    Ok(())
}
