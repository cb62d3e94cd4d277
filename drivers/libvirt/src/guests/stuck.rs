//! Detects guests that libvirtd can no longer stop.
//!
//! If libvirtd is killed after it recorded that it starts a guest but before it started the emulator, then after its restart it
//! shows the guest as paused ("starting up") and holds it for a call that no longer exists. Every call waits for its lock and
//! fails, including `destroy` and `undefine` (libvirt 9.0; a status file with `pid='0'` is ignored when libvirtd reconnects to
//! guests). It recovers only if its status file is removed.
//!
//! A guest that is just starting looks the same for a moment. A guest counts as stuck when it has looked like this for longer than
//! libvirt lets a call wait. It then gets no more calls, because each would block all others for half a minute.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use berth_model::ConsumerUuid;
use berth_virt::{GuestError, GuestOnHost};
use virt::connect::Connect;
use virt::domain::{Domain, DomainPausedReason, DomainStateReason};
use virt::enumutil::Enum;

/// libvirt lets a call wait 30 s for a guest that another call holds, so checks before and after such
/// a wait are conclusive.
const LONGEST_START: Duration = Duration::from_secs(25);

/// The guests that libvirt was seen to be starting without an emulator. Clones are one.
#[derive(Debug, Clone)]
pub(crate) struct Starts {
    procfs: PathBuf,
    seen: Arc<Mutex<BTreeMap<ConsumerUuid, Start>>>,
}

#[derive(Debug, Clone, Copy)]
struct Start {
    /// libvirt's id of a running guest.
    id: Option<u32>,
    since: Instant,
}

impl Starts {
    /// An empty record; emulators are searched below `procfs`.
    pub(crate) fn new(procfs: &Path) -> Self {
        Self {
            procfs: procfs.to_owned(),
            seen: Arc::default(),
        }
    }

    /// Refuses operations on a stuck guest.
    pub(crate) fn refuse(&self, connect: &Connect, uuid: ConsumerUuid) -> Result<(), GuestError> {
        let Ok(domain) = connect.lookup_domain_by_uuid(*uuid.as_uuid()) else {
            return Ok(());
        };
        match self.stuck(&domain, uuid) {
            None => Ok(()),
            Some(reason) => Err(GuestError::Stuck { uuid, reason }),
        }
    }

    /// Forgets the starts of guests that are no more.
    pub(crate) fn only_of(&self, guests: &BTreeMap<ConsumerUuid, GuestOnHost>) {
        self.starts().retain(|uuid, _| guests.contains_key(uuid));
    }

    /// Why no operation is possible on a guest; `None` if one is, or if that is not known yet.
    pub(crate) fn stuck(&self, domain: &Domain, uuid: ConsumerUuid) -> Option<String> {
        let starts = is_starting(domain) && !has_emulator(&self.procfs, uuid);
        let mut seen = self.starts();
        if !starts {
            seen.remove(&uuid);
            return None;
        }
        let now = Start {
            id: domain.id(),
            since: Instant::now(),
        };
        let start = seen.entry(uuid).or_insert(now);
        if start.id != now.id {
            *start = now;
        }
        let is_stuck = start.since.elapsed() >= LONGEST_START;
        is_stuck.then(|| sentence(&domain.name().unwrap_or_default(), uuid))
    }

    fn starts(&self) -> MutexGuard<'_, BTreeMap<ConsumerUuid, Start>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether libvirt is about to start a guest that it shows as paused.
pub(super) fn is_starting(domain: &Domain) -> bool {
    matches!(
        domain.state(),
        Ok((
            _,
            Enum::Known(DomainStateReason::Paused(Enum::Known(
                DomainPausedReason::StartingUp
            )))
        ))
    )
}

/// Whether a process of this host is the guest's emulator; true if that is unknown.
fn has_emulator(procfs: &Path, uuid: ConsumerUuid) -> bool {
    let Ok(processes) = fs::read_dir(procfs) else {
        return true;
    };
    let uuid = uuid.to_string();
    let is_the_guests = |line: Vec<u8>| {
        let mut words = line.split(|byte| *byte == 0);
        words.by_ref().any(|word| word == b"-uuid") && words.next() == Some(uuid.as_bytes())
    };
    let lines = processes.flatten();
    let mut lines = lines.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    lines.any(is_the_guests)
}

fn sentence(name: &str, uuid: ConsumerUuid) -> String {
    let file = format!("/run/libvirt/qemu/{name}.xml").replace('\'', "'\\''");
    format!(
        "libvirt shows it as starting, but no emulator of it runs, and libvirt refuses every operation on it. libvirtd was killed \
         just before it started the emulator, and its status file is out of date. Remove that file and restart libvirtd: \
         pgrep -f -- '-uuid {uuid}' || {{ rm '{file}' && systemctl restart libvirtd; }}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uuid() -> ConsumerUuid {
        ConsumerUuid::from(uuid::Uuid::from_u128(7))
    }

    #[test]
    fn an_emulator_is_known_by_the_guests_uuid_in_its_own_place() {
        let procfs = tempfile::tempdir().unwrap();
        let process = |number: &str, line: &str| {
            let at = procfs.path().join(number);
            fs::create_dir_all(&at).unwrap();
            fs::write(at.join("cmdline"), line.replace(' ', "\0")).unwrap();
        };
        process("1", "init");
        // A process that only names the guest is not its emulator.
        process("2", &format!("virsh destroy {}", uuid()));
        process(
            "3",
            "qemu-system-x86_64 -uuid 00000000-0000-0000-0000-000000000008",
        );
        assert!(!has_emulator(procfs.path(), uuid()));
        process(
            "4",
            &format!("qemu-system-x86_64 -name x -uuid {} -S", uuid()),
        );
        assert!(has_emulator(procfs.path(), uuid()));
        assert!(has_emulator(&procfs.path().join("none"), uuid()));
    }

    #[test]
    fn the_remedy_is_a_command_whatever_the_guests_name() {
        let text = sentence("it's", uuid());
        assert!(
            text.contains(r"rm '/run/libvirt/qemu/it'\''s.xml' && systemctl restart libvirtd"),
            "{text}"
        );
    }
}
