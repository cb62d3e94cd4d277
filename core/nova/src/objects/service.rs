//! [`NovaService`]: the record of a service on a host.

use uuid::Uuid;

use crate::objects::object_type;
use crate::time::NovaTime;

object_type! {
    /// The record of a service. The API believes that a service is up while its reports arrive.
    NovaService = "Service", Some("ServiceList");
    id: i64;
    uuid: Uuid;
    host / set_host: Option<&str>;
    binary / set_binary: Option<&str>;
    topic / set_topic: Option<&str>;
    /// Counts the reports. Each save of it also stamps `last_seen_up`.
    report_count / set_report_count: i64;
    disabled / set_disabled: bool;
    disabled_reason / set_disabled_reason: Option<&str>;
    forced_down: bool;
    last_seen_up: Option<NovaTime>;
    /// The service version of the release.
    version / set_version: i64;
}
