//! Variables: the name, its value, and what is said.

pub(super) const CASES: &[(&str, &str, &[&str])] = super::variable_cases! {
    "BERTH__HOTS" = "a" => ["variable BERTH__HOTS: hots: unknown option; did you mean BERTH__HOST? [BERTH-E0102]"];
    "BERTH__COMPUTE__CPU_SHRAED_SET" = "0" => ["variable BERTH__COMPUTE__CPU_SHRAED_SET: compute.cpu_shraed_set: unknown option; did you mean BERTH__COMPUTE__CPU_SHARED_SET? [BERTH-E0102]"];
    "BERTH__COMPUE__CPU_SHARED_SET" = "0" => ["variable BERTH__COMPUE__CPU_SHARED_SET: compue: unknown section; did you mean BERTH__COMPUTE__CPU_SHARED_SET? [BERTH-E0102]"];
    "BERTH__COMPUTE__CPU_SHARED_SET" = "0-x" => ["variable BERTH__COMPUTE__CPU_SHARED_SET: compute.cpu_shared_set: \"0-x\" is no part of a CPU set: numbers 0 to 65535, ranges (4-7) and exclusions (^5), separated by commas, are; an example is \"0-3,^2,8\" [BERTH-E0105]"];
    "BERTH__RESERVED_HOST_MEMORY_MB" = "much" => ["variable BERTH__RESERVED_HOST_MEMORY_MB: reserved_host_memory_mb: a whole number is wanted, not the text \"much\"; write a whole number from 0 to 2147483647 [BERTH-E0104]"];
    "BERTH__COMPUTE__OWNER_NOVA" = "maybe" => ["variable BERTH__COMPUTE__OWNER_NOVA: compute.owner_nova: true or false is wanted, not the text \"maybe\"; write true or false, without quotes [BERTH-E0104]"];
    "BERTH__PLACEMENT__PASSWORD" = "" => ["variable BERTH__PLACEMENT__PASSWORD: placement.password: the text is empty; write the secret in quotes, on one line [BERTH-E0105]"];
    "BERTH__MDEV_A__DEVICE_ADDRESSES" = "0000:84:00.0,84" => ["variable BERTH__MDEV_A__DEVICE_ADDRESSES: mdev_A.device_addresses: \"84\" is not a PCI address; write addresses such as [\"0000:84:00.0\"] [BERTH-E0105]"];
    "BERTH__" = "a" => ["variable BERTH__: unknown option; see the options at the top level in the reference [BERTH-E0102]"];
    "BERTH_DATABASE_URL" = "hunter2" => ["variable BERTH_DATABASE_URL: placement_service.connection: this is not a database URL; write sqlite:PATH with an absolute path, postgresql://USER:PASSWORD@HOST/DATABASE, mysql://USER:PASSWORD@HOST/DATABASE, or file:PATH of a file with that in it [BERTH-E0105]"];
};
