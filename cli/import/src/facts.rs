//! What Nova declares about its options: type, former names, default. The list of Nova 34 is `nova_34.tsv`, written by
//! `tests/nova_options.py` from an installed Nova.

use std::borrow::Cow;
use std::sync::LazyLock;

/// The type of an option in oslo.config.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NovaType {
    Text,
    Flag,
    Whole,
    Decimal,
    /// Texts between commas.
    List,
    /// `KEY:VALUE` between commas.
    Dict,
}

/// One option as Nova declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NovaOption {
    pub group: Cow<'static, str>,
    pub name: Cow<'static, str>,
    pub kind: NovaType,
    /// Whether repeated keys are kept (MultiOpt).
    pub multi: bool,
    pub secret: bool,
    /// Former groups and names.
    pub former: Vec<(Cow<'static, str>, Cow<'static, str>)>,
    /// The default, if it is a text.
    pub default: Option<Cow<'static, str>>,
}

impl NovaOption {
    /// `[group] name`.
    #[must_use]
    pub fn title(&self) -> String {
        format!("[{}] {}", self.group, self.name)
    }

    /// Reads a line of the list: group, name, type, flags, former names and default, separated by tabs.
    fn of_line(line: &'static str) -> Option<Self> {
        let mut fields = line.split('\t');
        let mut field = || fields.next();
        let (group, name, kind, flags) = (field()?, field()?, field()?, field()?);
        let former = field()?.split(' ').filter_map(|it| it.split_once('/'));
        let former = former.map(|(group, name)| (group.into(), name.into()));
        let former = former.collect();
        let default = field().filter(|it| *it != "-").map(Cow::Borrowed);
        let kind = match kind {
            "text" => NovaType::Text,
            "flag" => NovaType::Flag,
            "whole" => NovaType::Whole,
            "decimal" => NovaType::Decimal,
            "list" => NovaType::List,
            "dict" => NovaType::Dict,
            _ => return None,
        };
        Some(Self {
            group: group.into(),
            name: name.into(),
            kind,
            multi: flags.contains('m'),
            secret: flags.contains('s'),
            former,
            default,
        })
    }

    fn named(group: &str, name: &'static str, kind: NovaType) -> Self {
        Self {
            group: group.to_owned().into(),
            name: name.into(),
            kind,
            multi: false,
            secret: false,
            former: Vec::new(),
            default: None,
        }
    }
}

/// A set of declared options.
#[derive(Debug, Clone)]
pub struct NovaOptions {
    options: Vec<NovaOption>,
}

/// Groups that also have the options of keystoneauth's plugins. Nova registers these options when it reads the file, so its own
/// list has them for some groups only.
const CLIENTS: [&str; 11] = [
    "placement",
    "cyborg",
    "glance",
    "neutron",
    "service_user",
    "keystone_authtoken",
    "cinder",
    "keystone",
    "ironic",
    "manila",
    "oslo_limit",
];

/// Options of keystoneauth's plugins, and whether they are secret.
const PLUGIN_OPTIONS: [(&str, bool); 27] = [
    ("auth_type", false),
    ("auth_section", false),
    ("auth_url", false),
    ("username", false),
    ("user_id", false),
    ("password", true),
    ("user_domain_name", false),
    ("user_domain_id", false),
    ("project_name", false),
    ("project_id", false),
    ("project_domain_name", false),
    ("project_domain_id", false),
    ("default_domain_name", false),
    ("default_domain_id", false),
    ("domain_name", false),
    ("domain_id", false),
    ("tenant_name", false),
    ("tenant_id", false),
    ("trust_id", false),
    ("system_scope", false),
    ("application_credential_id", false),
    ("application_credential_name", false),
    ("application_credential_secret", true),
    ("token", true),
    ("endpoint", false),
    ("min_version", false),
    ("max_version", false),
];

/// Further options that no namespace of the generator lists.
const FURTHER: [(&str, &str, NovaType); 7] = [
    ("DEFAULT", "metadata_workers", NovaType::Whole),
    ("DEFAULT", "osapi_compute_workers", NovaType::Whole),
    ("DEFAULT", "enabled_apis", NovaType::List),
    ("DEFAULT", "compute_unique_host_name", NovaType::Text),
    // Deployment tools still write it, and newer releases of the library pass it over.
    (
        "oslo_messaging_rabbit",
        "heartbeat_in_pthread",
        NovaType::Flag,
    ),
    ("profiler", "enabled", NovaType::Flag),
    ("profiler", "connection_string", NovaType::Text),
];

static NOVA_34: LazyLock<NovaOptions> = LazyLock::new(|| {
    let mut options = NovaOptions::of_text(include_str!("nova_34.tsv"));
    for group in CLIENTS {
        for (name, secret) in PLUGIN_OPTIONS {
            options.add(NovaOption {
                secret,
                ..NovaOption::named(group, name, NovaType::Text)
            });
        }
    }
    for (group, name, kind) in FURTHER {
        options.add(NovaOption::named(group, name, kind));
    }
    options.add(NovaOption {
        secret: true,
        ..NovaOption::named("profiler", "hmac_keys", NovaType::Text)
    });
    options
});

impl NovaOptions {
    /// The options of Nova 34 and of the libraries that nova-compute loads.
    #[must_use]
    pub fn nova_34() -> &'static Self {
        &NOVA_34
    }

    /// Reads a list; lines that are none are left out.
    #[must_use]
    pub fn of_text(text: &'static str) -> Self {
        Self {
            options: text.lines().filter_map(NovaOption::of_line).collect(),
        }
    }

    fn add(&mut self, option: NovaOption) {
        if self.find(&option.group, &option.name).is_none() {
            self.options.push(option);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &NovaOption> {
        self.options.iter()
    }

    /// The option with this name.
    #[must_use]
    pub fn find(&self, group: &str, name: &str) -> Option<&NovaOption> {
        let mut all = self.options.iter();
        all.find(|it| it.group == group && it.name == name)
    }

    /// The option that a key in a file sets, by its name or by a former one.
    #[must_use]
    pub fn of_key(&self, group: &str, key: &str) -> Option<Cow<'_, NovaOption>> {
        let group = plain_group(group);
        if let Some(option) = self.find(&group, key) {
            return Some(Cow::Borrowed(option));
        }
        let mut all = self.options.iter();
        let by_former = all.find(|it| {
            let mut former = it.former.iter();
            former.any(|(old, name)| *name == key && plain_group(old) == group)
        });
        by_former
            .map(Cow::Borrowed)
            .or_else(|| of_named_group(&group, key).map(Cow::Owned))
    }
}

/// Options of groups that an operator names: `[mdev_TYPE]` and Neutron's networks.
fn of_named_group(group: &str, key: &str) -> Option<NovaOption> {
    let (name, kind) = match (group, key) {
        (group, "device_addresses") if group.starts_with("mdev_") => {
            ("device_addresses", NovaType::List)
        }
        (group, "mdev_class") if group.starts_with("mdev_") => ("mdev_class", NovaType::Text),
        (group, "max_instances") if group.starts_with("mdev_") => {
            ("max_instances", NovaType::Whole)
        }
        (group, "helper_command") if is_helper(group) => ("helper_command", NovaType::Text),
        (group, "user") if is_helper(group) => ("user", NovaType::Text),
        (group, "group") if is_helper(group) => ("group", NovaType::Text),
        (group, "capabilities") if is_helper(group) => ("capabilities", NovaType::List),
        (group, "numa_nodes") if group.starts_with("neutron_") => ("numa_nodes", NovaType::List),
        _ => return None,
    };
    Some(NovaOption::named(group, name, kind))
}

/// Whether a group is about a helper process of oslo.privsep; each library has its own.
pub(crate) fn is_helper(group: &str) -> bool {
    group.starts_with("privsep_") || group.ends_with("_privileged")
}

/// The name of a group as oslo.config compares it: in lower case, but for `DEFAULT`.
pub(crate) fn plain_group(group: &str) -> String {
    match group {
        "DEFAULT" => group.to_owned(),
        _ => group.to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_list_is_an_option() {
        let lines = include_str!("nova_34.tsv").lines().count();
        let read = NovaOptions::of_text(include_str!("nova_34.tsv"));
        assert_eq!(read.iter().count(), lines);
        assert!(lines > 1000, "{lines}");
    }

    #[test]
    fn an_option_is_found_by_its_former_name() {
        let options = NovaOptions::nova_34();
        for (group, key, title) in [
            ("DEFAULT", "pci_passthrough_whitelist", "[pci] device_spec"),
            ("pci", "passthrough_whitelist", "[pci] device_spec"),
            ("DEFAULT", "pci_alias", "[pci] alias"),
            ("PLACEMENT", "user_name", "[placement] username"),
            (
                "mdev_nvidia-35",
                "mdev_class",
                "[mdev_nvidia-35] mdev_class",
            ),
        ] {
            let found = options.of_key(group, key).expect(key);
            assert_eq!(found.title(), title);
        }
        assert!(options.of_key("DEFAULT", "no_such_option").is_none());
    }
}
