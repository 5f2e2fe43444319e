// Package access says who asks, and what they may.
//
// It may import the root, budget, engine and store. The one thing to know: a context without a principal is that of the local
// operator, who holds the data directory and may do everything; whoever serves others puts a principal in (With).
package access
