//! `[accelerator_service]`: the accelerator service built in.

use super::{Case, cases};

pub(super) const CASES: &[Case] = cases! {
    "[accelerator_service]\nlisten = \"0.0.0.0:6666\"" => ["berth.toml:2:10: accelerator_service.listen: 0.0.0.0:6666 is not on the loopback interface, and callers are not authenticated (noauth2); write 127.0.0.1 or [::1], or auth_strategy = \"keystone\" in [accelerator_service] [BERTH-E0105]"];
    "[accelerator_service]\nlisten = \"6666\"" => ["berth.toml:2:10: accelerator_service.listen: \"6666\" is not an address and port; write address and port such as \"127.0.0.1:8778\" or \"[::1]:8778\", or \"none\" [BERTH-E0105]"];
    "[accelerator_service]\nexternal_events_endpoint = \"http://{host}:8775/v2.1\"" => ["berth.toml:2:28: accelerator_service.external_events_endpoint: {host} must replace the host's name once in the https:// address of its agent; write \"https://{host}:9178/v2.1\" with the port of [agent] listen, or one address for all hosts [BERTH-E0105]"];
    "[accelerator_service]\nexternal_events_endpoint = \"https://agents/{host}/v2.1\"" => ["berth.toml:2:28: accelerator_service.external_events_endpoint: {host} must replace the host's name once in the https:// address of its agent; write \"https://{host}:9178/v2.1\" with the port of [agent] listen, or one address for all hosts [BERTH-E0105]"];
    "[accelerator_service]\nexternal_events_endpoint = \"https://{node}:9178/v2.1\"" => ["berth.toml:2:28: accelerator_service.external_events_endpoint: {host} must replace the host's name once in the https:// address of its agent; write \"https://{host}:9178/v2.1\" with the port of [agent] listen, or one address for all hosts [BERTH-E0105]"];
    "[accelerator_service]\nexternal_events_endpoint = \"https://{host}:9178/v2.1\"" => ["berth.toml:2:28: accelerator_service.external_events_endpoint: agents require a client certificate, and none is set; set certfile, and keyfile if the key is not in it, in [agent_client] [BERTH-E0107]"];
    "[accelerator_service]\nbind_timeout = 0" => ["berth.toml:2:16: accelerator_service.bind_timeout: 0 is out of range; write a whole number from 1 to 86400 [BERTH-E0105]"];
    "[accelerators]\nprogram_hook = \"bin/x\"" => ["berth.toml:2:16: accelerators.program_hook: \"bin/x\" is not absolute; write a path that begins with / [BERTH-E0105]"];
    "[accelerators]\nhealth_hook = \"bin/x\"" => ["berth.toml:2:15: accelerators.health_hook: \"bin/x\" is not absolute; write a path that begins with / [BERTH-E0105]"];
    "[accelerators]\nhealth_hook_interval = 0" => ["berth.toml:2:24: accelerators.health_hook_interval: 0 is out of range; write a whole number from 1 to 86400 [BERTH-E0105]"];
};
