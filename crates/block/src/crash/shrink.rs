//! Reduction of a list of operations that makes a test fail.

/// Removes elements from `list` as long as `fails` remains true (delta debugging): large pieces first, and single
/// elements at the end. The result is minimal, but not always the shortest: it no longer fails if any single element is
/// removed.
///
/// # Panics
/// Panics if `fails` is false for the whole list, because then the failure cannot be reproduced.
pub fn minimal<T: Clone>(list: &[T], mut fails: impl FnMut(&[T]) -> bool) -> Vec<T> {
    assert!(fails(list), "the failure cannot be reproduced");
    let mut list = list.to_vec();
    let mut piece = list.len().div_ceil(2).max(1);
    loop {
        let (mut at, mut removed) = (0, false);
        while at < list.len() {
            let mut shorter = list.clone();
            shorter.drain(at..(at + piece).min(list.len()));
            if fails(&shorter) {
                list = shorter;
                removed = true;
            } else {
                at += piece;
            }
        }
        match piece {
            1 if !removed => return list,
            1 => {}
            _ => piece = piece.div_ceil(2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_reduced_to_the_elements_that_fail_together() {
        let list: Vec<u32> = (0..100).collect();
        let fails = |list: &[u32]| list.contains(&17) && list.contains(&80);
        assert_eq!(minimal(&list, fails), [17, 80]);
        assert_eq!(minimal(&list, |_| true), [0; 0]);
    }

    #[test]
    #[should_panic(expected = "cannot be reproduced")]
    fn a_list_that_does_not_fail_is_an_error() {
        minimal(&[1], |_| false);
    }
}
