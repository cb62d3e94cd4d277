//! Checks the lists against the devices of this machine before an agent is started. Used by `berth config check`.

use berth_model::NodeName;
use berth_virt::DeviceCondition;

use super::{DeviceLists, DeviceRefusal, SeenFunction, offered_devices};
use crate::{Sysfs, SysfsError};

impl Sysfs {
    /// The devices that an agent with these lists would refuse at its first observation. The health of
    /// devices is not checked.
    pub fn refused_devices(
        &self,
        node: &NodeName,
        lists: DeviceLists<'_>,
    ) -> Result<Vec<DeviceRefusal>, SysfsError> {
        let mut seen = Vec::new();
        for function in self.pci_functions()? {
            let names = self.network_names(function.address)?;
            let allowed = lists.compute.admit(&function, &names).ok();
            let network = self.port_facts(allowed, &function)?;
            seen.push(SeenFunction {
                function,
                names,
                mdevs: None,
                network,
                condition: DeviceCondition::Fit,
            });
        }
        Ok(offered_devices(node, lists, &seen).refused)
    }
}
