//! The agent's API over TLS: the listener and the files of `[agent] listen`.

use std::net::SocketAddr;
use std::time::SystemTime;

use berth_agent_api::{ReloadableTls, TlsError, TlsFiles, TlsListen};
use berth_config::Config;
use berth_output::{ErrorCode, Failure};

/// The address and the files, if `[agent] listen` is set. A check has made sure that the files are set, too.
#[must_use]
pub fn named(config: &Config) -> Option<(SocketAddr, TlsFiles)> {
    let agent = &config.agent;
    let files = TlsFiles {
        certificate: agent.tls_cert.clone()?,
        key: agent.tls_key.clone()?,
        client_ca: agent.client_ca.clone()?,
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
    Ok(Some(TlsListen {
        address,
        settings: tls,
    }))
}

/// Reads the listener's files again. New connections use them.
pub fn reload(tls: &ReloadableTls) -> Result<(), String> {
    let settings = tls.files().read(SystemTime::now());
    let settings = settings.map_err(|error| format!("[agent] {error}; {}", error.hint()))?;
    tls.take(settings);
    Ok(())
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
