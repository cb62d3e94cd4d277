//! [`NovaInstanceNumaTopology`]: the NUMA cells of an instance and the processors that they are pinned to.

use std::collections::BTreeMap;

use uuid::Uuid;

use crate::objects::object_type;

object_type! {
    /// The NUMA cells of an instance.
    NovaInstanceNumaTopology = "InstanceNUMATopology", None;
    instance_uuid / set_instance_uuid: Uuid;
    cells / set_cells: Vec<NovaInstanceNumaCell>;
    emulator_threads_policy / set_emulator_threads_policy: Option<&str>;
}

object_type! {
    /// A NUMA cell of an instance. After the claim its `id` is that of the host's cell.
    NovaInstanceNumaCell = "InstanceNUMACell", None;
    id / set_id: i64;
    /// Processors of the guest that float.
    cpuset / set_cpuset: Vec<i64>;
    /// Processors of the guest that are pinned.
    pcpuset / set_pcpuset: Vec<i64>;
    cpuset_reserved / set_cpuset_reserved: Option<Vec<i64>>;
    /// In MiB.
    memory / set_memory: i64;
    /// In KiB.
    pagesize / set_pagesize: Option<i64>;
    /// The host's processor of each pinned processor of the guest.
    cpu_pinning_raw / set_cpu_pinning_raw: Option<BTreeMap<String, i64>>;
    cpu_policy / set_cpu_policy: Option<&str>;
    cpu_thread_policy / set_cpu_thread_policy: Option<&str>;
}
