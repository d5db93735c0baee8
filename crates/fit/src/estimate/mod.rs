//! Estimates of numbers from observations: values, intervals, and the numbers that the data do not determine.
