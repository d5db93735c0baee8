//! Proves that `include/flashlab.h` declares what the library exports.
//!
//! The tests write C programs from the Rust types and compile them with the header. The programs assign each
//! exported function to a pointer of the type that the function has in Rust. This does not compile if the
//! header declares another type. The programs do the same with a pointer to each field of each structure.
//! Static assertions compare sizes, offsets and constants. A further test compares the functions that the
//! header declares with those that the library exports.

use crate::code::{CODES, Code, FlashlabError};
use crate::handle::HandleRef;
use crate::native::{Ios, POWERS, RESPONSES, SIGNALS, TIMINGS, WireResponse};
use crate::observe::Counter;
use crate::options::Options;
use crate::pointer::{ArrayOut, BytesIn, BytesOut, Constant, In, Out, Text};
use crate::store::Callbacks;
use crate::{device, native, options, spi, version};
use flashlab_device::Fate;
use flashlab_device::sd::Native;
use flashlab_device::sd::spi::Spi;
use std::cell::Cell;
use std::ffi::{c_char, c_void};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// An exported function.
pub(crate) struct Export {
    pub(crate) name: &'static str,
    /// Returns a C declaration with the type of the result.
    pub(crate) result: fn(&str) -> String,
    pub(crate) arguments: fn() -> Vec<String>,
    /// Calls the function with null and 0 for each argument but the last, and returns its code, if it has one.
    pub(crate) zeroed: fn(&mut FlashlabError) -> Option<Code>,
}

/// A structure.
pub(crate) struct Layout {
    pub(crate) name: &'static str,
    pub(crate) size: usize,
    /// Name and offset of each field, and the declaration of a pointer to it; the pointer is called `field`.
    pub(crate) fields: Vec<(&'static str, usize, String)>,
}

pub(crate) trait CStruct {
    fn layout() -> Layout;
}

/// A type with a name in C.
pub(crate) trait CType {
    /// Returns the declaration of `declarator` with this type.
    fn declare(declarator: &str) -> String;
}

macro_rules! named {
    ($($rust:ty => $c:literal,)*) => {
        $(impl CType for $rust {
            fn declare(declarator: &str) -> String {
                format!("{} {declarator}", $c)
            }
        })*
    };
}

named! {
    () => "void",
    bool => "bool",
    u8 => "uint8_t",
    u32 => "uint32_t",
    u64 => "uint64_t",
    usize => "size_t",
    c_char => "char",
    c_void => "void",
    Code => "flashlab_code",
    Options => "flashlab_options",
    device::Device => "flashlab_device",
    Spi => "flashlab_spi",
    Native => "flashlab_native",
    Text => "const char *",
    BytesIn => "const void *",
    BytesOut => "void *",
}

macro_rules! pointers {
    ($($pointer:ident: $prefix:literal, $stars:literal;)*) => {
        $(impl<T: CType> CType for $pointer<T> {
            fn declare(declarator: &str) -> String {
                format!("{}{}", $prefix, T::declare(&format!("{}{declarator}", $stars)))
            }
        })*
    };
}

pointers! {
    In: "const ", "*";
    Out: "", "*";
    ArrayOut: "", "*";
    HandleRef: "", "*";
    Constant: "const ", "*";
}

impl CType for *mut c_void {
    fn declare(declarator: &str) -> String {
        format!("void *{declarator}")
    }
}

impl CType for *const c_void {
    fn declare(declarator: &str) -> String {
        format!("const void *{declarator}")
    }
}

impl<T: CType, const N: usize> CType for [T; N] {
    fn declare(declarator: &str) -> String {
        T::declare(&format!("{declarator}[{N}]"))
    }
}

macro_rules! callbacks {
    ($(($($argument:ident),*))*) => {
        $(impl<R: CType, $($argument: CType),*> CType for Option<unsafe extern "C" fn($($argument),*) -> R> {
            fn declare(declarator: &str) -> String {
                let arguments = [$($argument::declare("")),*].join(", ");
                R::declare(&format!("(*{declarator})({arguments})"))
            }
        })*
    };
}

callbacks! { (A) (A, B, C) (A, B, C, D) }

/// A type whose bytes may all be zero.
pub(crate) trait Zeroed {
    fn zeroed() -> Self;
}

macro_rules! zeroed {
    ($($type:ty: $value:expr;)*) => {
        $(impl Zeroed for $type {
            fn zeroed() -> Self {
                $value
            }
        })*
    };
}

zeroed! { bool: false; u8: 0; u32: 0; u64: 0; usize: 0; Code: Code::OK; }

thread_local! {
    /// True if the next exported function that this thread calls must panic.
    static PANICS: Cell<bool> = const { Cell::new(false) };
}

/// Panics if the test on this thread has planned a panic.
pub(crate) fn panic_if_planned() {
    assert!(!PANICS.take(), "planned");
}

fn exports() -> impl Iterator<Item = &'static Export> {
    [version::EXPORTS, options::EXPORTS, device::EXPORTS, spi::EXPORTS, native::EXPORTS].into_iter().flatten()
}

fn layouts() -> Vec<Layout> {
    vec![
        FlashlabError::layout(),
        Callbacks::layout(),
        device::Request::layout(),
        device::Completion::layout(),
        device::Geometry::layout(),
        device::Undecided::layout(),
        Counter::layout(),
        Ios::layout(),
        WireResponse::layout(),
    ]
}

/// Returns the constants of the library, with their names in the header without the prefix, and their values.
fn constants() -> Vec<(String, i64)> {
    let mut all: Vec<(String, i64)> =
        CODES.iter().map(|(name, value)| ((*name).to_owned(), i64::from(*value))).collect();
    let numbered = |prefix: &str, names: Vec<&str>| -> Vec<(String, i64)> {
        (0..).zip(names).map(|(value, name)| (format!("{prefix}_{name}"), value)).collect()
    };
    let of = |names: &[(&'static str, u32)]| -> Vec<(String, i64)> {
        names.iter().map(|(name, value)| ((*name).to_owned(), i64::from(*value))).collect()
    };
    use device::operation::{DISCARD, FLUSH, READ, WRITE, WRITE_DURABLE};
    all.extend(of(&[
        ("READ", READ),
        ("WRITE", WRITE),
        ("WRITE_DURABLE", WRITE_DURABLE),
        ("FLUSH", FLUSH),
        ("DISCARD", DISCARD),
        ("FATE_OLD", device::fate(Fate::Old)),
        ("FATE_NEW", device::fate(Fate::New)),
        ("FATE_UNREADABLE", device::fate(Fate::Unreadable)),
    ]));
    all.extend(numbered("CHIP_SELECT", vec!["ENDS_TRANSFERS", "PAUSES"]));
    all.extend(numbered("TIMING", TIMINGS.iter().map(|(name, _)| *name).collect()));
    all.extend(numbered("SIGNAL", SIGNALS.iter().map(|(name, _)| *name).collect()));
    all.extend(numbered("POWER", POWERS.iter().map(|(name, _)| *name).collect()));
    all.extend(numbered("RESPONSE", RESPONSES.iter().map(|(name, _)| *name).collect()));
    all
}

/// Writes the C program that compiles only if the header agrees with the library.
fn program(exports: &[&Export], layouts: &[Layout], constants: &[(String, i64)]) -> String {
    let mut program = String::from("#include \"flashlab.h\"\n#include <stddef.h>\n");
    for export in exports {
        let arguments = match (export.arguments)() {
            arguments if arguments.is_empty() => "void".to_owned(),
            arguments => arguments.join(", "),
        };
        let pointer = (export.result)(&format!("(*check_{})({arguments})", export.name));
        writeln!(program, "{pointer} = {};", export.name).unwrap();
    }
    for Layout { name, size, fields } in layouts {
        writeln!(program, "_Static_assert(sizeof({name}) == {size}, \"{name}\");").unwrap();
        for (field, offset, pointer) in fields {
            writeln!(program, "_Static_assert(offsetof({name}, {field}) == {offset}, \"{name}.{field}\");")
                .unwrap();
            writeln!(program, "void check_{name}_{field}({name} *of);").unwrap();
            writeln!(
                program,
                "void check_{name}_{field}({name} *of) {{ {pointer} = &of->{field}; (void)field; }}"
            )
            .unwrap();
        }
    }
    for (name, value) in constants {
        writeln!(program, "_Static_assert(FLASHLAB_{name} == {value}, \"FLASHLAB_{name}\");").unwrap();
    }
    program
}

/// Compiles a C program with the header. Returns the messages of a compiler that rejects it.
fn compile(name: &str, program: &str) -> Result<(), String> {
    let folder = std::env::temp_dir().join(format!("flashlab-c-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("check.c");
    std::fs::write(&file, program).unwrap();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let output = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-I"])
        .args([&include, &file])
        .output()
        .expect("cc is installed");
    std::fs::remove_dir_all(&folder).unwrap();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

fn header() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("include/flashlab.h")).unwrap()
}

/// Returns the header without comments.
fn code_of_the_header() -> String {
    let mut code = String::new();
    let header = header();
    let mut rest = header.as_str();
    while let Some((before, comment)) = rest.split_once("/*") {
        code += before;
        rest = comment.split_once("*/").expect("the comment ends").1;
    }
    code + rest
}

/// Returns the words of the header's code, each with the character after it.
fn words(code: &str) -> impl Iterator<Item = (&str, Option<char>)> {
    code.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty()).map(
        move |word| {
            let end = word.as_ptr() as usize - code.as_ptr() as usize + word.len();
            (word, code[end..].chars().next())
        },
    )
}

#[test]
fn the_header_declares_the_types_and_constants_of_the_library() {
    let exports: Vec<&Export> = exports().collect();
    compile("same", &program(&exports, &layouts(), &constants())).unwrap();
}

#[test]
fn a_program_with_another_argument_field_or_value_does_not_compile() {
    let wrong = Export {
        name: "flashlab_device_wait",
        result: Code::declare,
        arguments: || {
            vec!["flashlab_device *".to_owned(), "uint32_t".to_owned(), "flashlab_error *".to_owned()]
        },
        zeroed: |_| None,
    };
    let message = compile("function", &program(&[&wrong], &[], &[])).unwrap_err();
    assert!(message.contains("flashlab_device_wait"), "{message}");

    let mut counter = Counter::layout();
    counter.fields[1].2 = "int64_t (*field)".to_owned();
    let message = compile("field", &program(&[], &[counter], &[])).unwrap_err();
    assert!(message.contains("of->value"), "{message}");

    let message = compile("value", &program(&[], &[], &[("FATE_NEW".to_owned(), 2)])).unwrap_err();
    assert!(message.contains("FLASHLAB_FATE_NEW"), "{message}");
}

#[test]
fn the_header_declares_no_more_than_the_library_has() {
    let code = code_of_the_header();
    let mut declared: Vec<&str> = words(&code)
        .filter(|(word, next)| word.starts_with("flashlab_") && *next == Some('('))
        .map(|(word, _)| word)
        .collect();
    let mut exported: Vec<&str> = exports().map(|export| export.name).collect();
    declared.sort_unstable();
    exported.sort_unstable();
    assert_eq!(declared, exported);

    let constants = constants();
    // Macros of the header that are not constants of the library.
    let own = ["FLASHLAB_H", "FLASHLAB_IOS_OFF"];
    for (word, _) in words(&code).filter(|(word, _)| word.starts_with("FLASHLAB_")) {
        let known = constants.iter().any(|(name, _)| word.strip_prefix("FLASHLAB_") == Some(name));
        assert!(known || own.contains(&word), "the library does not know {word}");
    }
    let declared = code.matches("typedef struct").count();
    let opaque = 4;
    assert_eq!(declared, layouts().len() + opaque, "a structure of the header is not in layouts()");
}

#[test]
fn every_exported_function_catches_a_panic() {
    for export in exports() {
        let mut error = FlashlabError::NONE;
        PANICS.set(true);
        let code = (export.zeroed)(&mut error);
        assert!(!PANICS.get(), "{} has no guard", export.name);
        assert!(matches!(code, None | Some(Code::ERROR_PANIC)), "{}: {code:?}", export.name);
        if code.is_some() {
            let text = error.to_string();
            assert!(text.starts_with(export.name) && text.contains("planned"), "{text}");
        }
    }
}

#[test]
fn null_for_every_argument_is_an_error() {
    for export in exports() {
        let mut error = FlashlabError::NONE;
        let code = (export.zeroed)(&mut error);
        assert!(matches!(code, None | Some(Code::ERROR_NULL)), "{}: {code:?}", export.name);
        if code.is_some() {
            assert!(error.to_string().ends_with(" is NULL"), "{error}");
        }
    }
}
