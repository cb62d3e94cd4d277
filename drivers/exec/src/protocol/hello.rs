//! `hello`: the first call, in which both sides introduce themselves.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::method::Method;
use super::value::{AsText, Text, decode, list, params};
use crate::options::ExecOptions;
use berth_model::NodeName;
use berth_virt::CpuSet;

/// The protocol version. There is only one.
pub const VERSION: u32 = 1;

/// The maximum number of unanswered calls.
const MOST_CALLS: u32 = 64;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// The protocol version that Berth speaks.
    pub protocol: u32,
    /// Berth's version, for logs.
    pub berth: Text<64>,
    /// A directory for the driver's own files, as an absolute path. It is also the working directory.
    pub state_path: Text<4096>,
    /// Configured values that a driver may need.
    pub configured: ConfiguredOptions,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfiguredOptions {
    /// `host`: the configured name of the node; null if the driver determines it. A driver of several nodes may ignore
    /// it.
    pub host: Option<AsText<NodeName>>,
    /// `[compute] cpu_shared_set`; null if not set. It applies to every node whose `cpus.shared` the driver omits.
    pub cpu_shared_set: Option<AsText<CpuSet>>,
    /// `[compute] cpu_dedicated_set`, likewise for `cpus.dedicated`.
    pub cpu_dedicated_set: Option<AsText<CpuSet>>,
}

impl Hello {
    /// The call for these options.
    #[must_use]
    pub fn of(options: &ExecOptions) -> Self {
        Self {
            protocol: VERSION,
            berth: Text::cut(env!("CARGO_PKG_VERSION")),
            state_path: Text::cut(&options.state_path.display().to_string()),
            configured: ConfiguredOptions {
                host: options.host.clone().map(AsText),
                cpu_shared_set: options.cpu_shared_set.clone().map(AsText),
                cpu_dedicated_set: options.cpu_dedicated_set.clone().map(AsText),
            },
        }
    }

    pub(crate) fn to_value(&self) -> Value {
        params(self)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HelloResult {
    /// The protocol version that the driver speaks: 1.
    pub protocol: u32,
    pub driver: DriverFacts,
    /// The supported methods, which must include `observe`; Berth calls no others. At most 64; unknown ones are
    /// ignored.
    #[serde(deserialize_with = "list::<_, _, 64>")]
    pub methods: Vec<Text<64>>,
    /// The maximum number of unanswered calls, 1 to 64. Optional: 1. The driver may answer in any order.
    #[serde(default = "one")]
    pub concurrent_calls: u32,
}

/// Name and version of a driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverFacts {
    /// Its name, for logs.
    pub name: Text<64>,
    /// Its version, for logs.
    pub version: Text<64>,
}

fn one() -> u32 {
    1
}

impl HelloResult {
    /// The value before the driver has answered.
    pub(crate) fn unsaid() -> Self {
        Self {
            protocol: VERSION,
            driver: DriverFacts {
                name: Text::cut(""),
                version: Text::cut(""),
            },
            methods: Vec::new(),
            concurrent_calls: 1,
        }
    }

    /// Parses the answer. The version is checked first: the rest of another version's answer cannot be validated.
    pub(crate) fn of(value: Value) -> Result<Self, String> {
        let version = value.get("protocol").and_then(Value::as_u64);
        match version {
            Some(version) if version != u64::from(VERSION) => Ok(Self {
                protocol: u32::try_from(version).unwrap_or(u32::MAX),
                ..Self::unsaid()
            }),
            _ => decode(value).map_err(|wrong| wrong.to_string()),
        }
    }

    pub(crate) fn is_understood(&self) -> Result<(), String> {
        if self.protocol != VERSION {
            return Err(format!(
                "it speaks version {} of the protocol, but this berth speaks version {VERSION}; use a driver or a berth of the other's version",
                self.protocol
            ));
        }
        if !self.knows(Method::Observe) {
            return Err("its methods lack \"observe\", which every driver needs".to_owned());
        }
        if !(1..=MOST_CALLS).contains(&self.concurrent_calls) {
            return Err(format!(
                "its concurrent_calls are {}; expected 1 to {MOST_CALLS}",
                self.concurrent_calls
            ));
        }
        Ok(())
    }

    pub(crate) fn knows(&self, method: Method) -> bool {
        let mut methods = self.methods.iter();
        methods.any(|known| known.as_str() == method.as_str())
    }

    pub(crate) fn concurrent_calls(&self) -> usize {
        self.concurrent_calls.min(MOST_CALLS) as usize
    }

    pub(crate) fn driver_name(&self) -> &str {
        self.driver.name.as_str()
    }

    pub(crate) fn driver_version(&self) -> &str {
        self.driver.version.as_str()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_driver_is_understood_or_refused_with_a_reason() {
        let driver = json!({"name": "d", "version": "1"});
        for (value, wrong) in [
            (
                json!({"protocol": 1, "driver": driver, "methods": ["observe"]}),
                "",
            ),
            (
                json!({"protocol": 1, "driver": driver, "methods": ["observe", "dance"]}),
                "",
            ),
            (json!({"protocol": 2, "anything": 1}), "version 2"),
            (
                json!({"protocol": 1, "driver": driver, "methods": []}),
                "observe",
            ),
            (
                json!({"protocol": 1, "driver": driver, "methods": ["observe"], "concurrent_calls": 0}),
                "1 to 64",
            ),
            (json!({"protocol": 1, "driver": driver}), "methods"),
            (
                json!({"protocol": 1, "driver": {"name": 1}, "methods": []}),
                "driver.name",
            ),
            (json!({"protocol": "1"}), "protocol"),
        ] {
            let error = HelloResult::of(value).and_then(|hello| hello.is_understood());
            let error = error.err().unwrap_or_default();
            assert!(
                error.contains(wrong) && error.is_empty() == wrong.is_empty(),
                "{error}"
            );
        }
    }
}
