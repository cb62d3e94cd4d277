//! Whether the host has UEFI firmware that keeps no variables.

use virt::connect::Connect;
use virt::error::{Error, ErrorNumber};

use crate::architecture::GuestArchitecture;

/// The first libvirt that knows such firmware. An older one ignores the attribute.
const FIRST_LIBVIRT: u32 = 8_006_000;

/// Whether libvirt finds such firmware for guests of this type. Its capabilities do not say so; but it looks for firmware
/// when it is asked for the command line of a guest, which starts nothing.
pub(crate) fn has_stateless_firmware(
    connect: &Connect,
    architecture: GuestArchitecture,
    kind: &str,
    secure_boot: bool,
) -> Result<bool, Error> {
    if connect.lib_version()? < FIRST_LIBVIRT {
        return Ok(false);
    }
    let (arch, machine) = (architecture.as_str(), architecture.machines()[0]);
    let is_x86 = architecture == GuestArchitecture::X86_64;
    let (enabled, smm) = match secure_boot {
        true if is_x86 => ("yes", "<smm state='on'/>"),
        true => ("yes", ""),
        false => ("no", ""),
    };
    let document = format!(
        "<domain type='{kind}'><name>stateless-firmware</name><memory unit='MiB'>64</memory><vcpu>1</vcpu>\
         <os firmware='efi'><type arch='{arch}' machine='{machine}'>hvm</type>\
         <firmware><feature enabled='{enabled}' name='secure-boot'/></firmware><loader stateless='yes'/></os>\
         <features><acpi/>{smm}</features><devices/></domain>"
    );
    match connect.domain_xml_to_native("qemu-argv", &document, 0) {
        Ok(_) => Ok(true),
        Err(error)
            if error
                .code()
                .is_known_and(|code| code == ErrorNumber::OperationFailed) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}
