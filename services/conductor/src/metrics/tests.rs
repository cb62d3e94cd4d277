//! The page.

use std::collections::BTreeSet;

use super::*;

fn page(metrics: &BootMetrics) -> String {
    let mut page = BootMetricsPage::default();
    metrics.write_to(&mut page);
    page.into_text()
}

fn value(text: &str, series: &str) -> Option<f64> {
    let line = text.lines().find(|line| {
        line.strip_prefix(series)
            .is_some_and(|rest| rest.starts_with(' '))
    })?;
    line.rsplit(' ').next()?.parse().ok()
}

#[test]
fn searches_and_claims_are_counted_by_how_they_end() {
    let metrics = BootMetrics::default();
    let took = Duration::from_millis(3);
    metrics.record_search(SearchOutcome::Selected, took);
    metrics.record_search(SearchOutcome::Selected, took);
    metrics.record_search(SearchOutcome::AllTaken, took);
    metrics.record_claim(ClaimResult::Refused);
    let text = page(&metrics);
    for (series, expected) in [
        ("berth_scheduler_searches_total{outcome=\"selected\"}", 2.0),
        ("berth_scheduler_searches_total{outcome=\"all_taken\"}", 1.0),
        // What never happened is there, at zero: an alert on its growth sees the first one.
        (
            "berth_scheduler_searches_total{outcome=\"no_valid_host\"}",
            0.0,
        ),
        ("berth_scheduler_claims_total{result=\"refused\"}", 1.0),
        ("berth_scheduler_claims_total{result=\"granted\"}", 0.0),
    ] {
        assert_eq!(value(&text, series), Some(expected), "{series}: {text}");
    }
}

#[test]
fn durations_fall_into_buckets_that_have_all_before_them() {
    let metrics = BootMetrics::default();
    for took in [
        Duration::ZERO,
        Duration::from_millis(1),
        Duration::from_millis(2),
        Duration::from_secs(3600),
    ] {
        metrics.record_search(SearchOutcome::Undecided, took);
    }
    let text = page(&metrics);
    let name = "berth_scheduler_search_duration_seconds";
    for (series, expected) in [
        ("_bucket{le=\"0.001\"}", 2.0),
        ("_bucket{le=\"0.0025\"}", 3.0),
        ("_bucket{le=\"60\"}", 3.0),
        ("_bucket{le=\"+Inf\"}", 4.0),
        ("_count", 4.0),
        ("_sum", 3600.003),
    ] {
        let series = format!("{name}{series}");
        assert_eq!(value(&text, &series), Some(expected), "{series}: {text}");
    }
}

#[test]
fn each_stage_of_a_boot_has_durations_of_its_own() {
    let metrics = BootMetrics::default();
    metrics.record_stage(BootStage::Bind, Duration::from_millis(3));
    metrics.record_stage(BootStage::Bind, Duration::from_millis(30));
    let text = page(&metrics);
    let name = "berth_conductor_boot_stage_duration_seconds";
    for (series, expected) in [
        ("_bucket{stage=\"bind\",le=\"0.005\"}", 1.0),
        ("_count{stage=\"bind\"}", 2.0),
        ("_sum{stage=\"bind\"}", 0.033),
        ("_count{stage=\"build\"}", 0.0),
    ] {
        let series = format!("{name}{series}");
        assert_eq!(value(&text, &series), Some(expected), "{series}: {text}");
    }
}

#[test]
fn a_label_is_what_a_user_wrote_and_no_line_of_its_own() {
    let mut page = BootMetricsPage::default();
    page.number("of", &[("flavor", "a \"b\" \\ \nc"), ("spec", "1")], 7);
    assert_eq!(
        page.into_text(),
        "of{flavor=\"a \\\"b\\\" \\\\ \\nc\",spec=\"1\"} 7\n"
    );
}

#[test]
fn every_row_has_a_help_of_one_line_and_a_name_of_its_own() {
    let names: BTreeSet<&str> = METRICS.iter().map(|row| row.name).collect();
    assert_eq!(names.len(), METRICS.len());
    for row in METRICS {
        let of = ["berth_scheduler_", "berth_conductor_"];
        assert!(of.iter().any(|of| row.name.starts_with(of)), "{}", row.name);
        assert!(!row.help.contains(['\n', '|']), "{}", row.name);
    }
}
