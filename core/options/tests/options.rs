//! What `options!` and `choices!` make of a declaration.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::path::PathBuf;
use std::time::Duration;

use berth_options::{
    CheckedValues, Json, OptionEffect, OptionGroup as _, OptionMisfit, ValueFault, choices,
    options, seconds, texts,
};

choices! {
    /// Who is let in.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Door {
        Open = "open",
        Closed = "closed",
    }
}

options! {
    /// A house. It has
    /// a door.
    #[derive(Debug, Clone)]
    struct HouseOptions in "house" {
        /// Whether somebody is
        /// let in.
        door: Door = Door::Closed;
        /// Seconds between two looks.
        interval: Duration = seconds(60), kind: Integer(1, 3600), effect: Live;
        /// The number of rooms.
        rooms: Option<u32> = None, kind: Numbers(&[2, 4]), example: "2";
        /// Seconds a knock takes.
        knock: Duration = seconds(2), kind: Seconds(0.5, 10.0);
        /// The names at the bell.
        names: Vec<String> = texts(["a"]);
        /// The plan.
        plan: Option<PathBuf> = None, derived: "the architect's", example: "\"/plan\"";
    }
    extra {
        /// Not an option.
        visits: u32 = 7;
    }
}

fn row(key: &str) -> &'static berth_options::OptionRow {
    let mut rows = HouseOptions::ROWS.iter();
    rows.find(|row| row.key == key).unwrap()
}

#[test]
fn a_declaration_gives_defaults_rows_and_help() {
    let house = HouseOptions::default();
    assert_eq!((house.door, house.visits), (Door::Closed, 7));
    assert_eq!(HouseOptions::HELP.trim(), "A house. It has a door.");
    assert_eq!(row("door").help, "Whether somebody is let in.");
    assert_eq!(row("door").variable(), "BERTH__HOUSE__DOOR");
    assert_eq!(row("door").kind.documented(), "one of open, closed");
    assert_eq!(row("rooms").kind.documented(), "one of 2, 4");
    assert_eq!(row("interval").effect, OptionEffect::Live);
    assert_eq!(row("interval").default_value(), Some(Json::from(60)));
    // A decimal number where those are wanted.
    assert_eq!(row("knock").default_value(), Some(Json::from(2.0)));
    assert_eq!(row("plan").default_value(), None);
}

#[test]
fn checked_values_replace_defaults_and_nothing_else() {
    let mut values = CheckedValues::default();
    values.set("house", "door", "open".into());
    values.set("house", "knock", 0.5.into());
    values.set("house", "plan", "/p".into());
    let house: HouseOptions = values.read().unwrap();
    assert_eq!((house.door, house.interval), (Door::Open, seconds(60)));
    assert_eq!(house.knock, Duration::from_millis(500));
    assert_eq!((house.plan, house.rooms), (Some("/p".into()), None));
    let four = row("rooms").kind.of_variable(" 4 ").unwrap();
    assert_eq!(row("rooms").kind.check(&four), Ok(Json::from(4)));
    values.set("house", "rooms", four);
    assert_eq!(values.read::<HouseOptions>().unwrap().rooms, Some(4));
    values.set("house", "door", 5.into());
    let misfit = OptionMisfit {
        section: "house".to_owned(),
        key: "door",
    };
    assert_eq!(values.read::<HouseOptions>().unwrap_err(), misfit);
    // Values may be secrets.
    assert!(!format!("{values:?}").contains("/p"));
}

#[test]
fn a_wrong_value_is_reported_with_what_would_be_right() {
    let checked = |key: &str, value: Json| {
        let error = row(key).kind.check(&value).unwrap_err();
        (error.wrong, error.right, error.fault, error.element)
    };
    let (wrong, right, fault, _) = checked("door", "opne".into());
    assert_eq!(wrong, "\"opne\" is not one of the words accepted");
    assert_eq!(right, "did you mean \"open\"? write one of open, closed");
    assert_eq!(fault, ValueFault::Value);
    assert_eq!(checked("interval", 0.into()).0, "0 is out of range");
    assert_eq!(checked("interval", "a".into()).2, ValueFault::Type);
    let (wrong, right, fault, _) = checked("rooms", 3.into());
    assert_eq!(wrong, "3 is not one of the numbers accepted");
    assert_eq!(right, "write one of 2, 4");
    assert_eq!(fault, ValueFault::Value);
    assert_eq!(checked("rooms", "4".into()).2, ValueFault::Type);
    assert_eq!(checked("names", vec!["a", "b", "a"].into()).3, Some(2));
    let infinite = row("knock").kind.of_variable("inf").unwrap_err();
    assert_eq!(infinite.wrong, "inf is out of range");
}
