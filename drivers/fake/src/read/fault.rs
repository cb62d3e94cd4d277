//! A `[[node.fault]]`.

use berth_model::PciAddress;

use super::Reading;
use super::field::Table;
use crate::machine::DeviceFault;

pub(super) fn fault(
    table: &Table<'_>,
    reading: &mut Reading<'_>,
) -> Option<(PciAddress, DeviceFault)> {
    table.only(&["device", "is"], reading);
    let right = "the PCI address of what is broken, as \"0000:84:00.0\"";
    let device = table.need("device", right, reading);
    let device = device.and_then(|field| field.parsed(reading));
    let words = DeviceFault::ALL.map(|fault| (fault.as_str(), fault));
    let is = table.need("is", "what goes wrong with it, as \"reset-fails\"", reading);
    let is = is.and_then(|field| field.word(&words, reading));
    Some((device?, is?))
}
