//! Deletes a guest: powers it off, undefines it, and verifies that it is gone.

use berth_model::ConsumerUuid;
use berth_virt::{GuestDestroyOutcome, GuestError};
use virt::connect::Connect;
use virt::error::ErrorNumber;
use virt_sys as sys;

use super::error::{is, refused};
use super::find;
use super::power::{off, retry_if_changed};

/// The flags that also remove everything that libvirt stores for a domain.
const ALL_OF_IT: u32 = sys::VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
    | sys::VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
    | sys::VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
    | sys::VIR_DOMAIN_UNDEFINE_NVRAM;

/// Powers off and undefines a guest.
pub(crate) fn destroy(
    connect: &Connect,
    uuid: ConsumerUuid,
) -> Result<GuestDestroyOutcome, GuestError> {
    retry_if_changed(|| end(&InLibvirt { connect, uuid }, uuid))
}

/// The steps of a deletion. Each succeeds if already done or if the guest does not exist.
trait GuestTeardown {
    fn exists(&self) -> Result<bool, GuestError>;
    fn switch_off(&self) -> Result<(), GuestError>;
    fn undefine(&self) -> Result<(), GuestError>;
}

/// Powers off regardless of the shown state: an undefined guest that still runs would keep all its resources. Success
/// is reported only after a check that it is gone.
fn end(guest: &impl GuestTeardown, uuid: ConsumerUuid) -> Result<GuestDestroyOutcome, GuestError> {
    if !guest.exists()? {
        return Ok(GuestDestroyOutcome::NotThere);
    }
    guest.switch_off()?;
    guest.undefine()?;
    if guest.exists()? {
        return Err(GuestError::Changed {
            uuid,
            call: "virDomainUndefineFlags",
            reason: "it still exists; it was started or defined again concurrently".to_owned(),
        });
    }
    Ok(GuestDestroyOutcome::Destroyed)
}

struct InLibvirt<'a> {
    connect: &'a Connect,
    uuid: ConsumerUuid,
}

impl GuestTeardown for InLibvirt<'_> {
    fn exists(&self) -> Result<bool, GuestError> {
        Ok(find(self.connect, self.uuid)?.is_some())
    }

    fn switch_off(&self) -> Result<(), GuestError> {
        match find(self.connect, self.uuid)? {
            Some(domain) => off(&domain, self.uuid),
            None => Ok(()),
        }
    }

    fn undefine(&self) -> Result<(), GuestError> {
        undefine(self.connect, self.uuid)
    }
}

/// Undefines a guest, with everything that libvirt stores for it.
pub(super) fn undefine(connect: &Connect, uuid: ConsumerUuid) -> Result<(), GuestError> {
    // A transient guest disappears when it is powered off.
    let Some(domain) = find(connect, uuid)? else {
        return Ok(());
    };
    let undefined = match domain.undefine_flags(ALL_OF_IT) {
        // A driver that has none of these things.
        Err(error) if is(&error, ErrorNumber::InvalidArg) => domain.undefine(),
        other => other,
    };
    match undefined {
        Err(error) if !is(&error, ErrorNumber::NoDomain) => {
            Err(refused(uuid, "virDomainUndefineFlags")(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A guest with an unknown state that is started again this often during its deletion.
    struct Planted {
        runs: Cell<bool>,
        is_defined: Cell<bool>,
        starts: Cell<u32>,
    }

    impl GuestTeardown for Planted {
        fn exists(&self) -> Result<bool, GuestError> {
            Ok(self.runs.get() || self.is_defined.get())
        }

        fn switch_off(&self) -> Result<(), GuestError> {
            self.runs.set(false);
            Ok(())
        }

        fn undefine(&self) -> Result<(), GuestError> {
            if self.starts.get() > 0 {
                self.starts.set(self.starts.get() - 1);
                self.runs.set(true);
            }
            self.is_defined.set(false);
            Ok(())
        }
    }

    fn planted(starts: u32) -> Planted {
        Planted {
            runs: Cell::new(true),
            is_defined: Cell::new(true),
            starts: Cell::new(starts),
        }
    }

    fn uuid() -> ConsumerUuid {
        ConsumerUuid::from(uuid::Uuid::from_u128(1))
    }

    #[test]
    fn a_guest_is_switched_off_before_it_loses_its_definition_whatever_it_seems_to_do() {
        let guest = planted(0);
        assert_eq!(end(&guest, uuid()).unwrap(), GuestDestroyOutcome::Destroyed);
        assert!(!guest.runs.get() && !guest.is_defined.get());
        assert_eq!(end(&guest, uuid()).unwrap(), GuestDestroyOutcome::NotThere);
    }

    #[test]
    fn a_guest_that_is_still_there_after_its_end_is_not_reported_as_gone() {
        let guest = planted(1);
        let error = end(&guest, uuid()).unwrap_err();
        assert!(matches!(error, GuestError::Changed { .. }), "{error}");
        assert!(guest.runs.get());
        let guest = planted(2);
        assert_eq!(
            retry_if_changed(|| end(&guest, uuid())).unwrap(),
            GuestDestroyOutcome::Destroyed
        );
        assert!(!guest.runs.get());
    }
}
