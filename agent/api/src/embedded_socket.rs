//! A unix socket for another API in this process, next to the admin socket and with the same access control: root, the
//! agent's user and the members of `[agent] admin_group`. Use it for services that do not authenticate their callers.
//!
//! The composition root opens one each for the conductor, Placement and the accelerator service of `berth up` or `berth controller`. The lock
//! next to the admin socket also protects their files.

use std::path::{Path, PathBuf};

use axum::Router;
use berth_audit::AuditTrail;
use berth_serve::ServeLimits;
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;

use crate::access::Access;
use crate::admin::serve_unix;
use crate::audit::audited;
use crate::error::AdminError;
use crate::{router, socket};

/// An opened socket. Nothing is answered until [`EmbeddedSocket::serve`].
#[derive(Debug)]
pub struct EmbeddedSocket {
    path: PathBuf,
    listener: UnixListener,
    access: Access,
}

impl EmbeddedSocket {
    /// Creates the socket and replaces the file of a killed process. `group` is `[agent] admin_group`.
    pub async fn open(path: &Path, group: &str) -> Result<Self, AdminError> {
        let access = Access::of_group(group);
        let listener = socket::bind(path, access.group()).await?;
        Ok(Self {
            path: path.to_owned(),
            listener,
            access,
        })
    }

    /// Serves the API until `stop`, then finishes running requests and removes the socket. Other users get a 403.
    /// `audit` gets a record of each request to `observer`, for example `service/conductor`.
    pub async fn serve(
        self,
        api: Router,
        (audit, observer): (AuditTrail, &'static str),
        stop: CancellationToken,
    ) {
        let restricted = router::restrict(api, self.access);
        let audited = audited(restricted, &audit, observer);
        serve_unix(self.listener, audited, ServeLimits::default(), stop).await;
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!(%error, socket = %self.path.display(), "the socket was already removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use axum::Extension;
    use axum::body::Body;
    use axum::extract::ConnectInfo;
    use axum::http::Request;
    use axum::routing::get;
    use tower::ServiceExt as _;

    use super::*;
    use crate::access::Peer;

    fn api() -> Router {
        Router::new().route("/v1/guests", get(async || "all of them"))
    }

    #[tokio::test]
    async fn a_user_of_the_host_who_is_no_operator_is_refused_and_root_is_not() {
        for (uid, status) in [(65_534, 403), (0, 200)] {
            let access = Access::of_group("no-such-group");
            let peer = Extension(ConnectInfo(Peer::of(uid, uid)));
            let restrict = router::restrict(api(), access).layer(peer);
            let request = Request::get("/v1/guests").body(Body::empty()).unwrap();
            let answer = restrict.oneshot(request).await.unwrap();
            assert_eq!(answer.status().as_u16(), status, "user {uid}");
        }
    }

    #[tokio::test]
    async fn the_socket_is_for_its_owner_and_the_group_and_goes_with_the_service() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("conductor.sock");
        let socket = EmbeddedSocket::open(&path, "no-such-group").await.unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o660);
        let second = EmbeddedSocket::open(&path, "no-such-group").await;
        assert!(matches!(second, Err(AdminError::Held { .. })));
        let stop = CancellationToken::new();
        stop.cancel();
        let audit = (AuditTrail::default(), "service/test");
        socket.serve(api(), audit, stop).await;
        assert!(!path.exists());
    }
}
