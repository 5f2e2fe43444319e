// Package access authenticates the callers of an engine and enforces their permissions.
//
// It may import the root, budget, engine and store. The one thing to know: a context without a
// principal is one of the local operator, who has access to the data directory and may do
// everything. Code that serves other callers puts their principal into the context ([WithAttempt]).
package access
