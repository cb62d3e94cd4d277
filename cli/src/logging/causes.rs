//! A tracing layer that adds the causes of a logged error.
//!
//! Code logs an error as a value. The formatters of lines, of JSON and of the journal show only its own text. This
//! layer wraps them and passes the text of the whole chain instead. Called by [`super::start`].

use std::error::Error;
use std::fmt::Debug;

use berth_output::sentence;
use tracing::field::{Field, Value, Visit, display};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata};
use tracing_subscriber::layer::Context;
use tracing_subscriber::{Layer, Registry};

use super::LevelFilter;

/// A layer that passes the text of an error's whole chain.
pub(super) struct WithCauses<L>(pub(super) L);

impl<L: Layer<Registry>> Layer<Registry> for WithCauses<L> {
    fn on_event(&self, event: &Event<'_>, context: Context<'_, Registry>) {
        let mut beneath = Beneath(false);
        event.record(&mut beneath);
        if !beneath.0 {
            return self.0.on_event(event, context);
        }
        let mut reported = EventFields::default();
        event.record(&mut reported);
        let metadata = event.metadata();
        reported
            .values
            .resize_with(metadata.fields().len(), || None);
        let values: Vec<_> = reported.values.iter().map(Option::as_deref).collect();
        // `tracing`'s macros create events the same way.
        let values = metadata.fields().value_set_all(&values);
        let whole = match event.is_contextual() {
            true => Event::new(metadata, &values),
            false => Event::new_child_of(event.parent().cloned(), metadata, &values),
        };
        self.0.on_event(&whole, context);
    }

    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        self.0.register_callsite(metadata)
    }

    fn enabled(&self, metadata: &Metadata<'_>, context: Context<'_, Registry>) -> bool {
        self.0.enabled(metadata, context)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        self.0.max_level_hint()
    }

    fn on_new_span(&self, span: &Attributes<'_>, id: &Id, context: Context<'_, Registry>) {
        self.0.on_new_span(span, id, context);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, Registry>) {
        self.0.on_record(id, values, context);
    }

    fn on_enter(&self, id: &Id, context: Context<'_, Registry>) {
        self.0.on_enter(id, context);
    }

    fn on_exit(&self, id: &Id, context: Context<'_, Registry>) {
        self.0.on_exit(id, context);
    }

    fn on_close(&self, id: Id, context: Context<'_, Registry>) {
        self.0.on_close(id, context);
    }
}

/// Whether an error of the event has causes. This is rare, and other events are not copied.
struct Beneath(bool);

impl Visit for Beneath {
    fn record_error(&mut self, _: &Field, error: &(dyn Error + 'static)) {
        self.0 |= error.source().is_some();
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}

/// The values of an event, by the index of their fields.
#[derive(Default)]
struct EventFields {
    values: Vec<Option<Box<dyn Value>>>,
}

impl EventFields {
    fn put(&mut self, field: &Field, value: impl Value + 'static) {
        let at = field.index();
        if self.values.len() <= at {
            self.values.resize_with(at + 1, || None);
        }
        self.values[at] = Some(Box::new(value));
    }
}

impl Visit for EventFields {
    fn record_error(&mut self, field: &Field, error: &(dyn Error + 'static)) {
        self.put(field, display(sentence(error)));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, display(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.to_owned());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }
}
