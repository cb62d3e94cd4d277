//! Metrics of the agent for Prometheus. Nothing listens here: the admin API renders them on request. Every metric is a
//! row of [`METRICS`], from which `docs/guide/reference/metrics.md` is generated.
//!
//! No label holds the UUID of a consumer, guest or request, so the number of series does not grow with them.

mod devices;
mod host_state;
mod page;
mod process;
mod reshape_result;
mod rows;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_agent_api::PlanState;
use berth_agent_api::health::{HealthMessage, Severity};
use berth_agent_instances::FindingObserver;
use berth_agent_instances::reconcile::FindingKind;
use berth_client::{ExchangeOutcome, HttpExchange, RequestObserver};
use berth_model::{HeldUnits, ResourceClass};
use berth_virt::{HostView, UnfitReason};
use http::{Method, StatusCode};
use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::{
    Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};

use crate::metrics::devices::{DeviceInfo, DeviceState};
use crate::metrics::reshape_result::ReshapeResult;
use crate::metrics::rows::{
    BUILD_INFO, DEVICE_INFO, DEVICES, DEVICES_UNFIT, FINDINGS, GENERATION_CONFLICTS, GUESTS_HELD,
    HEALTH_MESSAGES, HELD_UNITS, HOST_STATES, PLACEMENT_REQUESTS, PLAN_STATE, RESHAPES,
    TICK_DURATION,
};

pub use berth_wire::metrics::{MetricKind, MetricRow};
pub use host_state::{HostStateRequest, HostStateResult};
pub use page::EmbeddedMetrics;
pub(crate) use page::MetricsPage;
pub use rows::{METRICS, metrics_page};

/// Buckets of the duration of a pass in seconds, from a tick without changes to a reshape of thousands of consumers.
const PASS_BUCKETS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 600.0,
];

/// The agent's metrics. All clones use the same registry; there is no global one.
#[derive(Clone)]
pub struct Metrics(Arc<Registry>);

struct Registry {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    passes: Histogram,
    conflicts: Counter,
    held: Mutex<BTreeSet<ResourceClass>>,
    devices: Mutex<KnownDevices>,
}

/// The series of devices that were ever sent. A series cannot be removed, so its value becomes 0.
#[derive(Default)]
struct KnownDevices {
    counts: BTreeSet<(ResourceClass, DeviceState)>,
    infos: BTreeSet<DeviceInfo>,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new(env!("CARGO_PKG_VERSION"))
    }
}

static METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, None);

fn key(name: &'static str, labels: Vec<Label>) -> Key {
    Key::from_parts(name, labels)
}

impl Metrics {
    #[must_use]
    pub fn new(version: &'static str) -> Self {
        let matcher = Matcher::Full(TICK_DURATION.to_owned());
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(matcher, PASS_BUCKETS)
            .expect("the buckets are not empty")
            .build_recorder();
        for row in METRICS {
            let (name, help) = (row.name.into(), row.help.into());
            match row.kind {
                MetricKind::Counter => recorder.describe_counter(name, None, help),
                MetricKind::Gauge => recorder.describe_gauge(name, None, help),
                MetricKind::Histogram => recorder.describe_histogram(name, None, help),
            }
        }
        let metrics = Self(Arc::new(Registry {
            passes: recorder.register_histogram(&key(TICK_DURATION, Vec::new()), &METADATA),
            conflicts: recorder.register_counter(&key(GENERATION_CONFLICTS, Vec::new()), &METADATA),
            held: Mutex::default(),
            devices: Mutex::default(),
            handle: recorder.handle(),
            recorder,
        }));
        metrics
            .gauge(BUILD_INFO, Label::new("version", version))
            .set(1.0);
        metrics.plan_states([]);
        metrics.held_guests(0);
        metrics.unfit_devices([]);
        metrics.findings([]);
        metrics.health(&[]);
        for request in HostStateRequest::ALL {
            for result in HostStateResult::ALL {
                metrics.host_states(request, result).increment(0);
            }
        }
        for result in ReshapeResult::ALL {
            metrics.reshapes(result).increment(0);
        }
        metrics
    }

    fn gauge(&self, name: &'static str, label: Label) -> Gauge {
        self.gauge_of(name, vec![label])
    }

    fn gauge_of(&self, name: &'static str, labels: Vec<Label>) -> Gauge {
        self.0
            .recorder
            .register_gauge(&key(name, labels), &METADATA)
    }

    /// Records the duration of a pass over a node.
    pub fn pass_took(&self, duration: Duration) {
        self.0.passes.record(duration.as_secs_f64());
        // The recorder keeps samples in memory until they are sorted into buckets, and there may be no scraper that
        // triggers it.
        self.0.handle.run_upkeep();
    }

    /// Sets the number of nodes in each state.
    pub fn plan_states(&self, nodes: impl IntoIterator<Item = PlanState>) {
        let nodes: Vec<PlanState> = nodes.into_iter().collect();
        for state in PlanState::ALL {
            let count = nodes.iter().filter(|node| **node == state).count();
            self.gauge(
                PLAN_STATE,
                Label::from_static_parts("state", state.as_str()),
            )
            .set(decimal(count));
        }
    }

    fn reshapes(&self, result: ReshapeResult) -> Counter {
        let label = Label::from_static_parts("result", result.as_str());
        self.0
            .recorder
            .register_counter(&key(RESHAPES, vec![label]), &METADATA)
    }

    fn host_states(&self, request: HostStateRequest, result: HostStateResult) -> Counter {
        let labels = vec![
            Label::from_static_parts("request", request.as_str()),
            Label::from_static_parts("result", result.as_str()),
        ];
        self.0
            .recorder
            .register_counter(&key(HOST_STATES, labels), &METADATA)
    }

    /// Counts a report to the scheduler.
    pub fn count_host_report(&self, request: HostStateRequest, result: HostStateResult) {
        self.host_states(request, result).increment(1);
    }

    /// Counts a reshape that was not sent because it would be invalid. Sent reshapes are counted by their responses.
    pub fn reshape_refused(&self) {
        self.reshapes(ReshapeResult::Refused).increment(1);
    }

    /// Sets the held units by class. A class without held units is set to zero.
    pub fn held_units<'a>(&self, held: impl IntoIterator<Item = &'a HeldUnits>) {
        let mut units: std::collections::BTreeMap<ResourceClass, u64> = self
            .known_classes()
            .iter()
            .map(|class| (class.clone(), 0))
            .collect();
        for each in held {
            *units.entry(each.class.clone()).or_default() += each.used;
        }
        for (class, used) in &units {
            #[expect(clippy::cast_precision_loss, reason = "amounts are far below 2^52")]
            self.gauge(HELD_UNITS, Label::new("resource_class", class.to_string()))
                .set(*used as f64);
        }
        self.known_classes().extend(units.into_keys());
    }

    /// Sets the number of blocked guests.
    pub fn held_guests(&self, count: usize) {
        let gauge = key(GUESTS_HELD, Vec::new());
        let gauge = self.0.recorder.register_gauge(&gauge, &METADATA);
        gauge.set(decimal(count));
    }

    /// Sets the number of persistent findings of a reconcile run.
    pub fn findings(&self, found: impl IntoIterator<Item = FindingKind>) {
        let found: Vec<FindingKind> = found.into_iter().collect();
        for kind in FindingKind::ALL {
            let count = found.iter().filter(|one| *one == kind).count();
            let label = Label::from_static_parts("code", kind.code());
            self.gauge(FINDINGS, label).set(decimal(count));
        }
    }

    /// Sets the metrics of the devices that an observation has.
    pub fn devices(&self, view: &HostView) {
        let (counts, infos) = (devices::counts(view), devices::infos(view));
        let mut known = self
            .0
            .devices
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        known.counts.extend(counts.keys().cloned());
        known.infos.extend(infos.iter().cloned());
        for series in &known.counts {
            let (class, state) = series;
            let labels = vec![
                Label::from_static_parts("state", state.as_str()),
                Label::new("resource_class", class.to_string()),
            ];
            let count = counts.get(series).copied().unwrap_or_default();
            #[expect(clippy::cast_precision_loss, reason = "amounts are far below 2^52")]
            self.gauge_of(DEVICES, labels).set(count as f64);
        }
        for info in &known.infos {
            let is_offered = infos.contains(info);
            self.gauge_of(DEVICE_INFO, info.labels())
                .set(if is_offered { 1.0 } else { 0.0 });
        }
    }

    /// Sets the number of unfit devices by reason; each device counts once.
    pub fn unfit_devices(&self, reasons: impl IntoIterator<Item = UnfitReason>) {
        let found: Vec<UnfitReason> = reasons.into_iter().collect();
        for reason in UnfitReason::ALL {
            let count = found.iter().filter(|one| **one == reason).count();
            let label = Label::from_static_parts("reason", reason.as_str());
            self.gauge(DEVICES_UNFIT, label).set(decimal(count));
        }
    }

    fn known_classes(&self) -> std::sync::MutexGuard<'_, BTreeSet<ResourceClass>> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the number of visible health messages.
    pub fn health(&self, messages: &[HealthMessage]) {
        for severity in Severity::ALL {
            let count = messages
                .iter()
                .filter(|message| message.severity == severity)
                .count();
            let label = Label::from_static_parts("severity", severity.as_str());
            self.gauge(HEALTH_MESSAGES, label).set(decimal(count));
        }
    }

    /// All metrics in Prometheus' text format, including those of the process.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = self.0.handle.render();
        process::write(&mut text);
        text
    }
}

fn decimal(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

impl RequestObserver for Metrics {
    fn observed(&self, exchange: &HttpExchange<'_>) {
        if exchange.service != "placement" {
            return;
        }
        let code = match exchange.outcome {
            ExchangeOutcome::Answered(status) => Label::new("code", status.as_str().to_owned()),
            ExchangeOutcome::Failed(kind) => Label::from_static_parts("code", kind),
        };
        let labels = vec![
            Label::new("method", exchange.method.as_str().to_owned()),
            Label::from_static_parts("route", exchange.route),
            code,
        ];
        self.0
            .recorder
            .register_counter(&key(PLACEMENT_REQUESTS, labels), &METADATA)
            .increment(1);
        if exchange.outcome == ExchangeOutcome::Answered(StatusCode::CONFLICT)
            && exchange.method != Method::GET
        {
            self.0.conflicts.increment(1);
        }
        if exchange.route == "/reshaper" {
            self.reshapes(ReshapeResult::of(exchange.outcome))
                .increment(1);
        }
    }
}

impl FindingObserver for Metrics {
    fn findings(&self, kinds: Vec<FindingKind>) {
        Metrics::findings(self, kinds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(
        route: &'static str,
        method: &'static Method,
        outcome: ExchangeOutcome,
    ) -> HttpExchange<'static> {
        let duration = Duration::from_millis(3);
        HttpExchange {
            service: "placement",
            method,
            route,
            outcome,
            sent_bytes: 0,
            received_bytes: 0,
            duration,
        }
    }

    fn value(text: &str, series: &str) -> Option<f64> {
        let line = text.lines().find(|line| {
            line.strip_prefix(series)
                .is_some_and(|rest| rest.starts_with(' '))
        })?;
        line.rsplit(' ').next()?.parse().ok()
    }

    #[test]
    fn a_request_is_counted_by_method_route_and_code() {
        let metrics = Metrics::default();
        let route = "/resource_providers/{uuid}/inventories";
        for _ in 0..3 {
            metrics.observed(&exchange(
                route,
                &Method::PUT,
                ExchangeOutcome::Answered(StatusCode::CONFLICT),
            ));
        }
        metrics.observed(&exchange(
            route,
            &Method::GET,
            ExchangeOutcome::Failed("timeout"),
        ));
        let login = HttpExchange {
            service: "identity",
            ..exchange(
                "/v3/auth/tokens",
                &Method::POST,
                ExchangeOutcome::Failed("tls"),
            )
        };
        metrics.observed(&login);
        let text = metrics.render();
        let series = |method: &str, code: &str| {
            format!(
                "berth_placement_requests_total{{method=\"{method}\",route=\"{route}\",code=\"{code}\"}}"
            )
        };
        assert_eq!(value(&text, &series("PUT", "409")), Some(3.0), "{text}");
        assert_eq!(value(&text, &series("GET", "timeout")), Some(1.0), "{text}");
        assert_eq!(value(&text, "berth_generation_conflicts_total"), Some(3.0));
        assert!(!text.contains("/v3/auth/tokens"));
    }

    #[test]
    fn a_reshape_is_counted_by_its_answer() {
        let metrics = Metrics::default();
        let answers = [
            ExchangeOutcome::Answered(StatusCode::NO_CONTENT),
            ExchangeOutcome::Answered(StatusCode::CONFLICT),
            ExchangeOutcome::Failed("closed"),
            ExchangeOutcome::Answered(StatusCode::SERVICE_UNAVAILABLE),
            ExchangeOutcome::Answered(StatusCode::FORBIDDEN),
        ];
        for outcome in answers {
            metrics.observed(&exchange("/reshaper", &Method::POST, outcome));
        }
        metrics.reshape_refused();
        let text = metrics.render();
        for (result, count) in [
            ("done", 1.0),
            ("interrupted", 3.0),
            ("failed", 1.0),
            ("refused", 1.0),
        ] {
            let series = format!("berth_reshapes_total{{result=\"{result}\"}}");
            assert_eq!(value(&text, &series), Some(count), "{result}: {text}");
        }
    }

    #[test]
    fn passes_fall_into_buckets() {
        let metrics = Metrics::default();
        metrics.pass_took(Duration::from_millis(2));
        metrics.pass_took(Duration::from_secs(1_000));
        let text = metrics.render();
        assert_eq!(
            value(&text, "berth_tick_duration_seconds_bucket{le=\"0.001\"}"),
            Some(0.0),
            "{text}"
        );
        assert_eq!(
            value(&text, "berth_tick_duration_seconds_bucket{le=\"0.0025\"}"),
            Some(1.0),
            "{text}"
        );
        assert_eq!(
            value(&text, "berth_tick_duration_seconds_bucket{le=\"600\"}"),
            Some(1.0),
            "{text}"
        );
        assert_eq!(value(&text, "berth_tick_duration_seconds_count"), Some(2.0));
    }

    #[test]
    fn a_class_that_is_free_again_goes_to_zero() {
        let metrics = Metrics::default();
        let held = HeldUnits {
            provider: "6f2a4c2e-0f0e-4d0f-9d65-2b3c5f3a1c01".parse().unwrap(),
            name: "node".parse().unwrap(),
            class: ResourceClass::VGPU,
            used: 4,
        };
        let series = "berth_held_units{resource_class=\"VGPU\"}";
        metrics.held_units([&held, &held]);
        assert_eq!(value(&metrics.render(), series), Some(8.0));
        metrics.held_units([]);
        assert_eq!(value(&metrics.render(), series), Some(0.0));
    }

    #[test]
    fn a_device_that_is_well_again_is_counted_no_more() {
        let metrics = Metrics::default();
        metrics.unfit_devices([UnfitReason::Aer, UnfitReason::Aer, UnfitReason::Vendor]);
        let text = metrics.render();
        for (reason, count) in [("aer", 2.0), ("vendor", 1.0), ("link", 0.0)] {
            let series = format!("berth_devices_unfit{{reason=\"{reason}\"}}");
            assert_eq!(value(&text, &series), Some(count), "{text}");
        }
        metrics.unfit_devices([]);
        let series = "berth_devices_unfit{reason=\"aer\"}";
        assert_eq!(value(&metrics.render(), series), Some(0.0));
    }

    #[test]
    fn devices_are_counted_by_state_and_class_and_a_removed_one_becomes_0() {
        let metrics = Metrics::default();
        let mut view = crate::service::samples::host(&["gpu-01"]);
        let node = view.nodes.values_mut().next().unwrap();
        let function = |slot: u32| format!("0000:84:00.{slot}").parse().unwrap();
        node.devices = vec![devices::test_device((0..4).map(function).collect())];
        let handles = node.devices[0].handles.clone();
        node.devices[0].unfit_handles = [handles[3].clone()].into();
        node.guests = [devices::test_guest(function(1))].into();
        // A guest gets all functions of this card.
        let mut whole = devices::test_device(vec![
            "0000:85:00.0".parse().unwrap(),
            "0000:85:00.1".parse().unwrap(),
        ]);
        whole.unit = berth_virt::DeviceUnit::Device;
        whole.class = ResourceClass::FPGA;
        node.devices.push(whole);
        metrics.devices(&view);
        let text = metrics.render();
        let fpga = "berth_devices{state=\"free\",resource_class=\"FPGA\"}";
        assert_eq!(value(&text, fpga), Some(1.0), "{text}");
        // The host's GPU has four virtual GPUs.
        let vgpu = "berth_devices{state=\"free\",resource_class=\"VGPU\"}";
        assert_eq!(value(&text, vgpu), Some(4.0), "{text}");
        let count = |text: &str, state: &str| {
            let labels = format!("state=\"{state}\",resource_class=\"PGPU\"");
            value(text, &format!("berth_devices{{{labels}}}"))
        };
        let info = "berth_device_info{node=\"gpu-01\",pci_bus_id=\"00000000:84:00.0\",resource_class=\"PGPU\",\
                    vendor_id=\"10de\",product_id=\"1eb8\",model=\"T4\",numa_node=\"1\",device_type=\"GPU\"}";
        for (state, expected) in [("free", 2.0), ("used", 1.0), ("unfit", 1.0)] {
            assert_eq!(count(&text, state), Some(expected), "{text}");
        }
        assert_eq!(value(&text, info), Some(1.0), "{text}");
        view.nodes.values_mut().next().unwrap().devices.clear();
        metrics.devices(&view);
        let text = metrics.render();
        assert_eq!(count(&text, "free"), Some(0.0));
        assert_eq!(value(&text, info), Some(0.0));
    }

    /// The labels of a metric's series.
    fn labels<'a>(text: &'a str, metric: &str) -> BTreeSet<&'a str> {
        let mut series = text.lines().filter_map(|line| line.strip_prefix(metric));
        let labels = series.find_map(|rest| rest.strip_prefix('{')?.split_once('}'));
        let (labels, _) = labels.unwrap_or_else(|| panic!("no series of {metric}"));
        labels_in(labels).collect()
    }

    /// The names in `state="free",resource_class="PGPU"`.
    fn labels_in(text: &str) -> impl Iterator<Item = &str> {
        let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
        pairs.map(|(name, _)| name.trim_end_matches('!').trim())
    }

    /// The parts of a query between this and the next closing character.
    fn parts<'a>(query: &'a str, open: &str, close: char) -> Vec<&'a str> {
        let rest = query.split(open).skip(1);
        rest.filter_map(|rest| rest.split(close).next()).collect()
    }

    /// Other exporters' series are joined by label.
    #[test]
    fn the_documented_queries_about_devices_use_labels_that_the_metrics_have() {
        let metrics = Metrics::default();
        let mut view = crate::service::samples::host(&["gpu-01"]);
        let function = "0000:af:00.0".parse().unwrap();
        view.nodes.values_mut().next().unwrap().devices =
            vec![devices::test_device(vec![function])];
        metrics.devices(&view);
        let text = metrics.render();
        // As the DCGM exporter writes it.
        assert!(text.contains("pci_bus_id=\"00000000:AF:00.0\""), "{text}");
        let page = include_str!("../../docs/guide/howto/monitoring.md");
        let (_, section) = page.split_once("\n## Queries about devices\n").unwrap();
        let (section, _) = section.split_once("\n## ").unwrap();
        let rows = section.lines().filter_map(|line| line.strip_suffix("` |"));
        let queries: Vec<_> = rows
            .filter_map(|row| Some(row.rsplit_once("| `")?.1))
            .collect();
        assert!(queries.len() >= 5, "{section}");
        for query in &queries {
            let own: Vec<_> = [DEVICES, DEVICE_INFO]
                .into_iter()
                .filter(|name| {
                    let mut words = query.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
                    words.any(|word| word == *name)
                })
                .collect();
            assert!(!own.is_empty(), "{query}");
            let joined = ["by (", "on (", "group_left ("].map(|open| parts(query, open, ')'));
            let joined = joined
                .into_iter()
                .flatten()
                .flat_map(|list| list.split(','));
            let selected = parts(query, "{", '}').into_iter().flat_map(labels_in);
            for label in joined.map(str::trim).chain(selected) {
                for metric in &own {
                    assert!(labels(&text, metric).contains(label), "{label}: {query}");
                }
            }
        }
        for other in ["DCGM_FI_DEV_GPU_UTIL", "openstack_placement_resource_usage"] {
            assert!(queries.iter().any(|query| query.contains(other)), "{other}");
        }
    }

    #[test]
    fn states_add_up_to_the_nodes() {
        let metrics = Metrics::default();
        metrics.plan_states([PlanState::InSync, PlanState::InSync, PlanState::Unknown]);
        let text = metrics.render();
        assert_eq!(
            value(&text, "berth_plan_state{state=\"in_sync\"}"),
            Some(2.0),
            "{text}"
        );
        assert_eq!(
            value(&text, "berth_plan_state{state=\"unknown\"}"),
            Some(1.0)
        );
        assert_eq!(
            value(&text, "berth_plan_state{state=\"reshape_needed\"}"),
            Some(0.0)
        );
    }

    #[test]
    fn every_metric_has_its_help_and_its_type_and_no_other_is_sent() {
        let metrics = Metrics::default();
        metrics.pass_took(Duration::from_millis(2));
        metrics.observed(&exchange(
            "/",
            &Method::GET,
            ExchangeOutcome::Answered(StatusCode::OK),
        ));
        metrics.held_units([&HeldUnits {
            provider: "6f2a4c2e-0f0e-4d0f-9d65-2b3c5f3a1c01".parse().unwrap(),
            name: "node".parse().unwrap(),
            class: ResourceClass::VGPU,
            used: 1,
        }]);
        let mut view = crate::service::samples::host(&["gpu-01"]);
        let function = "0000:84:00.0".parse().unwrap();
        view.nodes.values_mut().next().unwrap().devices =
            vec![devices::test_device(vec![function])];
        metrics.devices(&view);
        let text = metrics.render();
        let names = |prefix: &str| -> BTreeSet<String> {
            let lines = text.lines().filter_map(|line| line.strip_prefix(prefix));
            lines
                .filter_map(|line| line.split(' ').next())
                .map(str::to_owned)
                .collect()
        };
        let rows = METRICS
            .iter()
            .chain(process::ROWS)
            .map(|row| row.name.to_owned());
        let known: BTreeSet<String> = rows.collect();
        assert_eq!(names("# HELP "), known);
        assert_eq!(names("# TYPE "), known);
    }
}
