//! The options of the resource tracker, and the files that add inventory and traits to providers (`provider_config_location`).

use std::path::Path;

use berth_agent_tracker::options::{Owner, Ratios, Rename, ReservedForHost, TrackerOptions};
use berth_agent_tracker::provider_config::ProviderConfigs;
use berth_config::Config;
use berth_model::AllocationRatio;
use berth_output::{ErrorCode, Failure, sentence};

/// Tracker options from the configuration.
pub fn tracker_options(config: &Config, rename: Rename) -> Result<TrackerOptions, Failure> {
    let ratio = |name: &str, value: f64| {
        AllocationRatio::new(value).map_err(|error| {
            Failure::new(
                ErrorCode::BadValue,
                format!("{name}_allocation_ratio: {error}"),
            )
        })
    };
    // In Nova, 0.0 means not configured.
    let configured = |name: &str, value: Option<f64>| {
        value
            .filter(|value| *value != 0.0)
            .map(|value| ratio(name, value))
            .transpose()
    };
    Ok(TrackerOptions {
        ratios: Ratios {
            cpu: configured("cpu", config.cpu_allocation_ratio)?,
            ram: configured("ram", config.ram_allocation_ratio)?,
            disk: configured("disk", config.disk_allocation_ratio)?,
            initial_cpu: ratio("initial_cpu", config.initial_cpu_allocation_ratio)?,
            initial_ram: ratio("initial_ram", config.initial_ram_allocation_ratio)?,
            initial_disk: ratio("initial_disk", config.initial_disk_allocation_ratio)?,
        },
        reserved: ReservedForHost {
            cpus: config.reserved_host_cpus,
            memory_mib: config.reserved_host_memory_mb,
            disk_mib: u32::try_from(config.reserved_host_disk_mb).unwrap_or(u32::MAX),
        },
        owner: if config.compute.owner_nova {
            Owner::Nova
        } else {
            Owner::Berth
        },
        association_refresh: config.compute.resource_provider_association_refresh(),
        aggregates_per_request: config.compute.sharing_providers_max_uuids_per_request,
        rename,
        provider_configs: provider_configs(&config.compute.provider_config_location).map_err(
            |wrong| {
                let wrong = wrong.join("; ");
                let what = format!("[compute] provider_config_location: {wrong}");
                Failure::new(ErrorCode::BadValue, what)
            },
        )?,
        ..TrackerOptions::default()
    })
}

/// Reads the files of this directory. A directory that is configured but does not exist is an error: treating it as
/// empty would remove everything that its files added to Placement.
pub fn provider_configs(directory: &Path) -> Result<ProviderConfigs, Vec<String>> {
    if directory != Path::new(PROVIDER_CONFIGS) && !directory.exists() {
        let shown = directory.display();
        return Err(vec![format!(
            "the directory {shown} does not exist; create it, or name the directory of the files"
        )]);
    }
    ProviderConfigs::read(directory)
        .map_err(|errors| errors.iter().map(|error| sentence(error)).collect())
}

/// The default directory of the files.
const PROVIDER_CONFIGS: &str = "/etc/berth/provider_config";
