//! "Did you mean": the known name nearest to an unknown one, for error texts and lint findings.

use strsim::damerau_levenshtein;

/// Longer names are cut before they are compared: the comparison takes time in proportion to the product of both lengths.
const LONGEST_NAME: usize = 80;
/// How many known names a hint lists at most.
const MOST_LISTED: usize = 20;

/// The candidate nearest to `name`, the first one of several; `None` if none is near. A candidate is near if at most a third of the
/// name's letters, and at most four, have to be added, removed, replaced or swapped with their neighbour. Case does not count.
#[must_use]
pub fn nearest_name<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let name: String = name.chars().take(LONGEST_NAME).collect();
    let name = name.to_lowercase();
    let most = (name.chars().count() / 3).clamp(1, 4);
    candidates
        .into_iter()
        .filter(|candidate| candidate.chars().count() <= LONGEST_NAME + most)
        .map(|candidate| {
            let distance = damerau_levenshtein(&name, &candidate.to_lowercase());
            (distance, candidate)
        })
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// A hint for an unknown name: `did you mean "cpus"?`, or the known names if none is near.
#[must_use]
pub fn did_you_mean(word: &str, known: &[&str]) -> String {
    if let Some(name) = nearest_name(word, known.iter().copied()) {
        return format!("did you mean {name:?}?");
    }
    if known.is_empty() {
        return "there are no alternatives".to_owned();
    }
    let listed = known.iter().take(MOST_LISTED);
    let listed: Vec<String> = listed.map(|name| format!("{name:?}")).collect();
    format!("known are {}", listed.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_name_is_found_and_a_far_one_is_not() {
        let names = ["hw:cpu_policy", "hw:numa_nodes", "hw:mem_page_size", "os"];
        for (word, expected) in [
            ("hw:cpu_polcy", Some("hw:cpu_policy")),
            ("hw:cpu_poilcy", Some("hw:cpu_policy")),
            ("HW:CPU_POLICY", Some("hw:cpu_policy")),
            ("hw:numa_node", Some("hw:numa_nodes")),
            ("hw:numa_memory", None),
            ("os", Some("os")),
            ("so", Some("os")),
            ("xy", None),
            ("", None),
        ] {
            assert_eq!(nearest_name(word, names), expected, "{word}");
        }
        assert_eq!(nearest_name("abc", []), None);
        assert_eq!(nearest_name(&"x".repeat(1 << 20), names), None);
    }

    #[test]
    fn a_hint_names_the_nearest_or_all() {
        assert_eq!(
            did_you_mean("cpu", &["cpus", "memory"]),
            "did you mean \"cpus\"?"
        );
        assert_eq!(
            did_you_mean("disk", &["cpus", "memory"]),
            "known are \"cpus\", \"memory\""
        );
        assert_eq!(did_you_mean("disk", &[]), "there are no alternatives");
    }
}
