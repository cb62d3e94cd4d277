//! A further API of this process, on a unix socket of its own beside the admin socket and for the same people: root, the user
//! the agent runs as, and the members of `[agent] admin_group`. For a service that takes its callers at their word.
//!
//! Caller: the composition root, for the conductor of `berth up`. The socket's file is this process's alone: whoever holds
//! the lock beside the admin socket.

use std::path::{Path, PathBuf};

use axum::Router;
use berth_serve::ServeLimits;
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;

use crate::access::Access;
use crate::admin::on_socket;
use crate::error::AdminError;
use crate::{router, socket};

/// A socket, open but not yet answering.
#[derive(Debug)]
pub struct SocketBeside {
    path: PathBuf,
    listener: UnixListener,
    access: Access,
}

impl SocketBeside {
    /// Makes the socket, in the place of one that a killed process left. `group` is `[agent] admin_group`.
    pub async fn open(path: &Path, group: &str) -> Result<Self, AdminError> {
        let access = Access::of_group(group);
        let listener = socket::bind(path, access.group()).await?;
        Ok(Self {
            path: path.to_owned(),
            listener,
            access,
        })
    }

    /// Answers until `stop`, then lets answers under way end and removes the socket. Everybody else is refused with 403.
    pub async fn serve(self, api: Router, stop: CancellationToken) {
        let fenced = router::fenced(api, self.access);
        on_socket(self.listener, fenced, ServeLimits::default(), stop).await;
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!(%error, socket = %self.path.display(), "a socket was gone already");
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
            let fenced = router::fenced(api(), access).layer(peer);
            let request = Request::get("/v1/guests").body(Body::empty()).unwrap();
            let answer = fenced.oneshot(request).await.unwrap();
            assert_eq!(answer.status().as_u16(), status, "user {uid}");
        }
    }

    #[tokio::test]
    async fn the_socket_is_for_its_owner_and_the_group_and_goes_with_the_service() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("conductor.sock");
        let socket = SocketBeside::open(&path, "no-such-group").await.unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o660);
        let second = SocketBeside::open(&path, "no-such-group").await;
        assert!(matches!(second, Err(AdminError::Held { .. })));
        let stop = CancellationToken::new();
        stop.cancel();
        socket.serve(api(), stop).await;
        assert!(!path.exists());
    }
}
