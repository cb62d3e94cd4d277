use super::*;

fn read(text: &str) -> Capability {
    serde_json::from_str(text).expect(text)
}

#[test]
fn texts_are_as_python_writes_them() {
    for (json, text) in [
        ("null", "None"),
        ("true", "True"),
        ("5", "5"),
        ("1.50", "1.5"),
        ("\"it's\"", "it's"),
        ("[\"aes\", \"mmx\", 1, null]", "['aes', 'mmx', 1, None]"),
        (
            "{\"z\": {\"a\": false}, \"b\": []}",
            "{'z': {'a': False}, 'b': []}",
        ),
        (
            r#"["it's", "\"'", "a\nb\\", "\u00a0"]"#,
            r#"["it's", '"\'', 'a\nb\\', '\xa0']"#,
        ),
        ("{\"a\": 1, \"b\": 2, \"a\": 3}", "{'a': 3, 'b': 2}"),
    ] {
        assert_eq!(read(json).view().text(), text, "{json}");
    }
}

#[test]
fn values_are_equal_as_in_python() {
    for (a, b, expected) in [
        ("true", "1", true),
        ("1.0", "1", true),
        ("\"1\"", "1", false),
        ("null", "null", true),
        ("null", "0", false),
        ("[1, true]", "[1.0, 1]", true),
        ("[1]", "[1, 2]", false),
        ("{\"a\": 1, \"b\": 2}", "{\"b\": 2, \"a\": true}", true),
        ("{\"a\": 1}", "{\"a\": 2}", false),
        ("{\"a\": 1}", "{\"b\": 1}", false),
    ] {
        assert_eq!(read(a).view().equals(read(b).view()), expected, "{a} {b}");
    }
}

#[test]
fn values_of_two_kinds_have_no_order() {
    for (a, b, expected) in [
        ("1", "1.5", Ok(Some(Ordering::Less))),
        ("true", "0", Ok(Some(Ordering::Greater))),
        ("\"a\"", "\"B\"", Ok(Some(Ordering::Greater))),
        ("[1, 2]", "[1]", Ok(Some(Ordering::Greater))),
        ("[1, 2]", "[1, \"a\"]", Err(Incomparable)),
        ("1", "\"1\"", Err(Incomparable)),
        ("{}", "{}", Err(Incomparable)),
        ("null", "null", Err(Incomparable)),
    ] {
        assert_eq!(read(a).view().order(read(b).view()), expected, "{a} {b}");
    }
}

#[test]
fn a_dict_of_half_a_million_keys_is_read_compared_and_asked() {
    let dict = |last: i64| {
        let number = |at: u32| (at.to_string(), Capability::Int(i64::from(at)));
        let again = (0..250_000).map(|at| (at.to_string(), Capability::Int(last)));
        Dict::new((0..500_000).rev().map(number).chain(again))
    };
    let (a, b, other) = (dict(7), dict(7), dict(8));
    assert!(CapabilityRef::Dict(&a).equals(CapabilityRef::Dict(&b)));
    assert!(!CapabilityRef::Dict(&a).equals(CapabilityRef::Dict(&other)));
    for (key, expected) in [("3", Some(7)), ("400000", Some(400_000)), ("x", None)] {
        assert_eq!(a.get(key), expected.map(Capability::Int).as_ref(), "{key}");
    }
    assert!((0..500_000).all(|at: u32| a.get(&at.to_string()).is_some()));
    assert_eq!(CapabilityRef::Dict(&a).parts(), 500_001);
}

#[test]
fn only_what_is_asked_for_its_text_keeps_one() {
    let kept = |it: &Capability| match it {
        Capability::List(list) => list.text.get().is_some(),
        _ => false,
    };
    let outer = read("[[1, [2]], 3]");
    assert!(!kept(&outer));
    assert_eq!(outer.view().text(), "[[1, [2]], 3]");
    let Capability::List(list) = &outer else {
        panic!("it is a list");
    };
    assert!(kept(&outer) && !kept(&list.items[0]));
    assert_eq!(outer, read("[[1, [2]], 3]"));
}

#[test]
fn keys_that_begin_alike_are_distinguished() {
    let keys = [
        "",
        "\0",
        "a",
        "a\0",
        "features",
        "features\0",
        "features_of",
        "featurf",
        "é",
        "ß",
    ];
    let numbered = (0..10_i32).zip(keys).rev();
    let dict = Dict::new(numbered.map(|(at, key)| (key.to_owned(), Capability::Int(at.into()))));
    for (at, key) in (0..).zip(keys) {
        assert_eq!(dict.get(key), Some(&Capability::Int(at)), "{key:?}");
    }
    for key in ["b", "feature", "features_", "\0\0"] {
        assert_eq!(dict.get(key), None, "{key:?}");
    }
}
