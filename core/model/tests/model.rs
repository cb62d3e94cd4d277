//! The model judged from outside: its texts, its properties, and the reshape's known faults.

#[cfg(test)]
mod model {
    mod build;
    mod faults;
    mod held;
    mod inverse;
    mod random_reshape;
    mod random_tree;
    mod reshape;
    mod texts;
}
