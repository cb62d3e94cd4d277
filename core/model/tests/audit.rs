//! The audit's teeth: worlds with planted bugs, each of which its invariant must catch, and worlds that are odd but right.

#[cfg(test)]
mod audit {
    mod canaries;
    mod healthy;
    mod odd_but_right;
}
