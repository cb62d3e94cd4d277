//! The virt drivers that `compute_driver` can name: [`ComputeDriver`] is the option, [`Driver`] the driver, [`GROUPS`]
//! their options.
//!
//! A new driver is one line of `drivers!` and the function that opens it. The function gets the common options of all
//! drivers ([`DriverSetup`]) and reads the driver's own options from it.

mod driver;
mod error;
#[cfg(feature = "libvirt")]
mod libvirt;
mod setup;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use berth_exec::{ExecDriver, ExecOptions};
use berth_fake::FakeDriver;
use berth_model::nearest_name;
use berth_options::{FileRole, OptionKind, RowGroup, TextKind, WrongText, text_type};
use berth_virt::PciInPlacement;

pub use berth_fake::FakeSection;
pub use berth_libvirt::{
    CpuMode, LibvirtSection, MdevTypeOptions, MdevTypes, VirtType, VncSection,
};
pub use error::DriverError;
pub use setup::DriverSetup;

/// The file below `state_path` with the guests of a fake driver's machine.
const FAKE_GUESTS: &str = "fake-guests";
/// The directory below `state_path` for an out-of-tree driver.
const EXEC_STATE: &str = "exec-driver";

/// Declares the option, the drivers and their options, and the macro `on_driver!` that runs an expression on the
/// current driver.
macro_rules! drivers {
    ($d:tt $($(#[$built:meta])* $word:literal => $variant:ident($driver:ty), $open:ident $(, $options:ty)?;)+) => {
        /// `compute_driver`.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum ComputeDriver {
            $($variant,)+
            /// A program that speaks the driver protocol (`exec:PATH`).
            Exec(PathBuf),
        }

        const WORDS: &[&str] = &[$($word),+];
        const DOCUMENTED: &str = concat!("one of ", $($word, ", ",)+ "or `exec:` and a path");
        const WRITE: &str = concat!("write one of ", $($word, ", ",)+ "or exec:/PATH/OF/A/PROGRAM");

        impl FromStr for ComputeDriver {
            type Err = WrongText;

            fn from_str(text: &str) -> Result<Self, WrongText> {
                match (text, text.strip_prefix("exec:")) {
                    $(($word, _) => Ok(Self::$variant),)+
                    (_, Some(program)) => program_of(text, program).map(Self::Exec),
                    _ => Err(unknown(text)),
                }
            }
        }

        impl fmt::Display for ComputeDriver {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$variant => f.write_str($word),)+
                    Self::Exec(program) => write!(f, "exec:{}", program.display()),
                }
            }
        }

        /// The options of the drivers that have some, one section each.
        pub const GROUPS: &[RowGroup] = &[$($(RowGroup::of::<$options>(),)?)+];

        /// The driver that `compute_driver` names.
        #[allow(clippy::large_enum_variant, reason = "there is one in a process")]
        pub enum Driver {
            $($(#[$built])* $variant($driver),)+
            Exec(ExecDriver),
        }

        impl Driver {
            /// Opens a driver.
            ///
            /// Errors: Its options contradict each other or name a file that cannot be used, or this program was built without it.
            pub fn open(named: &ComputeDriver, setup: &DriverSetup<'_>) -> Result<Self, DriverError> {
                match named {
                    $($(#[$built])* ComputeDriver::$variant => $open(setup).map(Self::$variant),)+
                    ComputeDriver::Exec(program) => Ok(Self::Exec(exec(program.clone(), setup))),
                    #[allow(unreachable_patterns, reason = "a build may have all drivers")]
                    other => Err(DriverError::NotBuilt(other.to_string())),
                }
            }
        }

        macro_rules! on_driver {
            ($d this:expr, $d driver:ident => $d call:expr) => {
                match $d this {
                    $($(#[$built])* crate::Driver::$variant($d driver) => $d call,)+
                    crate::Driver::Exec($d driver) => $d call,
                }
            };
        }
        use on_driver;
    };
}

// A new driver is one line here: its name in `compute_driver`, its type, the function that opens it, and its options,
// if it has any.
drivers! {$
    #[cfg(feature = "libvirt")]
    "libvirt" => Libvirt(berth_libvirt::LibvirtDriver), open_libvirt, LibvirtSection;
    "fake" => Fake(FakeDriver), open_fake, FakeSection;
}

#[cfg(feature = "libvirt")]
use libvirt::open_libvirt;

text_type!(
    ComputeDriver,
    OptionKind::Text(&TextKind {
        file: |text| Some((FileRole::Program, text.strip_prefix("exec:")?)),
        ..TextKind::new(DOCUMENTED, WRITE, |text| {
            text.parse::<ComputeDriver>().map(drop)
        })
    })
);

fn program_of(text: &str, program: &str) -> Result<PathBuf, WrongText> {
    match program.starts_with('/') {
        true => Ok(program.into()),
        false => Err(format!("{text:?} is not the absolute path of a program").into()),
    }
}

fn unknown(text: &str) -> WrongText {
    let near = nearest_name(text, WORDS.iter().copied());
    WrongText {
        wrong: format!("{text:?} is not one of the words accepted"),
        right: near.map(|word| format!("did you mean {word:?}? {WRITE}")),
    }
}

fn open_fake(setup: &DriverSetup<'_>) -> Result<FakeDriver, DriverError> {
    let options: FakeSection = setup.values.read()?;
    let machine = options.machine.ok_or(DriverError::NoMachine)?;
    let driver = FakeDriver::from_file(&machine).map_err(|error| DriverError::Unusable {
        what: "the machine file cannot be used",
        source: Box::new(error),
    })?;
    Ok(driver.with_guests_at(&setup.state_path.join(FAKE_GUESTS)))
}

fn exec(program: PathBuf, setup: &DriverSetup<'_>) -> ExecDriver {
    ExecDriver::new(ExecOptions {
        host: setup.host.clone(),
        cpu_shared_set: setup.cpu_shared_set.clone(),
        cpu_dedicated_set: setup.cpu_dedicated_set.clone(),
        model: setup.model,
        pci: match setup.report_pci_in_placement {
            true => PciInPlacement::Reported,
            false => PciInPlacement::NotReported,
        },
        ..ExecOptions::new(program, setup.state_path.join(EXEC_STATE))
    })
}
