//! [`ComputeRequest`]: a message of the compute RPC interface.

use serde_json::{Map, Value};
use strum::{Display, EnumString, IntoStaticStr};
use uuid::Uuid;

use super::arguments::{Arguments, RequestError};
use super::build::{BuildAndRunInstance, GuestPassword, RebuildInstance};
use super::method::ComputeMethod;
use crate::object::shortened;
use crate::objects::{
    NovaBlockDeviceMapping, NovaExternalEvent, NovaInstance, NovaMigration, NovaObjectList,
};
use crate::release::NovaRelease;
use crate::states::word_field;

/// How to reboot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Display, EnumString, IntoStaticStr)]
#[strum(serialize_all = "UPPERCASE")]
pub enum NovaRebootType {
    Soft,
    Hard,
}

word_field!(NovaRebootType, "SOFT or HARD");

/// What is asked of a compute service.
#[derive(Debug, Clone, PartialEq)]
pub enum ComputeRequest {
    /// Whether the service answers. It belongs to the interface `baseapi`.
    Ping {
        arg: Value,
    },
    BuildAndRunInstance(Box<BuildAndRunInstance>),
    TerminateInstance {
        instance: NovaInstance,
        bdms: Option<NovaObjectList<NovaBlockDeviceMapping>>,
    },
    StartInstance {
        instance: NovaInstance,
    },
    StopInstance {
        instance: NovaInstance,
        /// Whether the guest may shut down by itself.
        clean_shutdown: bool,
    },
    RebootInstance {
        instance: NovaInstance,
        reboot_type: NovaRebootType,
    },
    PauseInstance {
        instance: NovaInstance,
    },
    UnpauseInstance {
        instance: NovaInstance,
    },
    SuspendInstance {
        instance: NovaInstance,
    },
    ResumeInstance {
        instance: NovaInstance,
    },
    RescueInstance {
        instance: NovaInstance,
        rescue_password: Option<GuestPassword>,
        rescue_image_ref: Option<String>,
        clean_shutdown: bool,
    },
    UnrescueInstance {
        instance: NovaInstance,
    },
    RebuildInstance(Box<RebuildInstance>),
    SoftDeleteInstance {
        instance: NovaInstance,
    },
    RestoreInstance {
        instance: NovaInstance,
    },
    GetConsoleOutput {
        instance: NovaInstance,
        /// How many lines from the end; all without a number.
        tail_length: Option<i64>,
    },
    GetVncConsole {
        instance: NovaInstance,
        console_type: String,
    },
    GetSerialConsole {
        instance: NovaInstance,
        console_type: String,
    },
    ValidateConsolePort {
        instance: NovaInstance,
        port: i64,
        console_type: String,
    },
    AttachInterface {
        instance: NovaInstance,
        network_id: Option<String>,
        port_id: Option<Uuid>,
        requested_ip: Option<String>,
        tag: Option<String>,
    },
    DetachInterface {
        instance: NovaInstance,
        port_id: Uuid,
    },
    ExternalInstanceEvent {
        instances: Vec<NovaInstance>,
        events: Vec<NovaExternalEvent>,
    },
    SetHostEnabled {
        enabled: bool,
    },
    GetHostUptime,
    GetDiagnostics {
        instance: NovaInstance,
    },
    CacheImages {
        image_ids: Vec<String>,
    },
    /// A method that Berth does not serve.
    Unserved(Box<UnservedRequest>),
}

/// A request of a method that Berth does not serve.
#[derive(Debug, Clone, PartialEq)]
pub struct UnservedRequest {
    pub method: ComputeMethod,
    pub instance: Option<NovaInstance>,
    pub migration: Option<NovaMigration>,
}

const BASEAPI: &str = "baseapi";
const PING: &str = "ping";

impl ComputeRequest {
    /// Reads the method and the arguments of a message.
    pub fn parse(
        release: &NovaRelease,
        namespace: Option<&str>,
        method: &str,
        version: &str,
        args: Map<String, Value>,
    ) -> Result<Self, RequestError> {
        let is_ping = namespace == Some(BASEAPI) && method == PING;
        let supported = if is_ping {
            release.rpc().baseapi
        } else {
            release.rpc().compute
        };
        let known = (!is_ping && namespace.is_none())
            .then(|| method.parse::<ComputeMethod>().ok())
            .flatten();
        if !is_ping && known.is_none() {
            return Err(RequestError::Method(shortened(method)));
        }
        if !version
            .parse()
            .is_ok_and(|version| supported.understands(version))
        {
            return Err(RequestError::Version {
                method: method.to_owned(),
                version: shortened(version),
                supported,
            });
        }
        match known {
            None => Ok(Self::Ping {
                arg: args.get("arg").cloned().unwrap_or_default(),
            }),
            Some(method) => {
                for value in args.values() {
                    release
                        .check_sendable(value)
                        .map_err(|source| RequestError::Object {
                            method: method.name(),
                            source,
                        })?;
                }
                Self::of(method, &mut Arguments::new(method, args))
            }
        }
    }

    fn of(method: ComputeMethod, args: &mut Arguments) -> Result<Self, RequestError> {
        use ComputeMethod as M;
        Ok(match method {
            M::BuildAndRunInstance => {
                Self::BuildAndRunInstance(Box::new(BuildAndRunInstance::parse(args)?))
            }
            M::RebuildInstance => Self::RebuildInstance(Box::new(RebuildInstance::parse(args)?)),
            M::ExternalInstanceEvent => Self::ExternalInstanceEvent {
                instances: args.objects("instances")?,
                events: args.objects("events")?,
            },
            M::SetHostEnabled => Self::SetHostEnabled {
                enabled: args.value("enabled")?,
            },
            M::GetHostUptime => Self::GetHostUptime,
            M::CacheImages => Self::CacheImages {
                image_ids: args.value("image_ids")?,
            },
            M::AttachInterface | M::DetachInterface => Self::interface(method, args)?,
            M::GetConsoleOutput
            | M::GetVncConsole
            | M::GetSerialConsole
            | M::ValidateConsolePort => Self::console(method, args)?,
            method => Self::of_instance(method, args)?,
        })
    }

    fn interface(method: ComputeMethod, args: &mut Arguments) -> Result<Self, RequestError> {
        let instance = args.object("instance")?;
        if method == ComputeMethod::DetachInterface {
            return Ok(Self::DetachInterface {
                instance,
                port_id: args.value("port_id")?,
            });
        }
        Ok(Self::AttachInterface {
            instance,
            network_id: args.value_if_given("network_id")?,
            port_id: args.value_if_given("port_id")?,
            requested_ip: args.value_if_given("requested_ip")?,
            tag: args.value_if_given("tag")?,
        })
    }

    fn console(method: ComputeMethod, args: &mut Arguments) -> Result<Self, RequestError> {
        use ComputeMethod as M;
        let instance = args.object("instance")?;
        if method == M::GetConsoleOutput {
            return Ok(Self::GetConsoleOutput {
                instance,
                tail_length: args.value_if_given("tail_length")?,
            });
        }
        let console_type = args.value("console_type")?;
        Ok(match method {
            M::GetVncConsole => Self::GetVncConsole {
                instance,
                console_type,
            },
            M::GetSerialConsole => Self::GetSerialConsole {
                instance,
                console_type,
            },
            _ => Self::ValidateConsolePort {
                instance,
                port: args.value("port")?,
                console_type,
            },
        })
    }

    /// Methods whose only required argument is an instance, and those that are not served.
    fn of_instance(method: ComputeMethod, args: &mut Arguments) -> Result<Self, RequestError> {
        use ComputeMethod as M;
        let unserved = |args: &mut Arguments| -> Result<Self, RequestError> {
            Ok(Self::Unserved(Box::new(UnservedRequest {
                method,
                instance: args.object_if_given("instance")?,
                migration: args.object_if_given("migration")?,
            })))
        };
        let clean_shutdown = |args: &mut Arguments| args.value_if_given("clean_shutdown");
        Ok(match method {
            M::TerminateInstance => Self::TerminateInstance {
                instance: args.object("instance")?,
                bdms: args.list_if_given("bdms")?,
            },
            M::StartInstance => Self::StartInstance {
                instance: args.object("instance")?,
            },
            M::StopInstance => Self::StopInstance {
                instance: args.object("instance")?,
                clean_shutdown: clean_shutdown(args)?.unwrap_or(true),
            },
            M::RebootInstance => Self::RebootInstance {
                instance: args.object("instance")?,
                reboot_type: args.value("reboot_type")?,
            },
            M::PauseInstance => Self::PauseInstance {
                instance: args.object("instance")?,
            },
            M::UnpauseInstance => Self::UnpauseInstance {
                instance: args.object("instance")?,
            },
            M::SuspendInstance => Self::SuspendInstance {
                instance: args.object("instance")?,
            },
            M::ResumeInstance => Self::ResumeInstance {
                instance: args.object("instance")?,
            },
            M::RescueInstance => Self::RescueInstance {
                instance: args.object("instance")?,
                rescue_password: args.value_if_given("rescue_password")?,
                rescue_image_ref: args.value_if_given("rescue_image_ref")?,
                clean_shutdown: clean_shutdown(args)?.unwrap_or(true),
            },
            M::UnrescueInstance => Self::UnrescueInstance {
                instance: args.object("instance")?,
            },
            M::SoftDeleteInstance => Self::SoftDeleteInstance {
                instance: args.object("instance")?,
            },
            M::RestoreInstance => Self::RestoreInstance {
                instance: args.object("instance")?,
            },
            M::GetDiagnostics => Self::GetDiagnostics {
                instance: args.object("instance")?,
            },
            _ => unserved(args)?,
        })
    }
}
