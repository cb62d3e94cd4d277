//! Loads libvirt's functions at run time through one trampoline per function, so that the program does not link to libvirt.
//!
//! One binary serves hosts with and without libvirt, and the library alone maps 13 MiB. The `virt` crate refers to libvirt's
//! functions as linker symbols. Every one of them is defined here as a jump through a slot, so the linker does not need
//! `libvirt.so.0`. [`load`] opens the library and fills the slots. Until then, and for functions that an older libvirt lacks, a
//! slot leads to `absent`, which ends the process with a message. `connection` calls [`load`] first. See ADR 0004.
#![allow(
    unsafe_code,
    reason = "defines and fills the jump table of a C library"
)]

use std::ffi::{CStr, CString, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use thiserror::Error;

/// The library's name at run time.
const LIBRARY: &CStr = c"libvirt.so.0";

/// Why libvirt's library cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LoadError {
    /// `libvirt.so.0` or a library that it needs is not installed.
    #[error("libvirt's library cannot be loaded: {reason}; install it (apt install libvirt0)")]
    Missing {
        /// The dynamic loader's message.
        reason: String,
    },
    /// The library is there, but lacks functions this driver cannot do without.
    #[error("libvirt's library is too old: it lacks {}; version 6.0 is needed", functions.join(", "))]
    TooOld { functions: Vec<&'static str> },
}

/// A place a trampoline jumps through.
type Slot = AtomicPtr<c_void>;

/// Defines the trampolines: an index per name, the names, the slots, and the code.
macro_rules! trampolines {
    ($($name:ident)*) => {
        #[allow(non_camel_case_types, reason = "libvirt's own names")]
        #[derive(Clone, Copy)]
        enum Index { $($name),* }

        const NAMES: &[&str] = &[$(stringify!($name)),*];

        static SLOTS: [Slot; NAMES.len()] = [const { Slot::new(absent as *mut c_void) }; NAMES.len()];

        $(trampoline!($name);)*
    };
}

/// A jump through a slot. Hidden, so that libvirt's own calls never resolve to it.
#[cfg(target_arch = "x86_64")]
macro_rules! trampoline {
    ($name:ident) => {
        core::arch::global_asm!(
            concat!(".globl ", stringify!($name)),
            concat!(".hidden ", stringify!($name)),
            concat!(".type ", stringify!($name), ",@function"),
            concat!(stringify!($name), ":"),
            "jmp qword ptr [rip + {slots} + {offset}]",
            concat!(".size ", stringify!($name), ", . - ", stringify!($name)),
            slots = sym SLOTS,
            offset = const Index::$name as usize * size_of::<Slot>(),
        );
    };
}

/// A jump through a slot. Hidden, so that libvirt's own calls never resolve to it.
#[cfg(target_arch = "aarch64")]
macro_rules! trampoline {
    ($name:ident) => {
        core::arch::global_asm!(
            ".p2align 2",
            concat!(".globl ", stringify!($name)),
            concat!(".hidden ", stringify!($name)),
            concat!(".type ", stringify!($name), ",%function"),
            concat!(stringify!($name), ":"),
            "adrp x16, {slots} + {offset}",
            "ldr x16, [x16, :lo12:{slots} + {offset}]",
            "br x16",
            concat!(".size ", stringify!($name), ", . - ", stringify!($name)),
            slots = sym SLOTS,
            offset = const Index::$name as usize * size_of::<Slot>(),
        );
    };
}

// Every function that the `virt` crate uses, and the functions that this crate calls through `virt-sys`. If a name were
// missing, the linker would require libvirt; then `tests/not_linked.rs` fails.
trampolines! {
    virConnectBaselineCPU virConnectClose virConnectCompareCPU
    virConnectDomainEventDeregisterAny virConnectDomainEventRegisterAny
    virConnectDomainXMLFromNative virConnectDomainXMLToNative virConnectFindStoragePoolSources
    virConnectGetAllDomainStats virConnectGetCPUModelNames virConnectGetCapabilities
    virConnectGetDomainCapabilities virConnectGetHostname virConnectGetLibVersion
    virConnectGetMaxVcpus virConnectGetSysinfo virConnectGetType virConnectGetURI
    virConnectGetVersion virConnectIsAlive virConnectIsEncrypted virConnectIsSecure
    virConnectListAllDomains virConnectListAllInterfaces virConnectListAllNWFilters
    virConnectListAllNetworks virConnectListAllNodeDevices virConnectListAllSecrets
    virConnectListAllStoragePools virConnectListDefinedDomains virConnectListDefinedInterfaces
    virConnectListDefinedNetworks virConnectListDefinedStoragePools virConnectListDomains
    virConnectListInterfaces virConnectListNWFilters virConnectListNetworks
    virConnectListSecrets virConnectListStoragePools virConnectNodeDeviceEventDeregisterAny
    virConnectNodeDeviceEventRegisterAny virConnectNumOfDefinedDomains
    virConnectNumOfDefinedInterfaces virConnectNumOfDefinedNetworks
    virConnectNumOfDefinedStoragePools virConnectNumOfDomains virConnectNumOfInterfaces
    virConnectNumOfNWFilters virConnectNumOfNetworks virConnectNumOfSecrets
    virConnectNumOfStoragePools virConnectOpen virConnectOpenAuth virConnectOpenReadOnly
    virConnectRef virConnectRegisterCloseCallback virConnectSetKeepAlive
    virConnectUnregisterCloseCallback virDomainAttachDevice virDomainAttachDeviceFlags
    virDomainBlockResize virDomainBlockStats virDomainCoreDump virDomainCoreDumpWithFormat
    virDomainCreate virDomainCreateWithFlags virDomainCreateXML virDomainDefineXML
    virDomainDefineXMLFlags virDomainDestroy virDomainDestroyFlags virDomainDetachDevice
    virDomainDetachDeviceFlags virDomainFree virDomainGetAutostart virDomainGetBlockInfo
    virDomainGetCPUStats virDomainGetConnect virDomainGetHostname virDomainGetID
    virDomainGetInfo virDomainGetJobInfo virDomainGetJobStats virDomainGetMaxMemory
    virDomainGetMaxVcpus virDomainGetMemoryParameters virDomainGetMetadata virDomainGetName
    virDomainGetNumaParameters virDomainGetOSType virDomainGetSchedulerParameters
    virDomainGetSchedulerParametersFlags virDomainGetSchedulerType virDomainGetState
    virDomainGetTime virDomainGetUUID virDomainGetUUIDString virDomainGetVcpusFlags
    virDomainGetXMLDesc virDomainHasManagedSaveImage virDomainInterfaceAddresses
    virDomainInterfaceStats virDomainIsActive virDomainIsPersistent virDomainIsUpdated
    virDomainListAllSnapshots virDomainLookupByID virDomainLookupByName virDomainLookupByUUID
    virDomainLookupByUUIDString virDomainManagedSave virDomainManagedSaveRemove
    virDomainMemoryStats virDomainMigrate virDomainMigrate2 virDomainMigrate3
    virDomainMigrateGetCompressionCache virDomainMigrateGetMaxSpeed
    virDomainMigrateSetCompressionCache virDomainMigrateSetMaxDowntime
    virDomainMigrateSetMaxSpeed virDomainMigrateToURI virDomainMigrateToURI2
    virDomainMigrateToURI3 virDomainOpenChannel virDomainOpenConsole virDomainOpenGraphics
    virDomainOpenGraphicsFD virDomainPMWakeup virDomainPinEmulator virDomainPinVcpu
    virDomainPinVcpuFlags virDomainReboot virDomainRef virDomainRename virDomainReset
    virDomainRestore virDomainRestoreFlags virDomainResume virDomainRevertToSnapshot
    virDomainSaveImageDefineXML virDomainSaveImageGetXMLDesc virDomainScreenshot
    virDomainSendKey virDomainSetAutostart virDomainSetBlockThreshold
    virDomainSetLifecycleAction virDomainSetMaxMemory virDomainSetMemory virDomainSetMemoryFlags
    virDomainSetMemoryParameters virDomainSetMemoryStatsPeriod virDomainSetMetadata
    virDomainSetNumaParameters virDomainSetSchedulerParameters
    virDomainSetSchedulerParametersFlags virDomainSetTime virDomainSetUserPassword
    virDomainSetVcpus virDomainSetVcpusFlags virDomainShutdown virDomainShutdownFlags
    virDomainSnapshotCreateXML virDomainSnapshotCurrent virDomainSnapshotDelete
    virDomainSnapshotFree virDomainSnapshotGetConnect virDomainSnapshotGetDomain
    virDomainSnapshotGetName virDomainSnapshotGetParent virDomainSnapshotGetXMLDesc
    virDomainSnapshotHasMetadata virDomainSnapshotIsCurrent virDomainSnapshotListAllChildren
    virDomainSnapshotLookupByName virDomainSnapshotNum virDomainSnapshotNumChildren
    virDomainSnapshotRef virDomainSuspend virDomainUndefine virDomainUndefineFlags
    virDomainUpdateDeviceFlags virEventAddHandle virEventAddTimeout virEventRegisterDefaultImpl
    virEventRemoveHandle virEventRemoveTimeout virEventRunDefaultImpl virEventUpdateHandle
    virEventUpdateTimeout virGetLastError virGetVersion virInterfaceCreate virInterfaceDefineXML
    virInterfaceDestroy virInterfaceFree virInterfaceGetConnect virInterfaceGetMACString
    virInterfaceGetName virInterfaceGetXMLDesc virInterfaceIsActive
    virInterfaceLookupByMACString virInterfaceLookupByName virInterfaceRef virInterfaceUndefine
    virNWFilterDefineXML virNWFilterFree virNWFilterGetName virNWFilterGetUUID
    virNWFilterGetUUIDString virNWFilterGetXMLDesc virNWFilterLookupByName
    virNWFilterLookupByUUID virNWFilterLookupByUUIDString virNWFilterRef virNWFilterUndefine
    virNetworkCreate virNetworkCreateXML virNetworkDefineXML virNetworkDestroy virNetworkFree
    virNetworkGetAutostart virNetworkGetBridgeName virNetworkGetConnect virNetworkGetName
    virNetworkGetUUID virNetworkGetUUIDString virNetworkGetXMLDesc virNetworkIsActive
    virNetworkIsPersistent virNetworkLookupByName virNetworkLookupByUUID
    virNetworkLookupByUUIDString virNetworkRef virNetworkSetAutostart virNetworkUndefine
    virNetworkUpdate virNodeDeviceCreate virNodeDeviceCreateXML virNodeDeviceDefineXML
    virNodeDeviceDestroy virNodeDeviceDetachFlags virNodeDeviceDettach virNodeDeviceFree
    virNodeDeviceGetName virNodeDeviceGetParent virNodeDeviceGetXMLDesc virNodeDeviceListCaps
    virNodeDeviceLookupByName virNodeDeviceLookupSCSIHostByWWN virNodeDeviceNumOfCaps
    virNodeDeviceReAttach virNodeDeviceRef virNodeDeviceReset virNodeDeviceUndefine
    virNodeGetCellsFreeMemory virNodeGetFreeMemory virNodeGetFreePages virNodeGetInfo
    virNodeNumOfDevices virSecretDefineXML virSecretFree virSecretGetConnect virSecretGetUUID
    virSecretGetUUIDString virSecretGetUsageID virSecretGetUsageType virSecretGetValue
    virSecretGetXMLDesc virSecretLookupByUUID virSecretLookupByUUIDString virSecretLookupByUsage
    virSecretRef virSecretSetValue virSecretUndefine virSetErrorFunc virStoragePoolBuild
    virStoragePoolCreate virStoragePoolCreateXML virStoragePoolDefineXML virStoragePoolDelete
    virStoragePoolDestroy virStoragePoolFree virStoragePoolGetAutostart virStoragePoolGetConnect
    virStoragePoolGetInfo virStoragePoolGetName virStoragePoolGetUUID
    virStoragePoolGetUUIDString virStoragePoolGetXMLDesc virStoragePoolIsActive
    virStoragePoolIsPersistent virStoragePoolListAllVolumes virStoragePoolListVolumes
    virStoragePoolLookupByName virStoragePoolLookupByTargetPath virStoragePoolLookupByUUID
    virStoragePoolLookupByUUIDString virStoragePoolLookupByVolume virStoragePoolNumOfVolumes
    virStoragePoolRef virStoragePoolRefresh virStoragePoolSetAutostart virStoragePoolUndefine
    virStorageVolCreateXML virStorageVolCreateXMLFrom virStorageVolDelete virStorageVolDownload
    virStorageVolFree virStorageVolGetConnect virStorageVolGetInfo virStorageVolGetInfoFlags
    virStorageVolGetKey virStorageVolGetName virStorageVolGetPath virStorageVolGetXMLDesc
    virStorageVolLookupByKey virStorageVolLookupByName virStorageVolLookupByPath
    virStorageVolRef virStorageVolResize virStorageVolUpload virStorageVolWipe
    virStorageVolWipePattern virStreamAbort virStreamEventAddCallback
    virStreamEventRemoveCallback virStreamEventUpdateCallback virStreamFinish virStreamFree
    virStreamNew virStreamRecv virStreamRef virStreamSend
}

/// Functions that observation requires; others may be missing in an older libvirt.
const REQUIRED: &[&str] = &[
    "virConnectOpen",
    "virConnectClose",
    "virConnectIsAlive",
    "virConnectGetCapabilities",
    "virConnectGetHostname",
    "virConnectListAllDomains",
    "virConnectListAllNodeDevices",
    "virConnectDomainEventRegisterAny",
    "virConnectNodeDeviceEventRegisterAny",
    "virConnectRegisterCloseCallback",
    "virDomainGetName",
    "virDomainGetUUID",
    "virDomainGetXMLDesc",
    "virEventRegisterDefaultImpl",
    "virEventRunDefaultImpl",
    "virGetLastError",
    "virNodeDeviceGetXMLDesc",
    "virSetErrorFunc",
];

/// Loads libvirt's library and fills the slots. The first result is kept for the life of the process.
pub fn load() -> Result<(), LoadError> {
    static LOADED: OnceLock<Result<(), LoadError>> = OnceLock::new();
    LOADED.get_or_init(|| fill(LIBRARY)).clone()
}

fn fill(library: &CStr) -> Result<(), LoadError> {
    let handle = open(library)?;
    let mut lacking = Vec::new();
    for (name, slot) in NAMES.iter().zip(&SLOTS) {
        match find(handle, name) {
            Some(address) => slot.store(address, Ordering::Release),
            None if REQUIRED.contains(name) => lacking.push(*name),
            None => {}
        }
    }
    if lacking.is_empty() {
        Ok(())
    } else {
        Err(LoadError::TooOld { functions: lacking })
    }
}

fn open(library: &CStr) -> Result<*mut c_void, LoadError> {
    // SAFETY: the name is a valid C string; the library's initialisers are libvirt's own and may run at any time. The
    // handle is never closed, so addresses from it stay valid.
    let handle = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        return Err(LoadError::Missing {
            reason: last_error(),
        });
    }
    Ok(handle)
}

fn last_error() -> String {
    // SAFETY: dlerror returns null or a C string that lives until this thread's next dl call; it is copied at once.
    let message = unsafe { libc::dlerror() };
    if message.is_null() {
        return "the dynamic loader gave no reason".to_owned();
    }
    // SAFETY: not null, see above.
    unsafe { CStr::from_ptr(message) }
        .to_string_lossy()
        .into_owned()
}

fn find(handle: *mut c_void, name: &str) -> Option<*mut c_void> {
    let name = CString::new(name).expect("an identifier holds no zero byte");
    // SAFETY: the handle came from dlopen and is never closed; the name is a valid C string.
    let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

/// The target of an unfilled slot: the library was not loaded, or lacks the function.
extern "C" fn absent() -> ! {
    use std::io::Write as _;
    let _ = std::io::stderr().write_all(
        b"berth: a libvirt function was called that this host's libvirt.so.0 does not have\n",
    );
    std::process::abort()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_required_function_has_a_trampoline() {
        for name in REQUIRED {
            assert!(NAMES.contains(name), "{name}");
        }
    }

    #[test]
    fn a_missing_library_is_an_error_that_names_the_package() {
        let error = fill(c"libvirt-that-is-not-there.so.0").expect_err("no such library");
        assert!(
            error.to_string().contains("apt install libvirt0"),
            "{error}"
        );
    }

    #[test]
    fn a_library_without_the_functions_is_too_old() {
        let error = open(c"libc.so.6").map(|_| fill(c"libc.so.6"));
        assert!(
            matches!(error, Ok(Err(LoadError::TooOld { .. }))),
            "{error:?}"
        );
    }

    #[test]
    fn a_call_through_a_trampoline_reaches_libvirt() {
        load().expect("libvirt0 is installed where this is built");
        assert!(virt::connect::Connect::version().is_ok_and(|version| version >= 6_000_000));
    }
}
