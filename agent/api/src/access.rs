//! Access control for the unix sockets: root, the agent's own user and the members of one group are allowed. The kernel
//! reports the peer of a connection (`SO_PEERCRED`); nothing is taken from the request.

use std::ffi::CString;

use nix::unistd::{Gid, Group, Uid, User, geteuid, getgrouplist};
use tokio::net::UnixStream;

/// Peer credentials of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Peer {
    /// User ID; `None` if the kernel did not report one.
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    /// Process ID.
    pub(super) pid: Option<i32>,
}

impl Peer {
    /// A peer on another host, which has no user ID here.
    pub(super) const REMOTE: Self = Self {
        uid: None,
        gid: None,
        pid: None,
    };

    /// Reads the peer's credentials from the socket.
    pub(super) fn at(socket: &UnixStream) -> Self {
        let credentials = socket.peer_cred().ok();
        Self {
            uid: credentials.map(|peer| peer.uid()),
            gid: credentials.map(|peer| peer.gid()),
            pid: credentials.and_then(|peer| peer.pid()),
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Access {
    own_uid: u32,
    group: Option<u32>,
    name: String,
}

/// Result of an access check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AccessDecision {
    Allowed,
    Refused,
    /// The result depends on the user's groups, which only the user database knows.
    IfMember(u32),
}

impl Access {
    /// Allows root, this process's user, and the members of the group if the group exists.
    pub(super) fn of_group(name: &str) -> Self {
        let group = Group::from_name(name)
            .ok()
            .flatten()
            .map(|group| group.gid.as_raw());
        Self {
            own_uid: geteuid().as_raw(),
            group,
            name: name.to_owned(),
        }
    }

    pub(super) fn group(&self) -> Option<u32> {
        self.group
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Decides from the peer credentials alone, without a look-up in the user database.
    pub(super) fn decide(&self, peer: Peer) -> AccessDecision {
        match (peer.uid, self.group) {
            (None, _) => AccessDecision::Refused,
            (Some(uid), _) if uid == 0 || uid == self.own_uid => AccessDecision::Allowed,
            (Some(_), Some(group)) if peer.gid == Some(group) => AccessDecision::Allowed,
            (Some(uid), Some(_)) => AccessDecision::IfMember(uid),
            (Some(_), None) => AccessDecision::Refused,
        }
    }

    /// Whether the user is a member of the group. Reads the user database, which may block.
    pub(super) fn is_member(&self, uid: u32) -> bool {
        let Some(group) = self.group.map(Gid::from_raw) else {
            return false;
        };
        let Ok(Some(user)) = User::from_uid(Uid::from_raw(uid)) else {
            return false;
        };
        let Ok(name) = CString::new(user.name) else {
            return false;
        };
        getgrouplist(&name, user.gid).is_ok_and(|groups| groups.contains(&group))
    }
}

#[cfg(test)]
impl Peer {
    pub(super) fn of(uid: u32, gid: u32) -> Self {
        Self {
            uid: Some(uid),
            gid: Some(gid),
            pid: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(group: Option<u32>) -> Access {
        Access {
            own_uid: 991,
            group,
            name: "berth".to_owned(),
        }
    }

    #[test]
    fn the_kernels_word_decides() {
        let cases = [
            (Peer::of(0, 0), Some(7), AccessDecision::Allowed),
            (Peer::of(0, 0), None, AccessDecision::Allowed),
            (Peer::of(991, 1), None, AccessDecision::Allowed),
            (Peer::of(1000, 7), Some(7), AccessDecision::Allowed),
            (
                Peer::of(1000, 1000),
                Some(7),
                AccessDecision::IfMember(1000),
            ),
            (Peer::of(1000, 1000), None, AccessDecision::Refused),
            (
                Peer {
                    uid: None,
                    gid: Some(7),
                    pid: None,
                },
                Some(7),
                AccessDecision::Refused,
            ),
        ];
        for (peer, group, expected) in cases {
            assert_eq!(access(group).decide(peer), expected, "{peer:?} {group:?}");
        }
    }

    #[test]
    fn membership_is_the_user_databases() {
        let unprivileged = User::from_name("nobody")
            .unwrap()
            .expect("every Linux has the user nobody");
        let own = access(Some(unprivileged.gid.as_raw()));
        assert!(own.is_member(unprivileged.uid.as_raw()));
        assert!(!access(Some(4_000_000_000)).is_member(unprivileged.uid.as_raw()));
        assert!(
            !own.is_member(4_000_000_000),
            "an unknown user is no member"
        );
    }

    #[test]
    fn a_group_that_does_not_exist_leaves_root() {
        let access = Access::of_group("no-such-group-here");
        assert_eq!(access.group(), None);
        assert_eq!(access.decide(Peer::of(0, 0)), AccessDecision::Allowed);
    }
}
