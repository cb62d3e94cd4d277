//! TLS of the listeners: the files of `[agent] listen` and of the services, loaded at the start and again at SIGHUP.

use std::net::SocketAddr;
use std::time::SystemTime;

use berth_agent_api::{ClientFiles, ReloadableTls, SubjectName, TlsError, TlsFiles, TlsListen};
use berth_config::{Config, ListenerSection};
use berth_output::{ErrorCode, Failure};
use tokio::signal::unix::{SignalKind, signal};

/// The address and the files, if `[agent] listen` is set. A check has made sure that the files are set, too.
#[must_use]
pub fn named(config: &Config) -> Option<(SocketAddr, TlsFiles)> {
    let agent = &config.agent;
    let files = TlsFiles {
        certificate: agent.tls_cert.clone()?,
        key: agent.tls_key.clone()?,
        clients: Some(ClientFiles {
            ca: agent.client_ca.clone()?,
            crl: agent.client_crl.clone(),
        }),
    };
    Some((agent.listen.address()?, files))
}

/// Opens the listener and reads its files; `None` if `[agent] listen` is not set.
///
/// Errors: A file is missing or invalid, a certificate has expired, or key and certificate do not match.
pub fn open(config: &Config) -> Result<Option<TlsListen>, Failure> {
    let Some((address, files)) = named(config) else {
        return Ok(None);
    };
    let tls = ReloadableTls::open(files).map_err(|error| {
        let what = format!("the agent's API cannot be served on {address}: [agent] {error}");
        Failure::new(code(&error), what).hint(error.hint())
    })?;
    let allowed = config.agent.allowed_clients.iter();
    let allowed: Result<Vec<SubjectName>, _> = allowed.map(|name| name.parse()).collect();
    Ok(Some(TlsListen {
        address,
        settings: tls,
        allowed_clients: allowed.map_err(|error| {
            Failure::caused(ErrorCode::BadValue, "[agent] allowed_clients", &error)
        })?,
    }))
}

/// Reads the agent's files again. New connections use them.
pub fn reload(tls: &ReloadableTls) -> Result<(), String> {
    let settings = tls.files().read(SystemTime::now());
    let settings = settings.map_err(|error| format!("[agent] {error}; {}", error.hint()))?;
    tls.take(settings);
    Ok(())
}

/// The files of a service's listener; `None` if it speaks plain HTTP.
#[must_use]
pub fn files_of(listener: &ListenerSection<'_>) -> Option<TlsFiles> {
    Some(TlsFiles {
        certificate: listener.certificate()?.to_owned(),
        key: listener.key()?.to_owned(),
        clients: None,
    })
}

/// Loads the files of a service's listener, and loads them again at each SIGHUP until the process ends. Files that cannot be used
/// leave the previous settings in force.
///
/// Errors: As of [`open`].
pub(crate) fn open_service(
    listener: &ListenerSection<'_>,
) -> Result<Option<ReloadableTls>, Failure> {
    let Some(files) = files_of(listener) else {
        return Ok(None);
    };
    let section = listener.section;
    let tls = ReloadableTls::open(files).map_err(|error| {
        Failure::new(code(&error), format!("[{section}] {error}")).hint(error.hint())
    })?;
    let hangup = signal(SignalKind::hangup());
    let mut hangup = hangup.map_err(|error| {
        Failure::caused(ErrorCode::Unavailable, "cannot receive SIGHUP", &error)
    })?;
    let reloaded = tls.clone();
    // It ends with the runtime.
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            let files = reloaded.files().clone();
            let read = tokio::task::spawn_blocking(move || files.read(SystemTime::now())).await;
            match read {
                Ok(Ok(settings)) => {
                    reloaded.take(settings);
                    tracing::info!(section, "TLS certificate reloaded");
                }
                Ok(Err(error)) => tracing::error!(
                    section,
                    %error,
                    hint = error.hint(),
                    "TLS certificate reload failed: the previous one stays in use"
                ),
                // A panic has been reported already.
                Err(_) => {}
            }
        }
    });
    Ok(Some(tls))
}

/// The error code of a TLS error.
#[must_use]
pub fn code(error: &TlsError) -> ErrorCode {
    match error {
        TlsError::Unreadable { .. } => ErrorCode::Missing,
        TlsError::Mismatched { .. } => ErrorCode::Contradiction,
        TlsError::Malformed { .. } | TlsError::Untimely { .. } => ErrorCode::BadValue,
    }
}
