//! The proxies of consoles in `berth up` and `berth controller`: they listen on addresses of their own and open the consoles
//! that the compute API gave tokens for.

use std::sync::Arc;

use berth_client::GuestApiError;
use berth_compute::{Compute, ConsoleOptions, OpenedConsole, TokenRefused};
use berth_config::{AuthStrategy, Config, ConsoleDefault, ProxyAddress};
use berth_console::{
    ConsoleProxyOptions, ConsoleRefused, ConsoleSession, OpenConsole, Opening, router,
};
use berth_model::ConsoleKind;
use berth_output::{ErrorCode, Failure};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::listener::{ListenOption, NOVNCPROXY, SERIALPROXY, ServiceListener};

/// The page of noVNC that shows a screen without further controls.
const PAGE: &str = "vnc_lite.html";

/// The proxies, listening and not served yet.
pub struct OpenConsoleProxies(Vec<OpenProxy>);

struct OpenProxy {
    kind: ConsoleKind,
    listener: ServiceListener,
    /// The URL that is given out, without a token.
    base_url: String,
}

impl OpenConsoleProxies {
    /// No proxy.
    #[must_use]
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// Opens the listeners. An address that the configuration does not name is left to another process that has it.
    ///
    /// Errors: An address or a TLS file of the configuration cannot be used.
    pub async fn open(config: &Config, default: ConsoleDefault) -> Result<Self, Failure> {
        let vnc = config.novncproxy(default);
        let serial = config.serialproxy(default);
        let vnc = listen(config, &NOVNCPROXY, vnc).await?.map(|listener| {
            warn_without_pages(config);
            let own = || format!("{}/{PAGE}", listener.url());
            let base_url = config.novncproxy_base_url();
            OpenProxy {
                kind: ConsoleKind::Vnc,
                base_url: base_url.map_or_else(own, str::to_owned),
                listener,
            }
        });
        let serial = listen(config, &SERIALPROXY, serial).await?.map(|listener| {
            // `ws` for `http`, `wss` for `https`.
            let own = || format!("{}/", listener.url().replacen("http", "ws", 1));
            let base_url = config.serial_base_url();
            OpenProxy {
                kind: ConsoleKind::Serial,
                base_url: base_url.map_or_else(own, str::to_owned),
                listener,
            }
        });
        Ok(Self(vnc.into_iter().chain(serial).collect()))
    }

    /// The consoles that the compute API gives out.
    #[must_use]
    pub fn options(&self, config: &Config) -> ConsoleOptions {
        let base_url = |kind| {
            let proxy = self.0.iter().find(|proxy| proxy.kind == kind);
            proxy.map(|proxy| proxy.base_url.clone())
        };
        ConsoleOptions {
            vnc: base_url(ConsoleKind::Vnc),
            serial: base_url(ConsoleKind::Serial),
            token_ttl: config.consoleauth.token_ttl,
        }
    }

    /// The addresses, each as a line for people.
    pub fn addresses(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|proxy| {
            let url = proxy.listener.url();
            match proxy.kind {
                ConsoleKind::Vnc => format!("VNC consoles at {url}"),
                ConsoleKind::Serial => format!("Serial consoles at {url}"),
            }
        })
    }

    /// Serves the consoles of the compute API until `stop`.
    pub fn serve(
        self,
        config: &Config,
        compute: &Compute,
        tasks: &mut JoinSet<()>,
        stop: &CancellationToken,
    ) {
        for proxy in self.0 {
            let is_vnc = proxy.kind == ConsoleKind::Vnc;
            let scheme = proxy.base_url.split("://").next().unwrap_or_default();
            let options = ConsoleProxyOptions {
                kind: proxy.kind,
                web: is_vnc.then(|| config.web.clone()),
                allowed_origins: config.console.allowed_origins.clone(),
                scheme: scheme.to_owned(),
                ends_with_token: config.consoleauth.enforce_session_timeout,
            };
            let consoles = Arc::new(ComputeConsoles(compute.clone()));
            let routes = router(options, consoles, stop.clone());
            let stopped = stop.clone().cancelled_owned();
            tasks.spawn(proxy.listener.serve(routes, stopped));
        }
    }
}

/// Says what is missing: without noVNC's files the URLs of VNC consoles lead to nothing.
fn warn_without_pages(config: &Config) {
    let folder = config.web.display();
    if config.novncproxy_base_url().is_none() && !config.web.join(PAGE).exists() {
        tracing::warn!(%folder, "noVNC's files are missing: install the package novnc, or name their folder in web");
    }
}

async fn listen(
    config: &Config,
    option: &ListenOption,
    at: Option<ProxyAddress>,
) -> Result<Option<ServiceListener>, Failure> {
    let Some(ProxyAddress {
        address,
        is_configured,
    }) = at
    else {
        return Ok(None);
    };
    // Each connection needs a token of the compute API.
    match option
        .listen_on(config, address, AuthStrategy::Keystone)
        .await
    {
        Ok(listener) => Ok(Some(listener)),
        Err(failure) if failure.code() == ErrorCode::Held && !is_configured => {
            tracing::warn!(%address, "consoles are not offered: another process has the default address of their proxy");
            Ok(None)
        }
        Err(failure) => Err(failure),
    }
}

/// Opens the consoles of the compute API.
struct ComputeConsoles(Compute);

impl OpenConsole for ComputeConsoles {
    fn open<'a>(&'a self, kind: ConsoleKind, token: &'a str) -> Opening<'a> {
        Box::pin(async move {
            match self.0.open_console(kind, token).await {
                Ok(OpenedConsole {
                    server,
                    stream,
                    valid_for,
                }) => Ok(ConsoleSession {
                    server,
                    stream,
                    valid_for,
                }),
                Err(refused) => Err(explained(refused)),
            }
        })
    }
}

/// The refusal that the client receives. Details for operators go to the log.
fn explained(refused: TokenRefused) -> ConsoleRefused {
    match refused {
        TokenRefused::Invalid => ConsoleRefused::Token,
        TokenRefused::NotReady(_) => ConsoleRefused::Guest(refused.to_string()),
        TokenRefused::Agent {
            source: GuestApiError::Conflict(refusal),
            ..
        } => ConsoleRefused::Guest(refusal.message),
        TokenRefused::Agent { .. } | TokenRefused::Server(_) => {
            tracing::warn!(
                error = &refused as &dyn std::error::Error,
                "opening a console failed"
            );
            ConsoleRefused::Unavailable
        }
    }
}
