//! [`ComputeMethod`]: the methods of Nova's compute RPC interface.

use strum::{Display, EnumString, IntoStaticStr, VariantArray};

/// A method of the compute RPC interface 6.x. A test compares the list with the releases.
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
pub enum ComputeMethod {
    AddFixedIpToInstance,
    AllowShare,
    AttachInterface,
    AttachVolume,
    BackupInstance,
    BuildAndRunInstance,
    CacheImages,
    CheckCanLiveMigrateDestination,
    CheckCanLiveMigrateSource,
    CheckInstanceSharedStorage,
    ConfirmResize,
    ConfirmSnapshotBasedResizeAtSource,
    DenyShare,
    DetachInterface,
    DetachVolume,
    DropMoveClaimAtDestination,
    ExternalInstanceEvent,
    FinishResize,
    FinishRevertResize,
    FinishRevertSnapshotBasedResizeAtSource,
    FinishSnapshotBasedResizeAtDest,
    GetConsoleOutput,
    GetDiagnostics,
    GetHostUptime,
    GetInstanceDiagnostics,
    GetMksConsole,
    GetSerialConsole,
    GetSpiceConsole,
    GetVncConsole,
    HostMaintenanceMode,
    HostPowerAction,
    InjectNetworkInfo,
    LiveMigration,
    LiveMigrationAbort,
    LiveMigrationForceComplete,
    PauseInstance,
    PostLiveMigrationAtDestination,
    PreLiveMigration,
    PrepResize,
    PrepSnapshotBasedResizeAtDest,
    PrepSnapshotBasedResizeAtSource,
    QuiesceInstance,
    RebootInstance,
    RebuildInstance,
    RemoveFixedIpFromInstance,
    RemoveVolumeConnection,
    RescueInstance,
    ReserveBlockDeviceName,
    ResizeInstance,
    RestoreInstance,
    ResumeInstance,
    RevertResize,
    RevertSnapshotBasedResizeAtDest,
    RollbackLiveMigrationAtDestination,
    SetAdminPassword,
    SetHostEnabled,
    ShelveInstance,
    ShelveOffloadInstance,
    SnapshotInstance,
    SoftDeleteInstance,
    StartInstance,
    StopInstance,
    SuspendInstance,
    SwapVolume,
    TerminateInstance,
    TriggerCrashDump,
    UnpauseInstance,
    UnquiesceInstance,
    UnrescueInstance,
    UnshelveInstance,
    ValidateConsolePort,
    VolumeSnapshotCreate,
    VolumeSnapshotDelete,
}

impl ComputeMethod {
    /// The name on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    #[must_use]
    pub fn all() -> &'static [Self] {
        Self::VARIANTS
    }
}
