//! Configurations that are right: what the composition root gets, and what is shown of it.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_conductor::PluginOptions;
use berth_config::table::OPTIONS;
use berth_config::{
    ComputeDriver, LoadedConfig, OptionEffect, OptionRow, Secret, UpdateInterval, changes,
};
use berth_scheduler::plugin::OnFailure;
use berth_virt::{NumaModel, ResourceModel, VgpuModel};
use serde_json::{Value, json};

fn load(text: &str, environment: &[(&str, &str)]) -> LoadedConfig {
    crate::resolve(text, environment).unwrap_or_else(|refused| panic!("{refused}"))
}

fn shown(loaded: &LoadedConfig) -> BTreeMap<String, (Value, String)> {
    loaded
        .effective
        .iter()
        .map(|each| (each.name.clone(), (each.shown(), each.explained_origin())))
        .collect()
}

#[test]
fn an_empty_configuration_has_the_defaults_of_openstack() {
    let config = load("", &[]).config;
    assert_eq!(config.compute_driver, ComputeDriver::Libvirt);
    assert_eq!(
        config.update_resources_interval,
        UpdateInterval::Every(Duration::from_mins(1))
    );
    assert_eq!(config.reserved_host_memory_mb, 512);
    assert_eq!(config.cpu_allocation_ratio, None);
    assert!((config.initial_cpu_allocation_ratio - 4.0).abs() < f64::EPSILON);
    assert_eq!(config.graceful_shutdown_timeout, Duration::from_mins(3));
    assert_eq!(
        config.compute.resource_provider_association_refresh(),
        Some(Duration::from_mins(5))
    );
    assert_eq!(config.compute.sharing_providers_max_uuids_per_request, 200);
    assert!(config.compute.owner_nova);
    assert_eq!(config.model.0, ResourceModel::default());
    assert_eq!(config.libvirt.connection_uri(), "qemu:///system");
    assert_eq!(
        config.instances_path().to_str(),
        Some("/var/lib/berth/instances")
    );
    assert_eq!(
        config.placement_database(),
        Secret::from("sqlite:/var/lib/berth/placement.sqlite")
    );
    assert_eq!(
        config.agent.admin_socket.to_str(),
        Some("/run/berth/agent.sock")
    );
    assert_eq!(config.agent.metrics_listen.address(), None);
    assert_eq!(config.placement_service.own_listen(), None);
    assert_eq!(config.accelerator_service.own_listen(), None);
    let api = config.api_listen().map(|address| address.to_string());
    assert_eq!(api.as_deref(), Some("127.0.0.1:8770"));
}

#[test]
fn every_listen_option_accepts_none_and_shows_it() {
    // [vnc] server_listen is where QEMU listens.
    let is_own = |key: &str| key.ends_with("listen") && key != "server_listen";
    let listeners = OPTIONS.iter().filter(|row| is_own(row.key));
    let listeners: Vec<_> = listeners.collect();
    assert!(listeners.len() >= 9, "{} options", listeners.len());
    for row in listeners {
        let text = format!("[{}]\n{} = \"none\"\n", row.section, row.key);
        let loaded = load(&text, &[]);
        assert_eq!(shown(&loaded)[&row.name()].0, json!("none"), "{text}");
    }
    let text = "[placement_service]\nlisten = \"none\"\n[accelerator_service]\nlisten = \"none\"\n\
                [identity_service]\nlisten = \"none\"\n";
    let config = load(text, &[]).config;
    assert_eq!(config.placement_service.serve_listen(), None);
    assert_eq!(config.accelerator_service.serve_listen(), None);
    assert_eq!(config.identity_service.listen.address(), None);
}

#[test]
fn values_reach_the_typed_form() {
    let config = load(
        r#"
        update_resources_interval = -1
        cpu_allocation_ratio = 16
        state_path = "/srv/berth"
        [compute]
        cpu_shared_set = "0-3,^2"
        cpu_dedicated_set = "4-7"
        resource_provider_association_refresh = 0
        [devices]
        enabled_mdev_types = ["nvidia-35"]
        [mdev_nvidia-35]
        device_addresses = ["0000:84:00.0"]
        mdev_class = "CUSTOM_GPU"
        [model]
        vgpu = "root"
        numa = "cells"
        [libvirt]
        rx_queue_size = 1024
        [placement]
        timeout = 2.5
        "#,
        &[],
    )
    .config;
    assert_eq!(config.update_resources_interval, UpdateInterval::Off);
    assert_eq!(config.cpu_allocation_ratio, Some(16.0));
    let sizes = config.libvirt.queue_sizes();
    assert_eq!((sizes.receive, sizes.transmit), (Some(1024), None));
    assert_eq!(
        config.instances_path().to_str(),
        Some("/srv/berth/instances")
    );
    assert_eq!(
        config
            .compute
            .cpu_shared_set
            .as_ref()
            .map(ToString::to_string)
            .as_deref(),
        Some("0-1,3")
    );
    assert_eq!(config.compute.resource_provider_association_refresh(), None);
    assert_eq!(
        config.mdev["nvidia-35"].device_addresses[0].to_string(),
        "0000:84:00.0"
    );
    assert_eq!(config.mdev["nvidia-35"].mdev_class, "CUSTOM_GPU");
    assert_eq!(
        (config.model.0.vgpu, config.model.0.numa),
        (VgpuModel::Root, NumaModel::Cells)
    );
    assert_eq!(config.placement.timeout, Some(Duration::from_millis(2500)));
}

#[test]
fn device_spec_is_taken_as_tables_as_texts_and_from_a_variable() {
    let as_tables = load(
        "[[pci.device_spec]]\naddress = \"0000:81:00.*\"\nmanaged = \"no\"\n[[pci.device_spec]]\nvendor_id = \"8086\"",
        &[],
    );
    let tables = json!([{"address": "0000:81:00.*", "managed": "no"}, {"vendor_id": "8086"}]);
    assert_eq!(json!(as_tables.config.pci.device_spec), tables);
    assert_eq!(shown(&as_tables)["pci.device_spec"].0, tables);
    let text = r#"[{"vendor_id": "8086", "product_id": "1520"}, {"vendor_id": "10de"}]"#;
    let variable = load("", &[("BERTH__ACCELERATORS__DEVICE_SPEC", text)]).config;
    assert_eq!(json!(variable.accelerators.device_spec), json!([text]));
}

#[test]
fn an_enabled_type_without_a_section_has_the_defaults() {
    let config = load("[devices]\nenabled_mdev_types = [\"i915-GVTg_V5_4\"]", &[]).config;
    assert_eq!(config.mdev["i915-GVTg_V5_4"].mdev_class, "VGPU");
}

#[test]
fn a_plugin_of_the_scheduler_is_named_by_its_section() {
    let text = "[filter_scheduler]\nenabled_filters = [\"rack_power\"]\n\
        [scheduler_plugin_rack_power]\nprogram = \"/a\"\n[scheduler_plugin_Tidy]\nprogram = \"/b\"\non_failure = \"pass\"";
    let loaded = load(
        text,
        &[
            ("BERTH__scheduler_plugin_rack_power__TIME_BUDGET", "0.5"),
            ("BERTH__SCHEDULER_PLUGIN_Tidy__WEIGHT_MULTIPLIER", "-2"),
        ],
    );
    let plugins: Vec<PluginOptions> = loaded.config.scheduler_plugins().collect();
    let plugin =
        |name: &str, program: &str, milliseconds, on_failure, weight_multiplier| PluginOptions {
            name: name.to_owned(),
            program: program.into(),
            time_budget: Duration::from_millis(milliseconds),
            on_failure,
            weight_multiplier,
        };
    let expected = [
        plugin("Tidy", "/b", 2000, Some(OnFailure::Pass), -2.0),
        plugin("rack_power", "/a", 500, None, 1.0),
    ];
    assert_eq!(plugins, expected);
    let warned = loaded.warnings.iter().map(ToString::to_string);
    let warned: Vec<String> = warned.collect();
    let warned = warned.join("\n");
    assert!(
        warned.contains("scheduler_plugin_Tidy.program: the plugin is not enabled; add \"Tidy\" to enabled_filters or"),
        "{warned}"
    );
}

#[test]
fn the_environment_wins_over_the_file() {
    let loaded = load(
        "reserved_host_cpus = 1\n[devices]\nenabled_mdev_types = [\"a\"]",
        &[
            ("BERTH__RESERVED_HOST_CPUS", "2"),
            ("BERTH__DEVICES__ENABLED_MDEV_TYPES", "nvidia-35, nvidia-36"),
            ("BERTH__mdev_nvidia-35__device_addresses", "0000:84:00.0"),
            (
                "BERTH__MDEV_nvidia-36__DEVICE_ADDRESSES",
                "0000:85:00.0,0000:86:00.0",
            ),
            ("BERTH__COMPUTE__OWNER_NOVA", "no"),
            ("BERTH__CPU_ALLOCATION_RATIO", "8"),
            ("BERTH_DATABASE_URL", "sqlite:/tmp/p.sqlite"),
        ],
    );
    assert_eq!(loaded.config.reserved_host_cpus, 2);
    assert_eq!(
        loaded.config.devices.enabled_mdev_types,
        ["nvidia-35", "nvidia-36"]
    );
    assert_eq!(loaded.config.mdev["nvidia-36"].device_addresses.len(), 2);
    assert!(!loaded.config.compute.owner_nova);
    assert_eq!(loaded.config.cpu_allocation_ratio, Some(8.0));
    assert_eq!(
        loaded.config.placement_database(),
        Secret::from("sqlite:/tmp/p.sqlite")
    );
}

#[test]
fn zero_is_no_allocation_ratio_as_in_nova() {
    let ratios =
        "cpu_allocation_ratio = 0.0\nram_allocation_ratio = 0\ndisk_allocation_ratio = 1.5";
    let config = load(ratios, &[]).config;
    assert_eq!(config.cpu_allocation_ratio.filter(|it| *it != 0.0), None);
    assert_eq!(config.ram_allocation_ratio.filter(|it| *it != 0.0), None);
    assert_eq!(config.disk_allocation_ratio, Some(1.5));
}

#[test]
fn each_value_is_shown_with_its_origin_and_secrets_are_masked() {
    let loaded = load(
        "host = \"a\"\n[placement]\nauth_type = \"admin_token\"\ntoken = \"hunter2\"\nendpoint_override = \"http://127.0.0.1\"",
        &[("BERTH__COMPUTE__CPU_SHARED_SET", "0-3")],
    );
    let shown = shown(&loaded);
    let is = |name: &str, value: Value, origin: &str| {
        assert_eq!(shown[name], (value, origin.to_owned()), "{name}")
    };
    is("host", json!("a"), "berth.toml:1:8");
    is("placement.token", json!("***"), "berth.toml:4:9");
    is(
        "compute.cpu_shared_set",
        json!("0-3"),
        "variable BERTH__COMPUTE__CPU_SHARED_SET",
    );
    is("compute.owner_nova", json!(true), "default");
    is("compute.cpu_dedicated_set", Value::Null, "default");
    is(
        "instances_path",
        Value::Null,
        "default: instances below state_path",
    );
    assert!(
        !format!("{loaded:?}").contains("hunter2"),
        "a debug form shows the secret"
    );
}

#[test]
fn what_is_only_doubtful_is_a_warning() {
    let warnings = |text: &str, environment: &[(&str, &str)]| {
        let loaded = load(text, environment);
        loaded
            .warnings
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert_eq!(
        warnings(
            "",
            &[("BERTH_LOG", "x"), ("BERTH_DATABASE_URL", "sqlite:/p")]
        ),
        ""
    );
    assert!(
        warnings("", &[("BERTH_DATABASE_UR", "x")]).contains("did you mean BERTH_DATABASE_URL?")
    );
    assert!(warnings("", &[("BERTH_HOST", "x")]).contains("did you mean BERTH__HOST?"));
    assert!(
        warnings("[mdev_a]\nmax_instances = 1", &[])
            .contains("berth.toml:2:17: mdev_a.max_instances: the type \"a\" is not")
    );
    assert!(warnings("[placement]\ninsecure = true", &[]).contains("any certificate is accepted"));
    let clear = "[placement]\nauth_type = \"v3token\"\ntoken = \"t\"\nauth_url = \"http://keystone:5000/v3\"";
    assert!(warnings(clear, &[]).contains("clear text"));
}

#[test]
fn a_difference_says_when_it_takes_effect() {
    let running = load("reserved_host_cpus = 1\nstate_path = \"/a\"", &[]).public();
    let file = load("reserved_host_cpus = 2\nstate_path = \"/b\"", &[]).public();
    let found = changes(&running, &file);
    let effects: Vec<_> = found
        .iter()
        .map(|change| (change.name.as_str(), &change.file, change.effect))
        .collect();
    assert_eq!(
        effects,
        [
            ("reserved_host_cpus", &json!(2), OptionEffect::Live),
            ("state_path", &json!("/b"), OptionEffect::Restart)
        ]
    );
    assert!(changes(&file, &file).is_empty());
}

#[test]
fn every_option_of_the_table_has_a_field_and_every_field_a_row() {
    // Sections refuse unknown fields and need those that are not optional, so a full configuration shows both ways.
    let mut sections: BTreeMap<&str, String> = BTreeMap::new();
    // A system scope contradicts a project, so it is left out.
    // So do a secret and the file with it.
    let secrets = OPTIONS.iter().filter_map(OptionRow::of_file);
    let files_of_secrets: Vec<String> = secrets.map(|row| row.name()).collect();
    let is_left_out =
        |name: &String| name.ends_with(".system_scope") || files_of_secrets.contains(name);
    for row in OPTIONS.iter().filter(|row| !is_left_out(&row.name())) {
        let section = match row.section {
            "mdev_TYPE" => "mdev_nvidia-35",
            "scheduler_plugin_NAME" => "scheduler_plugin_rack_power",
            section => section,
        };
        let line = berth_config::reference::example_line(row);
        sections
            .entry(section)
            .or_default()
            .push_str(&format!("{line}\n"));
    }
    let mut text = sections.remove("").unwrap_or_default();
    for (section, lines) in sections {
        text.push_str(&format!("[{section}]\n{lines}"));
    }
    let loaded = load(&text, &[]);
    let unset: Vec<_> = loaded
        .effective
        .iter()
        .filter(|each| !each.is_set())
        .map(|each| &each.name)
        .collect();
    let names: Vec<String> = OPTIONS.iter().map(OptionRow::name).collect();
    let left_out: Vec<&String> = names.iter().filter(|name| is_left_out(name)).collect();
    assert_eq!(unset, left_out);
    assert_eq!(loaded.effective.len(), OPTIONS.len());
}
