//! Who may ask: root, the user the agent runs as, and the members of one group. The kernel says who is at the other end of a
//! connection (SO_PEERCRED); nothing is taken from the request.

use std::ffi::CString;

use nix::unistd::{Gid, Group, Uid, User, geteuid, getgrouplist};
use tokio::net::UnixStream;

/// Who is at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Peer {
    /// The user, where the kernel said.
    pub(super) uid: Option<u32>,
    gid: Option<u32>,
}

impl Peer {
    /// Somebody on another host: no user of this one.
    pub(super) const REMOTE: Self = Self {
        uid: None,
        gid: None,
    };

    /// Who the kernel says is at the other end.
    pub(super) fn at(socket: &UnixStream) -> Self {
        let credentials = socket.peer_cred().ok();
        Self {
            uid: credentials.map(|peer| peer.uid()),
            gid: credentials.map(|peer| peer.gid()),
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Access {
    own_uid: u32,
    group: Option<u32>,
    name: String,
}

/// Whether somebody may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Allowed,
    Refused,
    /// That depends on the groups of the user, which the system's user database knows.
    IfMember(u32),
}

impl Access {
    /// Root, this process's user, and the members of the group, if there is such a group.
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

    /// What the kernel's word alone decides.
    pub(super) fn verdict(&self, peer: Peer) -> Verdict {
        match (peer.uid, self.group) {
            (None, _) => Verdict::Refused,
            (Some(uid), _) if uid == 0 || uid == self.own_uid => Verdict::Allowed,
            (Some(_), Some(group)) if peer.gid == Some(group) => Verdict::Allowed,
            (Some(uid), Some(_)) => Verdict::IfMember(uid),
            (Some(_), None) => Verdict::Refused,
        }
    }

    /// Whether the user is in the group. Asks the user database: may block.
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
            (Peer::of(0, 0), Some(7), Verdict::Allowed),
            (Peer::of(0, 0), None, Verdict::Allowed),
            (Peer::of(991, 1), None, Verdict::Allowed),
            (Peer::of(1000, 7), Some(7), Verdict::Allowed),
            (Peer::of(1000, 1000), Some(7), Verdict::IfMember(1000)),
            (Peer::of(1000, 1000), None, Verdict::Refused),
            (
                Peer {
                    uid: None,
                    gid: Some(7),
                },
                Some(7),
                Verdict::Refused,
            ),
        ];
        for (peer, group, expected) in cases {
            assert_eq!(access(group).verdict(peer), expected, "{peer:?} {group:?}");
        }
    }

    #[test]
    fn membership_is_the_user_databases() {
        let nobody = User::from_name("nobody")
            .unwrap()
            .expect("every Linux has nobody");
        let own = access(Some(nobody.gid.as_raw()));
        assert!(own.is_member(nobody.uid.as_raw()));
        assert!(!access(Some(4_000_000_000)).is_member(nobody.uid.as_raw()));
        assert!(!own.is_member(4_000_000_000), "a user nobody knows");
    }

    #[test]
    fn a_group_that_does_not_exist_leaves_root() {
        let access = Access::of_group("no-such-group-here");
        assert_eq!(access.group(), None);
        assert_eq!(access.verdict(Peer::of(0, 0)), Verdict::Allowed);
    }
}
