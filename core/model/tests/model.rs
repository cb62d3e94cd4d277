//! Tests of the model through its public interface: its texts, its properties, and the known faults of reshapes.

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
