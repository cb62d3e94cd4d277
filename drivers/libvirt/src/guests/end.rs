//! Ending a guest: off, without a definition, and looked for once more.

use berth_model::ConsumerUuid;
use berth_virt::{Destroyed, GuestError};
use virt::connect::Connect;
use virt::error::ErrorNumber;
use virt_sys as sys;

use super::error::{is, refused};
use super::find;
use super::power::{looking, off};

/// What a domain leaves behind when it is undefined, all to go with it.
const ALL_OF_IT: u32 = sys::VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
    | sys::VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
    | sys::VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
    | sys::VIR_DOMAIN_UNDEFINE_NVRAM;

/// Ends a guest and leaves nothing of it in libvirt.
pub(crate) fn destroy(connect: &Connect, uuid: ConsumerUuid) -> Result<Destroyed, GuestError> {
    looking(|| end(&InLibvirt { connect, uuid }, uuid))
}

/// The steps of an end. Each is done where it is done already, and where there is no guest (any more).
trait Ending {
    fn is_there(&self) -> Result<bool, GuestError>;
    fn switch_off(&self) -> Result<(), GuestError>;
    fn undefine(&self) -> Result<(), GuestError>;
}

/// A guest is switched off whatever it seems to do: one that runs and is undefined goes on without a definition, with all that
/// it holds. So nobody is told that it is gone before a look says so.
fn end(guest: &impl Ending, uuid: ConsumerUuid) -> Result<Destroyed, GuestError> {
    if !guest.is_there()? {
        return Ok(Destroyed::NotThere);
    }
    guest.switch_off()?;
    guest.undefine()?;
    if guest.is_there()? {
        return Err(GuestError::Changed {
            uuid,
            call: "virDomainUndefineFlags",
            reason: "it is there still; it was started or defined again meanwhile".to_owned(),
        });
    }
    Ok(Destroyed::Destroyed)
}

struct InLibvirt<'a> {
    connect: &'a Connect,
    uuid: ConsumerUuid,
}

impl Ending for InLibvirt<'_> {
    fn is_there(&self) -> Result<bool, GuestError> {
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

/// Takes a guest's definition away, and all that libvirt keeps by it.
pub(super) fn undefine(connect: &Connect, uuid: ConsumerUuid) -> Result<(), GuestError> {
    // A guest that was never defined is gone with its end.
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

    /// A guest of which nobody can say whether it runs, and that is started again so many times while it ends.
    struct Planted {
        runs: Cell<bool>,
        is_defined: Cell<bool>,
        starts: Cell<u32>,
    }

    impl Ending for Planted {
        fn is_there(&self) -> Result<bool, GuestError> {
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
        assert_eq!(end(&guest, uuid()).unwrap(), Destroyed::Destroyed);
        assert!(!guest.runs.get() && !guest.is_defined.get());
        assert_eq!(end(&guest, uuid()).unwrap(), Destroyed::NotThere);
    }

    #[test]
    fn a_guest_that_is_still_there_after_its_end_is_not_told_as_gone() {
        let guest = planted(1);
        let error = end(&guest, uuid()).unwrap_err();
        assert!(matches!(error, GuestError::Changed { .. }), "{error}");
        assert!(guest.runs.get());
        let guest = planted(2);
        assert_eq!(
            looking(|| end(&guest, uuid())).unwrap(),
            Destroyed::Destroyed
        );
        assert!(!guest.runs.get());
    }
}
