//! Runs Cyborg's own drivers on a simulated host of files, without its agent.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{PeerError, installed, output};

const INTEL_FPGA: &str = "\
import json, sys
from cyborg.accelerator.drivers.fpga.intel import sysinfo
sysinfo.PCI_DEVICES_PATH_PATTERN = sys.argv[1] + '/bus/pci/devices/*'
sysinfo.SYS_FPGA = sys.argv[1] + '/class/fpga'
found = [deployable for device in sysinfo.fpga_tree() for deployable in device.deployable_list]
print(json.dumps([{
    'name': it.name,
    'num_accelerators': it.num_accelerators,
    'attach_handles': [json.loads(handle.attach_info) for handle in it.attach_handle_list],
} for it in found]))
";

/// The deployables that its driver of Intel's gate arrays makes of a device tree: a list of objects with `name`,
/// `num_accelerators` and `attach_handles` (Cyborg's `attach_info`).
pub fn intel_fpgas(sysfs: &Path) -> Result<Value, PeerError> {
    let python = installed()?.join("venv/bin/python");
    let printed = output(
        Command::new(&python)
            .args(["-I", "-c", INTEL_FPGA])
            .arg(sysfs),
    )?;
    serde_json::from_str(&printed).map_err(|source| PeerError::Command {
        program: python.display().to_string(),
        errors: format!("{source}: {printed}"),
    })
}
