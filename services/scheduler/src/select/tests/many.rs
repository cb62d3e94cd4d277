//! So many hosts that each may be looked at a few times, but not once for each other.

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
