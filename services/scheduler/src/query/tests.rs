use super::*;

#[test]
fn a_query_has_an_end() {
    let long = |bytes: usize| format!("[\"=\", \"{}\"]", "a".repeat(bytes - 9));
    let of = |parts: usize| format!("[\"in\"{}]", ", 1".repeat(parts - 2));
    let keys = |many: usize| -> String {
        let keys: Vec<_> = (0..many).map(|at| format!("\"{at}\": {at}")).collect();
        format!("{{{}}}", keys.join(", "))
    };
    let dicts = format!("[\"=\", {0}, {0}]", keys(2000));
    for (query, expected) in [
        (long(BYTES), None),
        (long(BYTES + 1), Some(QueryError::TooLong(BYTES + 1))),
        (of(PARTS), None),
        (of(PARTS + 1), Some(QueryError::TooManyParts(PARTS + 1))),
        (dicts, Some(QueryError::TooManyParts(4004))),
    ] {
        assert_eq!(Query::new(&query).err(), expected, "{:.60}", query);
    }
}
