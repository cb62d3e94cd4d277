//! What has to be saved when a method is not served.
//!
//! nova-api sets a task state before it sends a cast, and only the compute service ends it. An instance with a task state accepts hardly any action,
//! so its user could not leave that state.

use super::method::ComputeMethod;
use crate::failure::ReplyFailure;
use crate::objects::NovaInstance;
use crate::states::{NovaTaskState, NovaVmState};

/// What else nova-api or nova-conductor prepared for a method, and a failed method must undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnservedCleanup {
    /// The empty image of a snapshot is deleted.
    DeleteImage,
    /// The migration gets the status `error`.
    FailMigration,
    /// The instance gets back the allocations that its migration holds.
    RevertAllocations,
    /// The allocations that the scheduler made on this host are deleted.
    DeleteAllocations,
    /// The mapping's row and the attachment are deleted.
    ForgetVolume,
    /// Cinder is told that the volume stays attached (`roll_detaching`).
    KeepVolume,
    /// Cinder is told that the volume was not replaced.
    RevertVolumeSwap,
    /// Cinder is told that the snapshot failed.
    FailVolumeSnapshot,
    /// The share's mapping gets the status `error`.
    FailShare,
}

/// What is saved for an instance whose action is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnservedOutcome {
    /// The `vm_state` to save; `None` keeps it.
    pub vm_state: Option<NovaVmState>,
    /// Whether the `task_state` becomes null. Then the save expects the task state that the instance has.
    pub ends_task_state: bool,
    /// Whether a fault tells the user why.
    pub fault: bool,
    pub cleanups: &'static [UnservedCleanup],
}

/// What nova-api and nova-conductor do before they send a method.
struct Preparation {
    /// The task states that the method ends.
    task_states: &'static [NovaTaskState],
    /// Whether what was done before cannot be taken back, so that the instance becomes an `error`.
    is_error: bool,
    cleanups: &'static [UnservedCleanup],
}

/// What to save when a method is not served, or not for this instance. An instance that is being deleted stays so.
#[must_use]
pub fn outcome_of_unserved(method: ComputeMethod, instance: &NovaInstance) -> UnservedOutcome {
    let preparation = preparation(method);
    let ends_task_state = match instance.task_state() {
        Ok(Some(state)) => preparation.task_states.contains(&state),
        Ok(None) => false,
        // A word that Nova does not have: no other service will end it.
        Err(_) => instance.is_task_state_set() && !preparation.task_states.is_empty(),
    };
    UnservedOutcome {
        vm_state: (preparation.is_error && ends_task_state).then_some(NovaVmState::Error),
        ends_task_state,
        fault: ends_task_state || !preparation.cleanups.is_empty(),
        cleanups: preparation.cleanups,
    }
}

/// The exception that answers a call of a method that is not served.
#[must_use]
pub fn failure_of_unserved(method: ComputeMethod) -> ReplyFailure {
    use ComputeMethod as M;
    match method {
        // The conductor then tries another host.
        M::CheckCanLiveMigrateDestination
        | M::CheckCanLiveMigrateSource
        | M::PrepSnapshotBasedResizeAtDest => ReplyFailure::MigrationPreCheckError,
        // nova-api asks this first when a volume is attached. It has no rule for NotImplementedError there.
        M::ReserveBlockDeviceName => ReplyFailure::InvalidInput,
        _ => ReplyFailure::NotImplementedError,
    }
}

fn preparation(method: ComputeMethod) -> Preparation {
    use ComputeMethod as M;
    use NovaTaskState as T;
    use UnservedCleanup as C;
    let (task_states, cleanups): (&'static [T], &'static [C]) = match method {
        M::BuildAndRunInstance => (
            &[
                T::Scheduling,
                T::Networking,
                T::BlockDeviceMapping,
                T::Spawning,
            ],
            &[C::DeleteAllocations],
        ),
        M::TerminateInstance => (&[T::Deleting], &[]),
        M::SoftDeleteInstance => (&[T::SoftDeleting], &[]),
        M::RestoreInstance => (&[T::Restoring], &[]),
        M::StartInstance => (&[T::PoweringOn], &[]),
        M::StopInstance => (&[T::PoweringOff], &[]),
        M::RebootInstance => (
            &[
                T::Rebooting,
                T::RebootPending,
                T::RebootStarted,
                T::RebootingHard,
                T::RebootPendingHard,
                T::RebootStartedHard,
            ],
            &[],
        ),
        M::PauseInstance => (&[T::Pausing], &[]),
        M::UnpauseInstance => (&[T::Unpausing], &[]),
        M::SuspendInstance => (&[T::Suspending], &[]),
        M::ResumeInstance => (&[T::Resuming], &[]),
        M::RescueInstance => (&[T::Rescuing], &[]),
        M::UnrescueInstance => (&[T::Unrescuing], &[]),
        M::RebuildInstance => (
            &[
                T::Rebuilding,
                T::RebuildBlockDeviceMapping,
                T::RebuildSpawning,
            ],
            &[],
        ),
        M::SetAdminPassword => (&[T::UpdatingPassword], &[]),
        M::SnapshotInstance | M::BackupInstance => (
            &[
                T::ImageSnapshotPending,
                T::ImageBackup,
                T::ImageSnapshot,
                T::ImagePendingUpload,
                T::ImageUploading,
            ],
            &[C::DeleteImage],
        ),
        M::ShelveInstance => (
            &[
                T::Shelving,
                T::ShelvingImagePendingUpload,
                T::ShelvingImageUploading,
            ],
            &[C::DeleteImage],
        ),
        M::ShelveOffloadInstance => (&[T::ShelvingOffloading], &[]),
        M::UnshelveInstance => (&[T::Unshelving], &[C::DeleteAllocations]),
        other => return of_volumes_and_moves(other),
    };
    let is_error = matches!(
        method,
        M::BuildAndRunInstance | M::TerminateInstance | M::RebuildInstance
    );
    Preparation {
        task_states,
        is_error,
        cleanups,
    }
}

fn of_volumes_and_moves(method: ComputeMethod) -> Preparation {
    use ComputeMethod as M;
    use NovaTaskState as T;
    use UnservedCleanup as C;
    let (task_states, cleanups): (&'static [T], &'static [C]) = match method {
        M::AttachVolume => (&[], &[C::ForgetVolume]),
        M::DetachVolume => (&[], &[C::KeepVolume]),
        M::SwapVolume => (&[], &[C::RevertVolumeSwap]),
        M::VolumeSnapshotCreate | M::VolumeSnapshotDelete => (&[], &[C::FailVolumeSnapshot]),
        M::AllowShare | M::DenyShare => (&[], &[C::FailShare]),
        M::LiveMigration => (&[T::Migrating], &[C::FailMigration, C::RevertAllocations]),
        M::PrepResize => (&[T::ResizePrep], &[C::FailMigration, C::RevertAllocations]),
        M::ResizeInstance => (
            &[T::ResizePrep, T::ResizeMigrating],
            &[C::FailMigration, C::RevertAllocations],
        ),
        M::FinishResize => (&[T::ResizeMigrated, T::ResizeFinish], &[C::FailMigration]),
        M::RevertResize => (&[T::ResizeReverting], &[]),
        M::FinishRevertResize => (&[T::ResizeReverting], &[C::FailMigration]),
        M::ConfirmResize => (&[T::ResizeConfirming], &[C::FailMigration]),
        // Calls whose caller handles the failure, and casts before which nothing was prepared.
        _ => (&[], &[]),
    };
    // The instance belongs to this host and its disks are elsewhere.
    let is_error = matches!(method, M::FinishResize | M::FinishRevertResize);
    Preparation {
        task_states,
        is_error,
        cleanups,
    }
}
