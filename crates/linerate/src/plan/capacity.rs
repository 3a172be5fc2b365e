//! The capacity model: max-flow over resources, its minimum cut, and what lifting one resource gains.
