//! Weights, by tables and by what must hold for all of them.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::weighers::order;
use berth_model::SeededRng;
use berth_scheduler_objects::testing::{hosts, request};

fn options(weigher: &str, normalization: Normalization) -> SchedulerOptions {
    let mut options = SchedulerOptions::default();
    options.filter_scheduler.weight_classes = vec![weigher.to_owned()];
    options.filter_scheduler.weight_normalization = normalization;
    options
}

fn all(normalization: Normalization) -> SchedulerOptions {
    options("nova.scheduler.weights.all_weighers", normalization)
}

fn rank(options: &SchedulerOptions, these: &[ConsideredHost], asked: &RequestSpec) -> HostRanking {
    let weighers = Weighers::new(options).expect("weighers");
    HostRanking::new(&weighers, these, asked, options).expect("all can be weighed")
}

fn column(ranking: &HostRanking, of: fn(&Score) -> f64) -> Vec<f64> {
    let cards = ranking.cards(0..ranking.hosts);
    cards.iter().map(|card| of(&card.scores[0])).collect()
}

#[test]
fn each_weigher_has_its_raw_weights() {
    let group = |policy: &str| json!({"group": {"policy": policy, "members": ["a", "b", "c"]}});
    let two = json!([{"instances": ["a", "b", "x"]}, {"instances": ["x"]}]);
    let cell = |allowed: bool| json!({"requested_destination": {"cell": "c1", "allow_cross_cell_move": allowed}});
    let cells = json!([{"cell": "c1"}, {"cell": "c2"}]);
    let table: [(&str, Value, Value, [f64; 2]); 16] = [
        (
            "RAMWeigher",
            json!([{"free_ram_mb": 5}, {"free_ram_mb": -5}]),
            json!({}),
            [5.0, 0.0],
        ),
        (
            "CPUWeigher",
            json!([{"vcpus_total": 4, "cpu_ratio": 2.0, "vcpus_used": 1}, {"vcpus_used": 1}]),
            json!({}),
            [7.0, 0.0],
        ),
        (
            "DiskWeigher",
            json!([{"free_disk_mb": 5}, {"free_disk_mb": -5}]),
            json!({}),
            [5.0, 0.0],
        ),
        (
            "IoOpsWeigher",
            json!([{"num_io_ops": 5}, {}]),
            json!({}),
            [5.0, 0.0],
        ),
        (
            "NumInstancesWeigher",
            json!([{"num_instances": 5}, {}]),
            json!({}),
            [5.0, 0.0],
        ),
        (
            "HypervisorVersionWeigher",
            json!([{"hv_version": 8_000_000}, {"hv_version": null}]),
            json!({}),
            [8_000_000.0, 0.0],
        ),
        (
            "PCIWeigher",
            json!([{"pci_pools": [{"vendor_id": "8086", "product_id": "1", "count": 60}, {"vendor_id": "8086", "product_id": "2", "count": 60}]}, {"pci_pools": null}]),
            json!({}),
            [1.0, 100.0],
        ),
        (
            "BuildFailureWeigher",
            json!([{"failed_builds": 3}, {}]),
            json!({}),
            [3.0, 0.0],
        ),
        ("CrossCellWeigher", cells.clone(), cell(true), [1.0, -1.0]),
        ("CrossCellWeigher", cells, cell(false), [0.0, 0.0]),
        (
            "ServerGroupSoftAffinityWeigher",
            two.clone(),
            group("soft-affinity"),
            [2.0, 0.0],
        ),
        (
            "ServerGroupSoftAffinityWeigher",
            two.clone(),
            group("affinity"),
            [0.0, 0.0],
        ),
        (
            "ServerGroupSoftAntiAffinityWeigher",
            two.clone(),
            group("soft-anti-affinity"),
            [-2.0, 0.0],
        ),
        (
            "ServerGroupSoftAntiAffinityWeigher",
            two.clone(),
            group("soft-affinity"),
            [0.0, 0.0],
        ),
        (
            "ServerGroupSoftAntiAffinityWeigher",
            two,
            json!({}),
            [0.0, 0.0],
        ),
        (
            "MetricsWeigher",
            json!([{"metrics": [{"name": "m", "value": 4}]}, {}]),
            json!({}),
            [0.0, 0.0],
        ),
    ];
    for (weigher, these, asked, expected) in table {
        let options = options(weigher, Normalization::Upstream);
        let ranking = rank(&options, &hosts(&these), &request(&asked));
        assert_eq!(column(&ranking, |one| one.raw), expected, "{weigher}");
    }
}

#[test]
fn image_properties_count_as_their_settings_say() {
    let these = hosts(&json!([
        {"instances": {"1": {"os_distro": "linux"}, "2": {"os_distro": "linux", "hw_machine_type": "q35"}}},
        {"instances": {"3": {"os_distro": "windows", "hw_machine_type": "q35"}}},
    ]));
    let asked = request(
        &json!({"image": {"properties": {"os_distro": "linux", "hw_machine_type": "q35"}}}),
    );
    for (multiplier, settings, expected) in [
        (1.0, &[][..], [3.0, 1.0]),
        (1.0, &["os_distro=2"][..], [4.0, 0.0]),
        (1.0, &["os_distro=2", "hw_machine_type=-1"], [3.0, -1.0]),
        (1.0, &["nothing that is read"], [3.0, 1.0]),
        (0.0, &[], [0.0, 0.0]),
    ] {
        let mut options = options("ImagePropertiesWeigher", Normalization::Upstream);
        let settings = settings.iter().map(|it| (*it).to_owned()).collect();
        options.filter_scheduler.image_props_weight_multiplier = multiplier;
        options.filter_scheduler.image_props_weight_setting = settings;
        let ranking = rank(&options, &these, &asked);
        assert_eq!(column(&ranking, |one| one.raw), expected);
    }
}

#[test]
fn a_host_without_a_metric_is_an_error_or_has_the_weight_of_unavailable() {
    let these = hosts(&json!([
        {"metrics": [{"name": "a", "value": 4}, {"name": "b", "value": 3}]},
        {"metrics": [{"name": "b", "value": 3}]},
        {},
    ]));
    let mut options = options("MetricsWeigher", Normalization::Upstream);
    options.metrics.weight_setting = vec!["a=2".to_owned(), "b=-1".to_owned()];
    let weighers = Weighers::new(&options).expect("weighers");
    let asked = request(&json!({}));
    let unweighable = HostRanking::new(&weighers, &these, &asked, &options).expect_err("required");
    let places: Vec<usize> = unweighable.iter().map(|one| one.place).collect();
    assert_eq!(places, [1, 2]);
    assert_eq!(unweighable[0].why.metric, "a");

    options.metrics.required = false;
    let ranking = rank(&options, &these, &asked);
    assert_eq!(column(&ranking, |one| one.raw), [5.0, -10_000.0, -10_000.0]);

    options.metrics.weight_setting = vec!["a=0".to_owned(), "b=-1".to_owned()];
    let ranking = rank(&options, &these, &asked);
    assert_eq!(column(&ranking, |one| one.raw), [-3.0, -3.0, -10_000.0]);
}

#[test]
fn the_four_scales_are_what_they_say() {
    // The vCPU table of Red Hat's document: of 32 CPUs so many are used.
    let used = [27, 27, 22, 22, 17, 12, 12, 17, 22, 27];
    let these = used.map(|used| json!({"vcpus_total": 32, "vcpus_used": used}));
    let these = hosts(&json!(these));
    let third = 1.0 / 3.0;
    let table = [
        (
            Normalization::Upstream,
            [0.25, 0.25, 0.5, 0.5, 0.75, 1.0, 1.0, 0.75, 0.5, 0.25],
        ),
        (
            Normalization::ListMin,
            [
                0.0,
                0.0,
                third,
                third,
                2.0 * third,
                1.0,
                1.0,
                2.0 * third,
                third,
                0.0,
            ],
        ),
        (
            Normalization::Fixed,
            [5.0, 5.0, 10.0, 10.0, 15.0, 20.0, 20.0, 15.0, 10.0, 5.0].map(|free| free / 256.0),
        ),
        (
            Normalization::Percent,
            [5.0, 5.0, 10.0, 10.0, 15.0, 20.0, 20.0, 15.0, 10.0, 5.0].map(|free| free / 32.0),
        ),
    ];
    for (normalization, expected) in table {
        let ranking = rank(
            &options("CPUWeigher", normalization),
            &these,
            &request(&json!({})),
        );
        for (got, expected) in column(&ranking, |one| one.norm).iter().zip(expected) {
            assert!(
                (got - expected).abs() < 1e-12,
                "{normalization:?} {got} {expected}"
            );
        }
    }
}

#[test]
fn a_host_that_is_alone_is_not_weighed_where_the_list_is_the_scale() {
    let one = hosts(&json!([{"free_ram_mb": 1_048_576, "total_ram_mb": 2_097_152}]));
    for (normalization, expected) in [
        (Normalization::Upstream, 0.0),
        (Normalization::ListMin, 0.0),
        (Normalization::Fixed, 1.0),
        (Normalization::Percent, 0.5),
    ] {
        let ranking = rank(
            &options("RAMWeigher", normalization),
            &one,
            &request(&json!({})),
        );
        assert_eq!(ranking.weights(), [expected], "{normalization:?}");
        assert_eq!(ranking.cards([0])[0].scores.is_empty(), expected == 0.0);
    }
}

#[test]
fn a_weigher_is_pivotal_where_another_host_would_be_the_best_without_it() {
    let these = hosts(&json!([
        {"free_ram_mb": 100, "failed_builds": 1, "vcpus_total": 3},
        {"free_ram_mb": 50, "vcpus_total": 3},
    ]));
    let ranking = rank(&all(Normalization::Upstream), &these, &request(&json!({})));
    assert_eq!(ranking.pivotal(), [("BuildFailureWeigher", 0)]);
    let alone = rank(
        &all(Normalization::Upstream),
        &these[..1],
        &request(&json!({})),
    );
    assert_eq!(alone.pivotal(), []);
    let beyond = json!([{"cpu_weight_multiplier": "1e300"}, {"cpu_weight_multiplier": "1"}]);
    let host = |ram: i64, metadata: &Value| json!({"free_ram_mb": ram, "vcpus_total": 3, "aggregates": [{"metadata": metadata}]});
    let these = hosts(&json!([host(1, &beyond[0]), host(9, &beyond[1])]));
    let ranking = rank(&all(Normalization::Upstream), &these, &request(&json!({})));
    assert_eq!(ranking.pivotal(), [("CPUWeigher", 1)]);
}

#[test]
fn a_metric_or_a_multiplier_that_is_not_finite_is_as_good_as_none() {
    let host = |multiplier: &str| json!({"metrics": [{"name": "m", "value": 4}], "aggregates": [{"metadata": {"metrics_weight_multiplier": multiplier}}]});
    let mut these = hosts(&json!([host("inf"), host("3"), host("nan")]));
    let mut options = options("MetricsWeigher", Normalization::Upstream);
    options.metrics.weight_setting = vec!["m=1".to_owned()];
    let asked = request(&json!({}));
    let multipliers = column(&rank(&options, &these, &asked), |one| one.multiplier);
    assert_eq!(multipliers, [1.0, 3.0, 1.0]);

    let mut state = (*these[0].state).clone();
    state.metrics = Some([("m".to_owned(), f64::INFINITY)].into());
    these[0].state = std::sync::Arc::new(state);
    let weighers = Weighers::new(&options).expect("weighers");
    let unweighable = HostRanking::new(&weighers, &these, &asked, &options).expect_err("required");
    assert_eq!(unweighable.len(), 1);
    assert_eq!(
        (unweighable[0].place, unweighable[0].why.metric.as_str()),
        (0, "m")
    );
    options.metrics.required = false;
    let raw = column(&rank(&options, &these, &asked), |one| one.raw);
    assert_eq!(raw, [-10_000.0, 4.0, 4.0]);
}

fn any_host() -> impl Strategy<Value = Value> {
    let multiplier = prop_oneof![Just(""), Just("2"), Just("-1.5"), Just("x")];
    (0..100_000i64, 0..64i64, 0..9i64, 0..3i64, multiplier).prop_map(
        |(ram, used, io_ops, failed, multiplier)| {
            json!({
                "free_ram_mb": ram, "total_ram_mb": 131_072, "free_disk_mb": ram * 7, "total_disk_gb": 900,
                "vcpus_total": 32, "vcpus_used": used, "cpu_ratio": 4.0, "num_io_ops": io_ops,
                "num_instances": used % 7, "failed_builds": failed, "hv_version": 8_000_000 + failed,
                "aggregates": [{"metadata": {"cpu_weight_multiplier": multiplier}}],
            })
        },
    )
}

/// Any number that is finite, large ones as often as others.
fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        -10.0..10.0f64,
        Just(0.0),
        Just(f64::MAX),
        Just(f64::MIN),
        Just(f64::MIN_POSITIVE),
        prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL,
    ]
}

/// A host with arbitrary numbers and arbitrary multipliers in its aggregates.
fn extreme_host() -> impl Strategy<Value = Value> {
    let multiplier = prop_oneof![
        any_number().prop_map(|it| format!("{it:e}")),
        prop::sample::select(vec!["inf", "-inf", "nan", "x", "1e999"]).prop_map(str::to_owned),
    ];
    let numbers = prop::array::uniform4(any_number());
    (numbers, prop::array::uniform3(multiplier), any::<[i64; 2]>()).prop_map(
        |([a, b, ratio, other], [cpu, ram, metrics], [free, used])| {
            json!({
                "free_ram_mb": free, "total_ram_mb": used, "vcpus_total": free, "vcpus_used": used,
                "cpu_ratio": ratio, "ram_ratio": other, "failed_builds": used,
                "metrics": [{"name": "a", "value": a}, {"name": "b", "value": b}],
                "instances": {"1": {"os_distro": "linux"}},
                "aggregates": [{"metadata": {"cpu_weight_multiplier": cpu, "ram_weight_multiplier": ram}},
                    {"metadata": {"metrics_weight_multiplier": metrics, "cpu_weight_multiplier": ram}}],
            })
        },
    )
}

fn any_scale() -> impl Strategy<Value = Normalization> {
    prop_oneof![
        Just(Normalization::Upstream),
        Just(Normalization::ListMin),
        Just(Normalization::Fixed),
        Just(Normalization::Percent),
    ]
}

proptest! {
    #[test]
    fn weighing_one_host_again_is_as_good_as_weighing_all(
        before in prop::collection::vec(any_host(), 1..8),
        changed in any_host(),
        place in any::<prop::sample::Index>(),
        dropped in any::<prop::sample::Index>(),
        scale in any_scale(),
    ) {
        let options = all(scale);
        let asked = request(&json!({}));
        let weighers = Weighers::new(&options).expect("weighers");
        let mut these = hosts(&json!(before));
        let mut ranking = rank(&options, &these, &asked);

        let place = place.index(these.len());
        these[place] = hosts(&json!([changed])).remove(0);
        ranking.again(&weighers, place, &these[place], &asked, &options).expect("it can be weighed");
        prop_assert_eq!(ranking.weights(), rank(&options, &these, &asked).weights());

        let dropped = dropped.index(these.len());
        these.remove(dropped);
        ranking.retain(|place| place != dropped);
        prop_assert_eq!(ranking.weights(), rank(&options, &these, &asked).weights());
    }

    #[test]
    fn on_a_fixed_scale_only_the_hosts_own_numbers_matter(
        these in prop::collection::vec(any_host(), 2..8),
        percent in any::<bool>(),
    ) {
        let options = all(if percent { Normalization::Percent } else { Normalization::Fixed });
        let asked = request(&json!({}));
        let these = hosts(&json!(these));
        let together = rank(&options, &these, &asked).weights();
        for (one, weight) in these.iter().zip(together) {
            let alone = rank(&options, std::slice::from_ref(one), &asked).weights();
            prop_assert_eq!(alone, [weight]);
        }
    }

    #[test]
    fn whoever_decides_is_found_among_the_hosts_that_may_be_the_best(
        these in prop::collection::vec(any_host(), 1..40),
        scale in any_scale(),
        multipliers in prop::array::uniform4(-3.0..3.0f64),
        alike in any::<bool>(),
    ) {
        let mut options = all(scale);
        let filters = &mut options.filter_scheduler;
        [
            filters.ram_weight_multiplier,
            filters.disk_weight_multiplier,
            filters.io_ops_weight_multiplier,
            filters.num_instances_weight_multiplier,
        ] = multipliers;
        filters.build_failure_weight_multiplier = if alike { 0.0 } else { 1.0 };
        let ranking = rank(&options, &hosts(&json!(these)), &request(&json!({})));
        prop_assert_eq!(ranking.pivotal(), ranking.pivotal_by_all());
    }

    #[test]
    fn whatever_finite_numbers_there_are_every_score_is_finite_and_the_order_total(
        these in prop::collection::vec(extreme_host(), 1..8),
        scale in any_scale(),
        [ram, cpu, metrics, unavailable] in prop::array::uniform4(any_number()),
        [a, b, linux] in prop::array::uniform3(any_number()),
    ) {
        let mut options = all(scale);
        let filters = &mut options.filter_scheduler;
        (filters.ram_weight_multiplier, filters.cpu_weight_multiplier) = (ram, cpu);
        filters.image_props_weight_multiplier = ram;
        filters.image_props_weight_setting = vec![format!("os_distro={linux:e}")];
        options.metrics.weight_multiplier = metrics;
        options.metrics.weight_of_unavailable = unavailable;
        options.metrics.required = false;
        options.metrics.weight_setting = ["a", "b", "c"].iter().zip([a, b, 0.0]).map(|(name, ratio)| format!("{name}={ratio:e}")).collect();
        prop_assert_eq!(options.check().errors.into_iter().find(|it| !it.option.ends_with("_multiplier")), None);
        let asked = request(&json!({"image": {"properties": {"os_distro": "linux"}}}));
        let ranking = rank(&options, &hosts(&json!(these)), &asked);
        let weights = ranking.weights();
        for (card, weight) in ranking.cards(0..these.len()).iter().zip(&weights) {
            prop_assert!(weight.is_finite() && card.weight == *weight, "{:?}", card);
            for one in &card.scores {
                prop_assert!([one.raw, one.norm, one.multiplier, one.score].iter().all(|it| it.is_finite()), "{:?}", one);
            }
        }
        let mut places: Vec<usize> = (0..these.len()).collect();
        order(&mut places, &weights, &options.filter_scheduler, &mut SeededRng::new(1));
        for two in places.windows(2) {
            let (first, next) = (weights[two[0]], weights[two[1]]);
            prop_assert!(first > next || first == next && two[0] < two[1], "{:?}", weights);
        }
        prop_assert_eq!(ranking.pivotal(), ranking.pivotal_by_all());
    }

    #[test]
    fn a_card_adds_up_to_the_weight(these in prop::collection::vec(any_host(), 2..8), scale in any_scale()) {
        let ranking = rank(&all(scale), &hosts(&json!(these)), &request(&json!({})));
        for (place, weight) in ranking.weights().into_iter().enumerate() {
            prop_assert_eq!(ranking.cards([place])[0].weight, weight);
        }
    }
}

#[test]
fn of_a_thousand_hosts_few_are_considered_for_who_decides() {
    let these: Vec<Value> = (0..1000)
        .map(|at| {
            json!({"free_ram_mb": (at * 7_919) % 100_000, "free_disk_mb": (at * 104_729) % 900_000,
                "vcpus_total": 64, "vcpus_used": at % 61, "num_io_ops": at % 3})
        })
        .collect();
    let ranking = rank(
        &all(Normalization::Upstream),
        &hosts(&json!(these)),
        &request(&json!({})),
    );
    let (some, all) = ranking.considered();
    assert!(some * 4 < all, "{some} of {all}");
    assert_eq!(ranking.pivotal(), ranking.pivotal_by_all());
}

#[test]
fn failed_builds_count_nothing_where_they_are_not_counted() {
    let these = hosts(&json!([{"failed_builds": 3}, {}]));
    for scale in [
        Normalization::Upstream,
        Normalization::ListMin,
        Normalization::Fixed,
        Normalization::Percent,
    ] {
        let mut options = options("BuildFailureWeigher", scale);
        let weights =
            |options: &SchedulerOptions| rank(options, &these, &request(&json!({}))).weights();
        assert!(weights(&options)[0] < weights(&options)[1], "{scale:?}");
        options.compute.consecutive_build_service_disable_threshold = 0;
        assert_eq!(weights(&options), [0.0, 0.0], "{scale:?}");
    }
}

#[test]
fn the_cards_of_thirty_thousand_hosts_are_reported_at_once() {
    let two = hosts(&json!([{"free_ram_mb": 1}, {"free_ram_mb": 3}]));
    let mut many = vec![two[0].clone(); 30_000];
    many[7] = two[1].clone();
    let options = options("RAMWeigher", Normalization::ListMin);
    let ranking = rank(&options, &many, &request(&json!({})));
    let weights = ranking.cards((0..30_000).rev()).into_iter();
    let mut expected = ranking.weights();
    expected.reverse();
    assert!(weights.map(|card| card.weight).eq(expected));
    assert_eq!(ranking.cards([7])[0].weight, 1.0);
}
