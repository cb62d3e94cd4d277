//! The table of rules is complete, and each of its targets is an option of Berth.

use berth_import::{ImportRule, NovaOptions};

#[test]
fn each_option_of_nova_34_has_a_rule() {
    let options = NovaOptions::nova_34().iter();
    let without = options.filter(|it| ImportRule::of(it).is_none());
    let without: Vec<String> = without.map(|it| it.title()).collect();
    assert!(without.is_empty(), "{without:#?}");
}

#[test]
fn each_target_of_a_rule_is_an_option_of_berth() {
    let targets = ImportRule::targets();
    let absent = targets.filter(|(_, _, section, key)| {
        let section = section.replace("mdev_TYPE", "mdev_nvidia-35");
        berth_config::table::find(&section, key).is_none()
    });
    let absent: Vec<_> = absent.collect();
    assert!(absent.is_empty(), "{absent:?}");
}

#[test]
fn each_rule_is_about_an_option_of_nova() {
    let options = NovaOptions::nova_34();
    let absent = ImportRule::keys().filter(|(group, key)| {
        let group = group
            .replace("mdev_TYPE", "mdev_x")
            .replace("NETWORK", "physnet_x");
        options.of_key(&group, key).is_none()
    });
    let absent: Vec<_> = absent.collect();
    assert!(absent.is_empty(), "{absent:?}");
}

#[test]
fn a_secret_of_nova_is_a_secret_of_berth() {
    for option in NovaOptions::nova_34().iter() {
        let rule = ImportRule::of(option);
        let Some((section, key)) = rule
            .filter(|it| *it != ImportRule::NotYet)
            .and_then(|it| it.target(option))
        else {
            continue;
        };
        let Some(row) = berth_config::table::find(&section, &key) else {
            continue;
        };
        assert_eq!(row.kind.is_secret(), option.secret, "{section}.{key}");
    }
}
