//! The exported functions. The macro [`exports!`] generates each function with a guard that catches panics.
//! For the tests, `exports!` and `layout!` also describe the functions and the structures. From these
//! descriptions, the tests prove that the header declares the same functions and structures.

use crate::code::{Code, Failure, FlashlabError};
use crate::pointer::Out;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Defines exported functions. The body of a function in `fallible` returns `Result<(), Failure>`, which becomes the
/// code and the text in the last argument, `flashlab_error *error`. A function in `plain` returns its value.
macro_rules! exports {
    (
        fallible { $($(#[doc = $doc:literal])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)* }
        plain { $($(#[doc = $pdoc:literal])* fn $pname:ident($($pargument:ident: $ptype:ty),* $(,)?) -> $presult:ty $pbody:block)* }
    ) => {
        $(
            $(#[doc = $doc])*
            #[allow(unsafe_code, reason = "the name is not mangled; only this library uses the prefix flashlab_")]
            #[unsafe(no_mangle)]
            pub(crate) extern "C" fn $name(
                $($argument: $type,)* error: $crate::pointer::Out<$crate::code::FlashlabError>,
            ) -> $crate::code::Code {
                $crate::export::guard(stringify!($name), error, || $body)
            }
        )*
        $(
            $(#[doc = $pdoc])*
            #[allow(unsafe_code, reason = "the name is not mangled; only this library uses the prefix flashlab_")]
            #[unsafe(no_mangle)]
            pub(crate) extern "C" fn $pname($($pargument: $ptype),*) -> $presult {
                $crate::export::guard_plain(|| $pbody)
            }
        )*

        /// The exported functions of this file.
        #[cfg(test)]
        pub(crate) const EXPORTS: &[$crate::export::check::Export] = &[
            $($crate::export::check::Export {
                name: stringify!($name),
                result: <$crate::code::Code as $crate::export::check::CType>::declare,
                arguments: || vec![
                    $(<$type as $crate::export::check::CType>::declare(""),)*
                    <$crate::pointer::Out<$crate::code::FlashlabError> as $crate::export::check::CType>::declare(""),
                ],
                zeroed: |error| Some($name(
                    $(<$type as $crate::export::check::Zeroed>::zeroed(),)* $crate::pointer::Out::to(error),
                )),
            },)*
            $($crate::export::check::Export {
                name: stringify!($pname),
                result: <$presult as $crate::export::check::CType>::declare,
                arguments: || vec![$(<$ptype as $crate::export::check::CType>::declare("")),*],
                zeroed: |_| {
                    $pname($(<$ptype as $crate::export::check::Zeroed>::zeroed()),*);
                    None
                },
            },)*
        ];
    };
}
pub(crate) use exports;

/// Describes a structure for the tests: its name in C, its size and its fields.
macro_rules! layout {
    ($rust:ty as $c:ident { $($field:ident: $type:ty),* $(,)? }) => {
        #[cfg(test)]
        impl $crate::export::check::CStruct for $rust {
            fn layout() -> $crate::export::check::Layout {
                $crate::export::check::Layout {
                    name: stringify!($c),
                    size: size_of::<$rust>(),
                    fields: vec![$((
                        stringify!($field),
                        std::mem::offset_of!($rust, $field),
                        <$type as $crate::export::check::CType>::declare("(*field)"),
                    )),*],
                }
            }
        }
        #[cfg(test)]
        impl $crate::export::check::CType for $rust {
            fn declare(declarator: &str) -> String {
                format!("{} {declarator}", stringify!($c))
            }
        }
    };
}
pub(crate) use layout;

/// Runs the body of an exported function. Writes the error that the body returns, or that describes its panic, to
/// `error` unless `error` is null.
pub(crate) fn guard(
    function: &str,
    error: Out<FlashlabError>,
    body: impl FnOnce() -> Result<(), Failure>,
) -> Code {
    let run = || {
        #[cfg(test)]
        check::panic_if_planned();
        body()
    };
    let result = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| Err(panicked(payload)));
    match result {
        Ok(()) => {
            error.put_if_given(FlashlabError::NONE);
            Code::OK
        }
        Err(Failure { code, text }) => {
            error.put_if_given(FlashlabError::new(code, &format!("{function}: {text}")));
            code
        }
    }
}

/// Runs the body of an exported function that reports no error. Returns the default value if the body panics.
pub(crate) fn guard_plain<R: Default>(body: impl FnOnce() -> R) -> R {
    let run = || {
        #[cfg(test)]
        check::panic_if_planned();
        body()
    };
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| {
        panicked(payload);
        R::default()
    })
}

/// Describes a panic.
fn panicked(payload: Box<dyn Any + Send>) -> Failure {
    let message = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(message), _) => (*message).to_owned(),
        (None, Some(message)) => message.clone(),
        (None, None) => {
            // The destructor of an unknown payload may panic again.
            std::mem::forget(payload);
            "no message".to_owned()
        }
    };
    Failure::new(
        Code::ERROR_PANIC,
        format_args!("the library failed ({message}); please report this, and close the handle"),
    )
}

#[cfg(test)]
pub(crate) mod check;
