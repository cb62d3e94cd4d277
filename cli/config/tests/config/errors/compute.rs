//! `[compute]`

use super::Case;

pub(super) const CASES: &[Case] = super::cases! {
    "[compute]\ncpu_shraed_set = \"0-3\"" => ["berth.toml:2:1: compute.cpu_shraed_set: unknown option; did you mean cpu_shared_set? [BERTH-E0102]"];
    "[compute]\nreserved_host_memory_mb = 1" => ["berth.toml:2:1: compute.reserved_host_memory_mb: unknown option; it belongs at the top level [BERTH-E0102]"];
    "[compute]\nreserved_host_memory = 1" => ["berth.toml:2:1: compute.reserved_host_memory: unknown option; did you mean reserved_host_memory_mb at the top level? [BERTH-E0102]"];
    "[compute.cpu_shared_set]\nfirst = 0" => ["berth.toml:1:1: compute.cpu_shared_set: a text is wanted, not a table; write numbers, ranges and exclusions such as \"0-3,^2,8\" [BERTH-E0104]"];
    "[compute]\ncpu_shared_set = \"0-x\"" => ["berth.toml:2:18: compute.cpu_shared_set: \"0-x\" is no part of a CPU set: numbers 0 to 65535, ranges (4-7) and exclusions (^5), separated by commas, are; an example is \"0-3,^2,8\" [BERTH-E0105]"];
    "[compute]\ncpu_shared_set = \"^3\"" => ["berth.toml:2:18: compute.cpu_shared_set: \"^3\" leaves no CPU; write numbers, ranges and exclusions such as \"0-3,^2,8\" [BERTH-E0105]"];
    "[compute]\ncpu_shared_set = [0, 1]" => ["berth.toml:2:18: compute.cpu_shared_set: a text is wanted, not a list; write numbers, ranges and exclusions such as \"0-3,^2,8\" [BERTH-E0104]"];
    "[compute]\ncpu_shared_set = \"0-3\"\ncpu_dedicated_set = \"2-7\"" => ["berth.toml:3:21: compute.cpu_dedicated_set: CPU 2-3 is in cpu_shared_set too; a CPU is shared or dedicated, not both [BERTH-E0108]"];
    "[compute]\nowner_nova = \"yes\"" => ["berth.toml:2:14: compute.owner_nova: true or false is wanted, not the text \"yes\"; write true or false, without quotes [BERTH-E0104]"];
    "[compute]\nsharing_providers_max_uuids_per_request = 0" => ["berth.toml:2:43: compute.sharing_providers_max_uuids_per_request: 0 is out of range; write a whole number from 1 to 10000 [BERTH-E0105]"];
};
