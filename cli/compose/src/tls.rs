//! The agent's API over TLS: the listener and the files of `[agent] listen`.

use std::net::SocketAddr;
use std::time::SystemTime;

use berth_agent_api::{ReloadableTls, TlsError, TlsFiles, TlsListen};
use berth_config::Config;
use berth_output::{ErrorCode, Failure};

/// The address and the files, where `[agent] listen` is set; that the files are named then has been checked.
#[must_use]
pub fn named(config: &Config) -> Option<(SocketAddr, TlsFiles)> {
    let agent = &config.agent;
    let files = TlsFiles {
        certificate: agent.tls_cert.clone()?,
        key: agent.tls_key.clone()?,
        client_ca: agent.client_ca.clone()?,
    };
    Some((agent.listen?, files))
}

/// The door as the configuration says, its files read; none where it says nothing.
///
/// Errors: A file is missing or holds something else, a certificate's time is over, or key and certificate are not a
/// pair.
pub fn open(config: &Config) -> Result<Option<TlsListen>, Failure> {
    let Some((address, files)) = named(config) else {
        return Ok(None);
    };
    let door = ReloadableTls::open(files).map_err(|error| {
        let what = format!("the agent's API cannot be served on {address}: [agent] {error}");
        Failure::new(code(&error), what).mend(error.hint())
    })?;
    Ok(Some(TlsListen {
        address,
        settings: door,
    }))
}

/// Reads the files again that the door was opened with; new connections are served by them.
pub fn read_again(door: &ReloadableTls) -> Result<(), String> {
    let settings = door.files().read(SystemTime::now());
    let settings = settings.map_err(|error| format!("[agent] {error}; {}", error.hint()))?;
    door.take(settings);
    Ok(())
}

/// What kind of mistake it is.
#[must_use]
pub fn code(error: &TlsError) -> ErrorCode {
    match error {
        TlsError::Unreadable { .. } => ErrorCode::Missing,
        TlsError::Mismatched { .. } => ErrorCode::Contradiction,
        TlsError::Malformed { .. } | TlsError::Untimely { .. } => ErrorCode::BadValue,
    }
}
