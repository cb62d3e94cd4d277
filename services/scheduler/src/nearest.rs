//! The name that was meant: the nearest one by letters that are missing, too many, others, or in each other's place.

/// Of these names the nearest one to a name that is none of them; none where none is near: more than a third of its letters, or
/// three, would have to change.
pub(crate) fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters: Vec<char> = name.chars().collect();
    let most = (letters.len() / 3).clamp(1, 3);
    let far = |other: &'a str| Some((distance(&letters, other, most)?, other));
    let near = names.into_iter().filter_map(far);
    near.min_by_key(|(far, _)| *far).map(|(_, other)| other)
}

/// How many letters have to change; none for more than `most`.
fn distance(name: &[char], other: &str, most: usize) -> Option<usize> {
    if name.len().abs_diff(other.chars().count()) > most {
        return None;
    }
    // Rows of the table of how far the beginnings of both are apart: the one before the last, the last, and this.
    let mut older: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=name.len()).collect();
    let mut before = None;
    for (row, letter) in other.chars().enumerate() {
        let mut this = vec![row + 1];
        for (column, own) in name.iter().enumerate() {
            let change = last[column] + usize::from(*own != letter);
            let mut least = change.min(last[column + 1] + 1).min(this[column] + 1);
            let is_swapped = column > 0 && before == Some(*own) && name[column - 1] == letter;
            if is_swapped && let Some(older) = older.get(column - 1) {
                least = least.min(older + 1);
            }
            this.push(least);
        }
        older = std::mem::replace(&mut last, this);
        before = Some(letter);
    }
    last.last().copied().filter(|far| *far <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_that_was_meant_is_near() {
        let names = ["hw:cpu_policy", "hw:numa_nodes", "hw:mem_page_size", "os"];
        for (name, expected) in [
            ("hw:cpu_polcy", Some("hw:cpu_policy")),
            ("hw:cpu_poilcy", Some("hw:cpu_policy")),
            ("hw:numa_node", Some("hw:numa_nodes")),
            ("hw:numa_memory", None),
            ("HW:CPU_POLICY", None),
            ("os", Some("os")),
            ("so", Some("os")),
            ("xy", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, names), expected, "{name}");
        }
        assert_eq!(nearest("abc", []), None);
    }
}
