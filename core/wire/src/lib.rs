//! JSON bodies as they travel, one module per API, and their way to and from the model.
