//! Tests of the checks, and pointers to values of tests.

use super::*;
use crate::code::Code;
use crate::export::check::Zeroed;

impl<T> Zeroed for In<T> {
    fn zeroed() -> Self {
        In(std::ptr::null())
    }
}
impl<T> Zeroed for Out<T> {
    fn zeroed() -> Self {
        Out(std::ptr::null_mut())
    }
}
impl<T> Zeroed for ArrayOut<T> {
    fn zeroed() -> Self {
        ArrayOut(std::ptr::null_mut())
    }
}
impl Zeroed for Text {
    fn zeroed() -> Self {
        Text(std::ptr::null())
    }
}
impl Zeroed for BytesIn {
    fn zeroed() -> Self {
        BytesIn(std::ptr::null())
    }
}
impl Zeroed for BytesOut {
    fn zeroed() -> Self {
        BytesOut(std::ptr::null_mut())
    }
}

impl<T> Out<T> {
    /// Returns a pointer to a value of a test.
    pub(crate) fn to(value: &mut T) -> Out<T> {
        Out(value)
    }
}

#[test]
fn null_and_misaligned_pointers_and_negative_lengths_are_errors() {
    let mut values = [0_u64; 2];
    let odd = values.as_mut_ptr().cast::<u8>().wrapping_add(1);
    assert_eq!(In::<u64>(std::ptr::null()).get("request").unwrap_err().code, Code::ERROR_NULL);
    let error = In::<u64>(odd.cast()).get("request").unwrap_err();
    assert_eq!(
        (error.code, error.text.as_str()),
        (Code::ERROR_ARGUMENT, "request is not aligned to 8 bytes")
    );
    let negative = -1_isize as usize;
    let error = BytesIn(odd.cast()).get("data", negative).unwrap_err();
    assert_eq!(error.code, Code::ERROR_ARGUMENT);
    assert!(error.text.contains("is it a negative number?"), "{}", error.text);
    assert!(BytesOut(odd.cast()).zeroed("buffer", negative).is_err());
    assert!(exchange(&BytesIn(odd.cast()), &BytesOut(odd.cast()), negative, |_| 0).is_err());
}

#[test]
fn null_is_an_empty_array() {
    assert_eq!(BytesIn(std::ptr::null()).get("data", 0).unwrap(), b"");
    assert!(BytesOut(std::ptr::null_mut()).zeroed("buffer", 0).unwrap().is_empty());
    ArrayOut::<u32>(std::ptr::null_mut()).fill("counts", 0, &[1]).unwrap();
    assert_eq!(
        ArrayOut::<u32>(std::ptr::null_mut()).fill("counts", 1, &[1]).unwrap_err().code,
        Code::ERROR_NULL
    );
}

#[test]
fn an_array_takes_as_much_as_it_has_room_for() {
    let mut to = [9_u32; 3];
    ArrayOut(to.as_mut_ptr()).fill("counts", 2, &[1, 2, 3]).unwrap();
    assert_eq!(to, [1, 2, 9]);
    ArrayOut(to.as_mut_ptr()).fill("counts", 3, &[4]).unwrap();
    assert_eq!(to, [4, 2, 9]);
}

#[test]
fn bytes_are_exchanged_in_place() {
    let mut bytes = [1_u8, 2, 3];
    let at = bytes.as_mut_ptr();
    exchange(&BytesIn(at.cast()), &BytesOut(at.cast()), 3, |byte| byte * 2).unwrap();
    assert_eq!(bytes, [2, 4, 6]);
    let mut sent = Vec::new();
    let null = (BytesIn(std::ptr::null()), BytesOut(std::ptr::null_mut()));
    exchange(&null.0, &null.1, 2, |byte| {
        sent.push(byte);
        0
    })
    .unwrap();
    assert_eq!(sent, [0xff, 0xff]);
}

#[test]
fn a_text_that_is_not_utf_8_is_an_error() {
    assert_eq!(Text(c"sd/kingston".as_ptr()).get("name").unwrap(), "sd/kingston");
    let error = Text(c"\xff".as_ptr()).get("name").unwrap_err();
    assert_eq!(error.code, Code::ERROR_ARGUMENT);
}
