//! The states of an instance, in Nova's words.

use serde_json::Value;
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

use crate::field::FieldValue;

/// Makes an enumeration of words a type of fields.
macro_rules! word_field {
    ($Type:ty, $expected:literal) => {
        impl $crate::field::FieldValue<'_> for $Type {
            const EXPECTED: &'static str = $expected;

            fn read(value: &serde_json::Value) -> Option<Self> {
                value.as_str()?.parse().ok()
            }

            fn write(self) -> serde_json::Value {
                <&'static str>::from(self).into()
            }
        }
    };
}
pub(crate) use word_field;

/// `vm_state`: the lasting state of an instance.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Display,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
#[strum(serialize_all = "snake_case")]
pub enum NovaVmState {
    Active,
    Building,
    Paused,
    Suspended,
    Stopped,
    Rescued,
    Resized,
    #[strum(serialize = "soft-delete")]
    SoftDeleted,
    Deleted,
    Error,
    Shelved,
    ShelvedOffloaded,
}

word_field!(NovaVmState, "a vm_state of Nova");

/// `task_state`: what is being done with an instance. An instance with a task state accepts few other actions.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Display,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
#[strum(serialize_all = "snake_case")]
pub enum NovaTaskState {
    Scheduling,
    BlockDeviceMapping,
    Networking,
    Spawning,
    ImageSnapshot,
    ImageSnapshotPending,
    ImagePendingUpload,
    ImageUploading,
    ImageBackup,
    UpdatingPassword,
    ResizePrep,
    ResizeMigrating,
    ResizeMigrated,
    ResizeFinish,
    ResizeReverting,
    ResizeConfirming,
    Rebooting,
    RebootPending,
    RebootStarted,
    RebootingHard,
    RebootPendingHard,
    RebootStartedHard,
    Pausing,
    Unpausing,
    Suspending,
    Resuming,
    #[strum(serialize = "powering-off")]
    PoweringOff,
    #[strum(serialize = "powering-on")]
    PoweringOn,
    Rescuing,
    Unrescuing,
    Rebuilding,
    RebuildBlockDeviceMapping,
    RebuildSpawning,
    Migrating,
    Deleting,
    #[strum(serialize = "soft-deleting")]
    SoftDeleting,
    Restoring,
    Shelving,
    ShelvingImagePendingUpload,
    ShelvingImageUploading,
    ShelvingOffloading,
    Unshelving,
}

word_field!(NovaTaskState, "a task_state of Nova");

/// `power_state`: what the hypervisor says about an instance. Nova writes it as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, VariantArray)]
pub enum NovaPowerState {
    NoState = 0,
    Running = 1,
    Paused = 3,
    Shutdown = 4,
    Crashed = 6,
    Suspended = 7,
}

impl FieldValue<'_> for NovaPowerState {
    const EXPECTED: &'static str = "a power_state of Nova: 0, 1, 3, 4, 6 or 7";

    fn read(value: &Value) -> Option<Self> {
        let number = value.as_i64()?;
        Self::VARIANTS
            .iter()
            .copied()
            .find(|state| *state as i64 == number)
    }

    fn write(self) -> Value {
        (self as i64).into()
    }
}
