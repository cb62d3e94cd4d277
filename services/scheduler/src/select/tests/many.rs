//! A request with thousands of hosts: each may be checked a few times, but not once for each other host.

use super::*;

#[test]
fn of_a_hundred_thousand_hosts_half_may_be_out_because_none_can_weigh_them() {
    let scheduler = scheduler(|options| {
        options.filter_scheduler.weight_classes = vec!["MetricsWeigher".to_owned()];
        let metrics = json!({"weight_setting": ["load=1"], "required": true});
        options.metrics = serde_json::from_value(metrics).expect("options");
    });
    let metrics = json!([{"name": "load", "value": 0.5}]);
    let two = hosts(&json!([{"host": "in", "metrics": metrics}, {"host": "out"}]));
    let many = two.iter().cycle().take(100_000).cloned().collect();
    let step = scheduler.select(ask(&json!({}), 1), many);
    let (claims, selected) = run(step, |_| true);
    assert_eq!(claims, ["i0 in -"]);
    let record = selected.expect("a host").record;
    let rejected = &record.turns[0].rejected;
    assert!(rejected.named().all(|(_, one)| one.host.host == "out"));
    assert_eq!(rejected.hosts(), 50_000);
    assert_eq!(rejected.named().count(), NAMED);
}

#[test]
fn the_same_answers_with_any_number_of_threads() {
    let host = |at: usize| {
        json!({
            "num_instances": at % 7, "free_ram_mb": 4096 + 512 * (at % 29), "service": {"disabled": at.is_multiple_of(11)},
            "instances": if at.is_multiple_of(5) { json!(["x"]) } else { json!([]) },
            "aggregates": [{"metadata": {"filter_tenant_id": if at.is_multiple_of(3) { "p1" } else { "p2" }}}],
        })
    };
    let some: Vec<Value> = (0..97).map(host).collect();
    let some = hosts(&json!(some));
    let asked = json!({"project_id": "p1", "group": {"policy": "anti-affinity", "members": ["x"]}});
    let answer = |threads: usize| {
        let scheduler = scheduler(|options| {
            let enabled = &mut options.filter_scheduler.enabled_filters;
            enabled.push("AggregateMultiTenancyIsolation".to_owned());
            options.filter_scheduler.max_instances_per_host = 5;
        });
        let threads = NonZero::new(threads).expect("some");
        let many = some.iter().cycle().take(9_000).cloned().collect();
        let scheduler = scheduler.with_threads(threads);
        let (claims, ended) = run(scheduler.select(ask(&asked, 5), many), |_| true);
        let turns = ended.expect("hosts").record.turns;
        let kinds = turns.iter().flat_map(|turn| turn.rejected.kinds());
        let rejected = kinds.map(|it| (it.filter, it.hosts, format!("{:?}", it.named[0].reason)));
        let rejected: Vec<_> = rejected.collect();
        let passed: Vec<_> = turns.into_iter().map(|turn| turn.passed).collect();
        (claims, rejected, passed)
    };
    let alone = answer(1);
    assert_eq!(alone.0.len(), 5);
    assert!(alone.1.len() >= 4, "{:?}", alone.1);
    for threads in [2, 3, 16] {
        assert_eq!(answer(threads), alone, "{threads} threads");
    }
}

#[test]
fn without_a_record_the_same_hosts_are_chosen_and_nothing_is_reported() {
    let some = json!([{"host": "a", "free_ram_mb": 9000}, {"host": "b", "free_ram_mb": 9900}, {"service": {"disabled": true}}]);
    let chosen = |scheduler: &Scheduler| {
        let step = scheduler.select(ask(&json!({}), 3), hosts(&some));
        let (claims, ended) = run(step, |_| true);
        (claims, ended.expect("hosts").record)
    };
    let (kept, record) = chosen(&scheduler(|_| {}));
    let (bare, nothing) = chosen(&scheduler(|_| {}).without_record());
    assert_eq!(kept, bare);
    assert_eq!(
        (
            record.turns[0].rejected.hosts(),
            record.turns[0].cards.len()
        ),
        (1, 2)
    );
    assert_eq!(
        (
            nothing.turns[0].rejected.hosts(),
            nothing.turns[0].cards.len()
        ),
        (0, 0)
    );
    assert_eq!(record.turns[0].passed, nothing.turns[0].passed);
}
