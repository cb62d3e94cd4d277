//! Rules for flavors' extra specs.

use std::collections::BTreeMap;

use berth_model::{
    AllowedValues, EXTRA_SPEC_SCOPES, FlavorPlacement, GuestMachine, HostSupport, ResourceClass,
    Trait, check_extra_spec, extra_spec_names, known_extra_spec,
};

use super::enabled::EnabledFeatures;
use super::profiles::ONE_UNIT;
use super::{
    Catalogue, FlavorEntry, LintCode, LintFinding, LintSeverity, LintSubject, LintSubjectKind,
    requirement,
};
use berth_model::nearest_name;
use berth_scheduler_objects::host_state::Attribute;
use berth_scheduler_objects::numbers::int;
use berth_scheduler_objects::plugin::ExtraSpec;
use berth_scheduler_objects::request::{
    InstanceNumaTopology, PCI_ALIAS_SPEC, PciAliasError, PciRequest, RequestFlavor,
    SAME_LINK_GROUP_SPEC, aliases_of_one_link_group,
};

const OF_AGGREGATES: &str = "AggregateInstanceExtraSpecsFilter";
const OF_CAPABILITIES: &str = "ComputeCapabilitiesFilter";

pub(super) fn lint(
    flavor: &FlavorEntry,
    catalogue: &Catalogue,
    enabled: &EnabledFeatures,
    findings: &mut Vec<LintFinding>,
) {
    let before = findings.len();
    for (key, value) in &flavor.extra_specs {
        let place = LintSubject::new(LintSubjectKind::Flavor, &flavor.name, key);
        let spec = CheckedExtraSpec {
            place: &place,
            key,
            value,
            flavor,
            catalogue,
            enabled,
        };
        if spec.of_plugins(findings) {
            continue;
        }
        match key.split_once(':') {
            None => spec.unscoped(findings),
            Some(("capabilities", path)) => spec.capability(path, findings),
            Some(("aggregate_instance_extra_specs", key)) => spec.of_aggregates(key, findings),
            Some((scope, name)) => spec.scoped(scope, name, findings),
        }
    }
    let is_sound = findings[before..]
        .iter()
        .all(|it| it.severity != LintSeverity::Error);
    if is_sound {
        findings.extend(check_size(flavor));
    }
}

/// Checks a flavor of a known size as the scheduler and the hosts would.
fn check_size(flavor: &FlavorEntry) -> Option<LintFinding> {
    let asked = RequestFlavor {
        name: flavor.name.clone(),
        vcpus: flavor.vcpus?,
        memory_mb: flavor.memory_mb?,
        extra_specs: flavor.extra_specs.clone(),
        ..RequestFlavor::default()
    };
    let error = match InstanceNumaTopology::derive(&asked, None) {
        Err(error) => error.to_string(),
        Ok(_) => {
            let vcpus = u32::try_from(asked.vcpus).ok()?;
            let memory_mib = u64::try_from(asked.memory_mb).ok()?;
            let is_size = (1..=4096).contains(&vcpus) && (1..=1 << 30).contains(&memory_mib);
            let image = BTreeMap::new();
            let machine = || GuestMachine::of(vcpus, memory_mib, &asked.extra_specs, &image);
            // Secure boot and memory encryption need an image that boots by UEFI. The image is unknown here: no check.
            let mut needs_uefi = ["os:secure_boot", "hw:mem_encryption"].iter();
            if !is_size || needs_uefi.any(|key| asked.extra_specs.contains_key(*key)) {
                return None;
            }
            machine().err()?.to_string()
        }
    };
    let place = LintSubject {
        kind: LintSubjectKind::Flavor,
        name: flavor.name.clone(),
        key: None,
    };
    let text = format!("each request by it is refused: {error}");
    Some(place.finds(LintSeverity::Error, LintCode::BadValue, text))
}

/// One extra spec and its context.
struct CheckedExtraSpec<'a> {
    place: &'a LintSubject,
    key: &'a str,
    value: &'a str,
    flavor: &'a FlavorEntry,
    catalogue: &'a Catalogue,
    enabled: &'a EnabledFeatures,
}

impl CheckedExtraSpec<'_> {
    fn find(&self, severity: LintSeverity, code: LintCode, text: impl Into<String>) -> LintFinding {
        self.place.finds(severity, code, text)
    }

    /// Whether plugins read it, according to their manifests.
    fn of_plugins(&self, findings: &mut Vec<LintFinding>) -> bool {
        let plugins = self.catalogue.plugins.iter();
        let is_it = |spec: &ExtraSpec| spec.name == self.key;
        let mut readers = plugins
            .filter(|it| it.extra_specs.iter().any(is_it))
            .peekable();
        let is_read = readers.peek().is_some();
        let alone = BTreeMap::from([(self.key.to_owned(), self.value.to_owned())]);
        for wrong in readers.flat_map(|plugin| plugin.check(&alone)) {
            let text = format!(
                "the value is `{}`, and the plugin {} reads it",
                wrong.value, wrong.plugin
            );
            let found = self.find(LintSeverity::Error, LintCode::BadValue, text);
            findings.push(found.hint(wrong.wanted));
        }
        is_read
    }

    /// An extra spec that both ComputeCapabilitiesFilter and the aggregate filter read.
    fn unscoped(&self, findings: &mut Vec<LintFinding>) {
        let known = known_extra_spec(self.key);
        if let Some((values, _)) = known {
            findings.extend(self.wrong_value(values));
        } else {
            requirement::lint(self.place, self.value, findings);
        }
        if self.enabled.has_filter(OF_AGGREGATES) {
            if known.is_none() {
                let hint = format!("aggregate_instance_extra_specs:{}", self.key);
                let also = match Attribute::named(self.key) {
                    Some(_) => "reads it, and so does ComputeCapabilitiesFilter",
                    None => {
                        "reads it, and so does ComputeCapabilitiesFilter for hosts with a stat of this name"
                    }
                };
                let text = format!("it has no scope: {OF_AGGREGATES} {also}");
                findings.push(
                    self.find(LintSeverity::Warning, LintCode::Unscoped, text)
                        .hint(hint),
                );
            }
            findings.extend(self.never_met(self.key));
        } else if known.is_none() {
            let text = match self.enabled.has_filter(OF_CAPABILITIES) {
                true if Attribute::named(self.key).is_some() => return,
                true => format!(
                    "it has no scope, and hosts have no such attribute: only {OF_CAPABILITIES} reads it, for hosts with a stat of this name"
                ),
                false => format!(
                    "it has no scope, and neither {OF_CAPABILITIES} nor {OF_AGGREGATES} is enabled, which would read it"
                ),
            };
            let scoped = extra_spec_names().filter(|name| name.contains(':'));
            let unscoped = extra_spec_names().filter(|name| !name.contains(':'));
            let near = nearest_name(self.key, unscoped.chain(Attribute::names()));
            let tail = |name: &&str| name.split_once(':').map(|(_, tail)| tail) == Some(self.key);
            let near = near.or_else(|| {
                let mut scoped = scoped;
                scoped.find(tail)
            });
            findings.push(
                self.find(LintSeverity::Warning, LintCode::Unscoped, text)
                    .near(near),
            );
        }
    }

    fn capability(&self, path: &str, findings: &mut Vec<LintFinding>) {
        requirement::lint(self.place, self.value, findings);
        let first = path.split(':').next().unwrap_or_default();
        if Attribute::named(first).is_none() {
            let text = format!(
                "hosts have no attribute {first}: hosts without a stat of this name are rejected"
            );
            let near = nearest_name(first, Attribute::names());
            let near = near.map(|near| format!("capabilities:{near}{}", &path[first.len()..]));
            let found = self.find(LintSeverity::Warning, LintCode::UnknownName, text);
            findings.push(found.near(near.as_deref()));
        }
        findings.extend(self.unread_by(OF_CAPABILITIES));
    }

    fn of_aggregates(&self, key: &str, findings: &mut Vec<LintFinding>) {
        requirement::lint(self.place, self.value, findings);
        match self.enabled.has_filter(OF_AGGREGATES) {
            true => findings.extend(self.never_met(key)),
            false => findings.extend(self.unread_by(OF_AGGREGATES)),
        }
    }

    /// No aggregate has the key, so every host is rejected.
    fn never_met(&self, key: &str) -> Option<LintFinding> {
        let aggregates = &self.catalogue.aggregates;
        if !self.catalogue.knows_aggregates
            || aggregates.iter().any(|it| it.metadata.contains_key(key))
        {
            return None;
        }
        let text = format!("no aggregate has {key}, so {OF_AGGREGATES} rejects every host");
        let keys = aggregates.iter().flat_map(|it| it.metadata.keys());
        let near = nearest_name(key, keys.map(String::as_str));
        Some(
            self.find(LintSeverity::Error, LintCode::NeverMet, text)
                .near(near),
        )
    }

    fn unread_by(&self, filter: &str) -> Option<LintFinding> {
        let is_read = self.enabled.has_filter(filter);
        let text = || format!("{filter}, which would read it, is not enabled");
        (!is_read).then(|| self.find(LintSeverity::Warning, LintCode::Unread, text()))
    }

    fn wrong_value(&self, values: AllowedValues) -> Option<LintFinding> {
        let wanted = values.wrong(self.value)?;
        let text = format!("the value is `{}`", self.value);
        Some(
            self.find(LintSeverity::Error, LintCode::BadValue, text)
                .hint(wanted),
        )
    }

    fn scoped(&self, scope: &str, name: &str, findings: &mut Vec<LintFinding>) {
        for (of_placement, read) in [
            (
                "resources",
                Self::resource as fn(&Self, &str) -> Option<LintFinding>,
            ),
            ("trait", Self::wanted_trait),
        ] {
            if is_group(scope, of_placement) {
                findings.extend(read(self, name));
                return;
            }
        }
        match known_extra_spec(self.key) {
            Some((values, support)) => {
                findings.extend(self.wrong_value(values).or_else(|| self.on_hosts(support)));
            }
            None if scope == "vmware" => {}
            None => findings.push(self.unknown(scope)),
        }
        if self.key == PCI_ALIAS_SPEC {
            findings.extend(self.devices());
        }
        if self.key == SAME_LINK_GROUP_SPEC {
            findings.extend(self.link_group());
        }
        if self.key == "accel:device_profile" {
            findings.extend(self.device_profile());
        }
        if self.key == "trust:trusted_host" {
            findings.extend(self.unread_by("TrustedFilter"));
        }
    }

    /// What hosts do with a known extra spec whose value is allowed.
    fn on_hosts(&self, support: HostSupport) -> Option<LintFinding> {
        const PAGE_SIZE: &str = "hw:mem_page_size";
        if let HostSupport::Harmless(reason) = support {
            let text = format!("hosts do not read it: {reason}");
            return Some(self.find(LintSeverity::Note, LintCode::Unread, text));
        }
        if let Err(error) = check_extra_spec(self.key, self.value) {
            let text = format!("each request by it is refused: {error}");
            return Some(self.find(LintSeverity::Error, LintCode::Unsupported, text));
        }
        // A size of pages can be checked without the size of the flavor.
        let one = BTreeMap::from([(self.key.to_owned(), self.value.to_owned())]);
        let read = (self.key == PAGE_SIZE).then(|| FlavorPlacement::of(1, 1 << 30, &one))?;
        let text = format!("each request by it is refused: {}", read.err()?);
        Some(self.find(LintSeverity::Error, LintCode::BadValue, text))
    }

    /// A device profile that the file does not have.
    fn device_profile(&self) -> Option<LintFinding> {
        let profiles = &self.catalogue.device_profiles;
        let is_there = profiles.iter().any(|it| it.name == self.value);
        if is_there || !self.catalogue.knows_device_profiles {
            return None;
        }
        let text = format!(
            "each request by it is refused: there is no device profile {}",
            self.value
        );
        let near = nearest_name(self.value, profiles.iter().map(|it| it.name.as_str()));
        let found = self.find(LintSeverity::Error, LintCode::NeverMet, text);
        Some(found.near(near))
    }

    /// A link group of aliases that the flavor does not request.
    fn link_group(&self) -> Option<LintFinding> {
        let flavor = RequestFlavor {
            extra_specs: self.flavor.extra_specs.clone(),
            ..RequestFlavor::default()
        };
        match aliases_of_one_link_group(&flavor) {
            Err(error @ PciAliasError::NotRequested(_)) => {
                let text = format!("each request by it is refused: {error}");
                Some(self.find(LintSeverity::Error, LintCode::BadValue, text))
            }
            // The finding of the aliases themselves has any other error.
            Ok(_) | Err(_) => None,
        }
    }

    /// Device aliases that are not configured, or not requested from Placement.
    fn devices(&self) -> Option<LintFinding> {
        let flavor = RequestFlavor {
            extra_specs: BTreeMap::from([(self.key.to_owned(), self.value.to_owned())]),
            ..RequestFlavor::default()
        };
        let asked = PciRequest::of_flavor(&flavor, None, &self.enabled.aliases, |_| String::new());
        let error = match asked {
            Ok(_) if self.enabled.pci_in_placement => return None,
            Ok(_) => PciAliasError::NotInPlacement,
            Err(error) => error,
        };
        let text = format!("each request by it is refused: {error}");
        let found = self.find(LintSeverity::Error, LintCode::BadValue, text);
        Some(match error {
            PciAliasError::NoSuchAlias { .. } => {
                found.hint("an alias of [pci] alias, or a device profile (accel:device_profile)")
            }
            _ => found,
        })
    }

    fn unknown(&self, scope: &str) -> LintFinding {
        let of_plugins = self.catalogue.plugins.iter().flat_map(|it| &it.extra_specs);
        let of_plugins = of_plugins.map(|spec| spec.name.as_str());
        let near = nearest_name(
            self.key,
            extra_spec_names()
                .filter(|name| name.contains(':'))
                .chain(of_plugins),
        );
        let is_scope = EXTRA_SPEC_SCOPES.contains(&scope);
        let near_scope = nearest_name(scope, EXTRA_SPEC_SCOPES).filter(|_| !is_scope);
        let near_scope = near_scope.map(|near| format!("{near}{}", &self.key[scope.len()..]));
        let near = near.map(str::to_owned).or(near_scope);
        let text = "no extra spec has this name, so it is never read";
        match near {
            Some(near) => self
                .find(LintSeverity::Error, LintCode::UnknownName, text)
                .hint(near),
            // Hosts refuse unknown names under their own scopes.
            None if check_extra_spec(self.key, self.value).is_err() => {
                self.find(LintSeverity::Error, LintCode::UnknownName, text)
            }
            None if is_scope => self.find(LintSeverity::Warning, LintCode::UnknownName, text),
            None => self.find(
                LintSeverity::Note,
                LintCode::UnknownName,
                "no filter reads this scope",
            ),
        }
    }

    fn resource(&self, class: &str) -> Option<LintFinding> {
        if let Err(error) = ResourceClass::new(class) {
            let text = format!("this is not a resource class: {error}");
            let near = nearest_name(class, ResourceClass::STANDARD);
            let near = near.map(|near| self.key.replace(class, near));
            let found = self.find(LintSeverity::Error, LintCode::UnknownName, text);
            return Some(found.near(near.as_deref()));
        }
        let wrong = self.wrong_value(AllowedValues::From(0));
        wrong.or_else(|| self.one_unit(class))
    }

    /// Several units of a class that has one unit per provider.
    fn one_unit(&self, class: &str) -> Option<LintFinding> {
        let units = int(self.value).filter(|units| *units > 1 && ONE_UNIT.contains(&class))?;
        let text = format!(
            "it asks for {units} units of one provider, and each provider of {class} has one, so no host has them"
        );
        let found = self.find(LintSeverity::Error, LintCode::OneUnitDevices, text);
        Some(found.hint(format!(
            "{units} groups, as resources1:{class}=1 and resources2:{class}=1, and group_policy=none"
        )))
    }

    fn wanted_trait(&self, name: &str) -> Option<LintFinding> {
        if let Err(error) = Trait::new(name) {
            let text = format!("this is not a trait: {error}");
            return Some(self.find(LintSeverity::Error, LintCode::UnknownName, text));
        }
        self.wrong_value(AllowedValues::OneOf(&["required", "forbidden"]))
    }
}

/// `resources`, or the same with a group suffix: a number, or `_` and letters.
fn is_group(scope: &str, of: &str) -> bool {
    scope.strip_prefix(of).is_some_and(|suffix| {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        suffix.len() <= 64
            && suffix.bytes().all(is_letter)
            && suffix
                .bytes()
                .next()
                .is_none_or(|first| first == b'_' || first.is_ascii_digit())
    })
}

/// The keys of aggregates that a flavor demands something of.
pub(super) fn demanded(catalogue: &Catalogue) -> impl Iterator<Item = &str> {
    let specs = catalogue.flavors.iter().map(|flavor| &flavor.extra_specs);
    specs
        .flat_map(BTreeMap::keys)
        .filter_map(|key| match key.split_once(':') {
            None => Some(key.as_str()),
            Some(("aggregate_instance_extra_specs", key)) => Some(key),
            Some(_) => None,
        })
}
