// Package linearizability tests linearizability (R17, I7): whether the results that several clients
// of a store have seen could come from some sequential order of their operations. It covers claims
// and settlements of calls and spawn handles, compare-and-set of files, and the first writer of a
// task's end.
//
// It contains tests only, and may import nothing of ours outside them. The one thing to know: an
// in-doubt commit may or may not have happened, and the models allow both; an operation that
// returned a result has happened.
package linearizability
