//! Parses a `[[node.fault]]`.

use berth_model::PciAddress;
use berth_options::document::{DocumentParser, DocumentTable};

use crate::machine::DeviceFault;

pub(super) fn fault(
    table: &DocumentTable<'_>,
    reading: &mut DocumentParser<'_>,
) -> Option<(PciAddress, DeviceFault)> {
    table.only(&["device", "is"], reading);
    let right = "the PCI address of the faulty device, for example \"0000:84:00.0\"";
    let device = table.need("device", right, reading);
    let device = device.and_then(|field| field.parsed(reading));
    let words = DeviceFault::ALL.map(|fault| (fault.as_str(), fault));
    let is = table.need("is", "the fault, for example \"reset-fails\"", reading);
    let is = is.and_then(|field| field.one_of(&words, reading));
    Some((device?, is?))
}
