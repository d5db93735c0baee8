//! Tests that a handle is refused while it is in use, and after a call that panicked.

use super::*;
use crate::export::check::Zeroed;
use crate::pointer::Out;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

impl<T> Zeroed for HandleRef<T> {
    fn zeroed() -> Self {
        HandleRef(std::ptr::null_mut())
    }
}

impl<T> HandleRef<T> {
    /// Copies the pointer, as C does.
    fn again(&self) -> HandleRef<T> {
        HandleRef(self.0)
    }
}

fn handle<T: Send>(value: T) -> HandleRef<T> {
    let mut handle = HandleRef::zeroed();
    Out::to(&mut handle).place("handle").unwrap().put_handle(value);
    handle
}

#[test]
fn a_handle_in_use_is_refused_and_not_destroyed() {
    let value = Arc::new(7);
    let handle = handle(Arc::clone(&value));
    let lent = handle.lend("device").unwrap();
    let error = handle.lend("device").err().unwrap();
    assert_eq!(error.code, Code::ERROR_IN_USE);
    handle.again().close();
    assert_eq!((**lent, Arc::strong_count(&value)), (7, 2));
    drop(lent);
    assert!(handle.lend("device").is_ok());
    handle.close();
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn a_handle_whose_call_panicked_is_refused_until_it_is_closed() {
    let value = Arc::new(7);
    let handle = handle(Arc::clone(&value));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _lent = handle.lend("device").unwrap();
        panic!("in a call");
    }));
    assert!(panicked.is_err());
    let error = handle.lend("device").err().unwrap();
    assert_eq!(error.code, Code::ERROR_PANIC);
    handle.close();
    assert_eq!(Arc::strong_count(&value), 1);
}
