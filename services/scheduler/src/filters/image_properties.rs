//! `ImagePropertiesFilter`: the host must support the image's architecture, hypervisor type and VM mode, with a
//! hypervisor of the required version.
//!
//! An image without any of the three passes everywhere, whatever version it requires.

use super::{Filter, FilterPlan, Runs};
use crate::host_state::{CapabilityRef, ConsideredHost, HostState};
use crate::numbers;
use crate::options::SchedulerOptions;
use crate::reason::Reason;
use crate::request::{RequestSpec, architecture};
use crate::version::{self, VersionPredicate};

pub(super) struct ImagePropertiesFilter;

impl Filter for ImagePropertiesFilter {
    fn name(&self) -> &'static str {
        "ImagePropertiesFilter"
    }

    fn runs(&self) -> Runs {
        Runs::ONCE_AND_ON_REBUILD
    }

    fn plan<'a>(
        &'a self,
        request: &'a RequestSpec,
        options: &'a SchedulerOptions,
    ) -> FilterPlan<'a> {
        let demand = ImageRequirement::read(request, options);
        if demand.kind.iter().all(Option::is_none) {
            return FilterPlan::PassAll;
        }
        FilterPlan::each(move |host: &mut ConsideredHost| demand.check(&host.state))
    }
}

/// The requirements of the image.
struct ImageRequirement {
    /// Architecture, hypervisor type, VM mode.
    kind: [Option<String>; 3],
    version: Option<(VersionPredicate, String)>,
    bits: Option<i64>,
    compares_bits: bool,
}

impl ImageRequirement {
    fn read(request: &RequestSpec, options: &SchedulerOptions) -> Self {
        let options = &options.filter_scheduler;
        let properties = request.image.as_ref().map(|image| &image.properties);
        let get = |name: &str| properties.and_then(|all| all.get(name)).map(str::to_owned);
        let default = options.image_properties_default_architecture.as_deref();
        let default = default.map(|name| architecture(name).unwrap_or_else(|_| name.to_owned()));
        let version = get("img_hv_requested_version");
        let bits = get("hw_maxphysaddr_bits").and_then(|it| numbers::int(&it));
        Self {
            kind: [
                get("hw_architecture").or(default),
                get("img_hv_type"),
                get("hw_vm_mode"),
            ],
            version: version.and_then(|it| Some((VersionPredicate::new(&it).ok()?, it))),
            bits: bits.filter(|it| *it != 0),
            compares_bits: options.compare_image_maxphysaddr_bits,
        }
    }

    fn check(&self, host: &HostState) -> Result<(), Reason> {
        // The position of a word among the three is ignored, as in Nova.
        let is_right = |one: &[String; 3]| self.kind.iter().flatten().all(|it| one.contains(it));
        if !host.supported_instances.iter().any(is_right) {
            let all = host.supported_instances.iter();
            return Err(Reason::ImageNotSupported {
                asked: self.kind.clone(),
                supported_instances: all.map(|it| it.join("/")).collect(),
            });
        }
        self.check_version(host)?;
        self.check_bits(host)
    }

    fn check_version(&self, host: &HostState) -> Result<(), Reason> {
        let Some((predicate, text)) = &self.version else {
            return Ok(());
        };
        let Some(version) = host.hypervisor_version.and_then(version::parts) else {
            return Ok(());
        };
        if predicate.holds_for(&version) {
            return Ok(());
        }
        let parts: Vec<String> = version.iter().map(u64::to_string).collect();
        Err(Reason::HypervisorVersion {
            hypervisor_version: parts.join("."),
            requested_version: text.clone(),
        })
    }

    /// A host that does not report its address bits passes.
    fn check_bits(&self, host: &HostState) -> Result<(), Reason> {
        let Some(requested) = self.bits else {
            return Ok(());
        };
        let bits = match self.compares_bits {
            true => maxphysaddr_bits(host),
            false => None,
        };
        let is_enough = bits.map_or(self.compares_bits, |bits| bits >= requested);
        if is_enough {
            return Ok(());
        }
        Err(Reason::MaxphysaddrBits { bits, requested })
    }
}

fn maxphysaddr_bits(host: &HostState) -> Option<i64> {
    let field = |value: CapabilityRef<'_>, name: &str| match value {
        CapabilityRef::Dict(dict) => dict.get(name).cloned(),
        _ => None,
    };
    let info = host.cpu_info.as_ref()?.value()?;
    let address = field(info.view(), "maxphysaddr")?;
    match field(address.view(), "bits")?.view() {
        CapabilityRef::Int(bits) if bits != 0 => Some(bits),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::filters::testing::verdicts;
    use crate::options::SchedulerOptions;

    #[test]
    fn a_host_runs_what_the_image_is_for() {
        let hosts = json!([
            {"supported_instances": [["i686", "kvm", "hvm"], ["x86_64", "kvm", "hvm"]],
             "hv_version": 8_002_001, "cpu_info": "{\"maxphysaddr\": {\"bits\": 46}}"},
            {"supported_instances": [["aarch64", "kvm", "hvm"]]},
            {"supported_instances": [["x86_64", "xen", "xen"]], "hv_version": 0},
            {},
        ]);
        let (no, version, bits) = (
            "image_not_supported",
            "hypervisor_version",
            "maxphysaddr_bits",
        );
        for (properties, expected) in [
            (json!({}), [""; 4]),
            (json!({"architecture": "amd64"}), ["", no, "", no]),
            (
                json!({"hw_vm_mode": "HVM", "img_hv_type": "KVM"}),
                ["", "", no, no],
            ),
            (
                json!({"hw_architecture": "x86_64", "hw_vm_mode": "pv"}),
                [no, no, "", no],
            ),
            (json!({"img_hv_type": "ironic"}), [no; 4]),
            (
                json!({"img_hv_requested_version": ">=99", "hw_maxphysaddr_bits": "99"}),
                [""; 4],
            ),
            (
                json!({"hw_architecture": "x86_64", "img_hv_requested_version": ">=8.2.2, <9"}),
                [version, no, "", no],
            ),
            (
                json!({"hw_architecture": "x86_64", "hypervisor_version_requires": "==8.2.1"}),
                ["", no, "", no],
            ),
            (
                json!({"hw_architecture": "x86_64", "hw_maxphysaddr_bits": "46"}),
                ["", no, "", no],
            ),
            (
                json!({"hw_architecture": "x86_64", "hw_maxphysaddr_bits": "47"}),
                [bits, no, "", no],
            ),
        ] {
            let request = json!({"image": {"properties": properties}});
            let got = verdicts(
                "ImagePropertiesFilter",
                &SchedulerOptions::default(),
                &request,
                &hosts,
            );
            assert_eq!(got, expected, "{properties}");
        }
        let mut options = SchedulerOptions::default();
        options.filter_scheduler.compare_image_maxphysaddr_bits = false;
        let request =
            json!({"image": {"properties": {"vm_mode": "hvm", "hw_maxphysaddr_bits": "1"}}});
        let got = verdicts("ImagePropertiesFilter", &options, &request, &hosts);
        assert_eq!(got, [bits, bits, no, no]);
    }

    #[test]
    fn an_image_without_architecture_has_the_default_one() {
        let hosts = json!([
            {"supported_instances": [["x86_64", "kvm", "hvm"]]},
            {"supported_instances": [["aarch64", "kvm", "hvm"]]},
        ]);
        let mut options = SchedulerOptions::default();
        let default = &mut options
            .filter_scheduler
            .image_properties_default_architecture;
        *default = Some("amd64".to_owned());
        let no = "image_not_supported";
        for (image, expected) in [
            (json!(null), ["", no]),
            (json!({}), ["", no]),
            (json!({"properties": {"architecture": "aarch64"}}), [no, ""]),
        ] {
            let request = json!({"image": image});
            let got = verdicts("ImagePropertiesFilter", &options, &request, &hosts);
            assert_eq!(got, expected, "{image}");
        }
    }
}
