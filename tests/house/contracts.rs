//! Promises that can be read off the catalog.
